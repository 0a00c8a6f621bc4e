//! The exact distribution when the number of drafts depends on measurements, with a clock that makes drafting pay off.

use std::cell::Cell;

use super::trees::{Kind, trees};
use super::*;
use crate::draft_length::TRIALS;
use crate::drafter::{LookupOr, WAYS};

/// A call takes a second for any number of rows, and its drafts a millisecond: the clock is read when drafting begins,
/// when the drafts are ready, and at the end of the call.
fn drafting_pays() -> impl FnMut() -> Duration + Send {
    let (mut reads, mut now) = (0, Duration::ZERO);
    move || {
        now += [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(1)][reads % 3];
        reads += 1;
        now
    }
}

/// Counts drafts, separately for the first calls and for later ones.
struct Counted<'a, D>(D, usize, &'a Cell<[usize; 2]>);

impl<D: Drafter> Drafter for Counted<'_, D> {
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        self.0.draft(way, text, state, shape, chance, tree)?;
        // Only calls with drafts come here, of which the first two are trials.
        let mut counts = self.2.get();
        counts[usize::from(self.1 >= 2)] += tree.len();
        self.1 += 1;
        self.2.set(counts);
        Ok(())
    }
}

/// Two tokens per position keep the branches countable, and the text is long enough for calls whose length was chosen
/// after the trials.
#[test]
fn a_measured_number_of_drafts_does_not_change_the_distribution() {
    const LENGTH: usize = 8;
    assert_eq!(TRIALS, [0, 0, 3, 0, 2]);
    let soft = || watermark(Strength::soft(1.5).unwrap());
    let chains = [
        Chain::new().then(TopK::new(2).unwrap()),
        Chain::new().then(CountPenalty::new(0.4, 0.3).unwrap()).then(soft()).then(TopK::new(2).unwrap()),
    ];
    for (i, chain) in chains.into_iter().enumerate() {
        let target = target(chain, Sampler::Categorical);
        let model = Table::noise(TOKENS, 1);
        let plain = plain_distribution(&model, &target, LENGTH);
        let counts = Cell::new([0; 2]);
        for coupling in [Coupling::Independent, Coupling::Shared] {
            counts.take();
            let drafts = distribution(|chance| {
                let drafter = Counted(drafter(Table::noise(TOKENS, 2), &target, coupling), 0, &counts);
                let (limits, auto) = (limits(LENGTH), DraftLength::Auto);
                let mut run = Speculative::new(model.clone(), &target, &PROMPT, limits, drafter, auto, chance).unwrap();
                run.bookkeeping.clock = Box::new(drafting_pays());
                run.map(Result::unwrap).collect()
            });
            assert!(distance(&plain, &drafts) < 1e-12, "chain {i}, {coupling:?}: {}", distance(&plain, &drafts));
            assert!(counts.get().into_iter().all(|count| count > 100), "chain {i}, {coupling:?}: {counts:?}");
        }
    }
}

/// Lookup combined with a table: costs and gains are measured for each way of drafting.
#[test]
fn drafts_in_two_ways_do_not_change_the_distribution() {
    const LENGTH: usize = 8;
    let target = target(Chain::new().then(TopK::new(2).unwrap()), Sampler::Categorical);
    let model = Table::noise(TOKENS, 1);
    let plain = plain_distribution(&model, &target, LENGTH);
    for coupling in [Coupling::Independent, Coupling::Shared] {
        let ways = Cell::new([0; WAYS]);
        let drafts = distribution(|chance| {
            let small = drafter(Table::noise(TOKENS, 2), &target, coupling);
            let both = LookupOr::new(Lookup::default(), small);
            let (limits, auto) = (limits(LENGTH), DraftLength::Auto);
            let mut run = Speculative::new(model.clone(), &target, &PROMPT, limits, both, auto, chance).unwrap();
            run.bookkeeping.clock = Box::new(drafting_pays());
            let mut text = Vec::new();
            while let Some(token) = run.next() {
                text.push(token.unwrap());
                let mut counts = ways.get();
                counts[run.bookkeeping.way] += run.layout.tree.len();
                ways.set(counts);
            }
            text
        });
        assert!(distance(&plain, &drafts) < 1e-12, "{coupling:?}: {}", distance(&plain, &drafts));
        // No text is repetitive enough for the last way.
        assert!(ways.get()[..3].iter().all(|&count| count > 20), "{coupling:?}: {ways:?}");
    }
}

/// Trees that are chosen by earlier acceptance and by time.
#[test]
fn a_measured_tree_does_not_change_the_distribution() {
    const LENGTH: usize = 7;
    let transforms = Chain::new().then(CountPenalty::new(0.4, 0.3).unwrap()).then(TopK::new(2).unwrap());
    let target = target(transforms, Sampler::Categorical);
    let model = Table::noise(TOKENS, 1);
    let plain = plain_distribution(&model, &target, LENGTH);
    for kind in [Kind::WithoutReplacement, Kind::Guesses] {
        let wide = Cell::new(0);
        let drafts = distribution(|chance| {
            let (limits, auto) = (limits(LENGTH), DraftLength::Auto);
            let run = Speculative::new(model.clone(), &target, &PROMPT, limits, trees(&target, kind), auto, chance);
            let mut run = run.unwrap();
            run.bookkeeping.clock = Box::new(drafting_pays());
            let text = run.by_ref().map(Result::unwrap).collect();
            wide.set(wide.get() + usize::from(!run.layout.tree.is_chain()));
            text
        });
        assert!(distance(&plain, &drafts) < 1e-12, "{kind:?}: {}", distance(&plain, &drafts));
        assert!(wide.get() > 20, "{kind:?}: {} trees", wide.get());
    }
}

/// A choice that depends on sampled tokens must be detected: this drafter drops drafts that its own distribution finds
/// improbable.
#[test]
fn a_choice_by_the_token_drawn_is_seen() {
    struct Picky(DraftModel);
    impl Drafter for Picky {
        fn draft(
            &mut self,
            way: usize,
            text: &[TokenId],
            state: &ChainState,
            shape: &TreeShape,
            chance: &mut dyn Chance,
            tree: &mut DraftTree,
        ) -> Result<(), DecodeError> {
            let mut all = DraftTree::default();
            all.clear(text.len());
            self.0.draft(way, text, state, shape, chance, &mut all)?;
            for node in all.nodes() {
                let Origin::Drawn(distribution) = node.origin else { panic!("it draws") };
                if all.distribution_of(distribution)[node.token as usize] <= 0.4 {
                    break;
                }
                let distribution = tree.distribution(|out| *out = all.distribution_of(distribution).to_vec());
                tree.push(node.parent, node.token, Origin::Drawn(distribution));
            }
            Ok(())
        }
    }
    let target = target(Chain::new().then(TopK::new(2).unwrap()), Sampler::Categorical);
    let model = Table::noise(TOKENS, 1);
    let drafts = distribution(|chance| {
        let picky = Picky(drafter(Table::noise(TOKENS, 2), &target, Coupling::Independent));
        let mut run =
            Speculative::new(model.clone(), &target, &PROMPT, limits(6), picky, DraftLength::Auto, chance).unwrap();
        run.bookkeeping.clock = Box::new(drafting_pays());
        run.map(Result::unwrap).collect()
    });
    assert!(distance(&plain_distribution(&model, &target, 6), &drafts) > 1e-3);
}
