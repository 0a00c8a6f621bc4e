//! The expert of a steered model as its drafter.

use super::*;

fn steered() -> Arc<Steered> {
    let of = |seed| Table::deep(TOKENS, seed, 64);
    let pairs = [(5, 6, 0.8), (7, 8, -0.4)]
        .map(|(expert, anti, alpha)| Pair::new(of(expert), of(anti), Alpha::constant(alpha).unwrap()));
    Arc::new(Steered::new(of(1), pairs.into()))
}

/// Rows depend on all tokens before them, so a row kept for other tokens would be detected.
#[test]
fn an_expert_that_drafts_changes_no_distribution() {
    let steered = steered();
    for name in ["none", "all", "constraint and the rest", "constraint within three tokens"] {
        let target = target(chain(name), Sampler::Categorical);
        let plain: Texts = distribution(|chance| {
            let lookup = Lookup::default();
            let length = DraftLength::Fixed(0);
            let run = Speculative::new(steered.clone(), &target, &PROMPT, limits(3), lookup, length, chance);
            run.unwrap().map(Result::unwrap).collect()
        });
        let shapes = [TreeShape::chain(1), TreeShape::chain(2), TreeShape::chain(3), TreeShape::levels(&[2, 1])];
        for (shape, coupling) in
            shapes.into_iter().flat_map(|shape| [(shape, Coupling::Independent), (shape, Coupling::Shared)])
        {
            let drafted = distribution(|chance| {
                let (model, drafter) = steered.drafted_by_expert(&target.transforms, target.sampler, coupling).unwrap();
                let length = DraftLength::Tree(shape);
                let run = Speculative::new(model, &target, &PROMPT, limits(3), drafter, length, chance);
                run.unwrap().map(Result::unwrap).collect()
            });
            assert!(distance(&plain, &drafted) < 1e-12, "{name}, {shape:?}, {coupling:?}");
        }
    }
}

/// An expert reads each draft once, when drafting. In addition, a call only reads the last draft.
#[test]
fn what_the_expert_has_drafted_it_does_not_read_again() {
    let (base, expert, anti) = (Table::deep(8, 1, 200), Table::deep(8, 1, 200), Table::noise(8, 1));
    let pair = Pair::new(expert.clone(), anti.clone(), Alpha::constant(1e-9).unwrap());
    let steered = Arc::new(Steered::new(base, vec![pair]));
    let target = target(Chain::new(), Sampler::Greedy);
    let limits = Limits { max_tokens: 60, end: Vec::new() };
    let (model, drafter) =
        steered.drafted_by_expert(&target.transforms, target.sampler, Coupling::Independent).unwrap();
    let chance = Seeded(target.random);
    let mut run = Speculative::new(model, &target, &PROMPT, limits, drafter, DraftLength::Fixed(4), chance).unwrap();
    assert_eq!(run.by_ref().map(Result::unwrap).count(), 60);
    let acceptance = run.acceptance();
    // It agrees with its base, so every draft is accepted: five tokens per call.
    assert_eq!((acceptance.calls, acceptance.drafted, acceptance.accepted), (12, 48, 48));
    // Four to draft, the first with the tokens not read yet, and one for the row after the last.
    assert_eq!((anti.calls(), expert.calls()), (12, 12 * 5));
}

#[test]
fn without_an_expert_nobody_drafts() {
    let steered = Arc::new(Steered::new(Table::noise(4, 1), Vec::new()));
    let target = target(Chain::new(), Sampler::Greedy);
    assert!(steered.drafted_by_expert(&target.transforms, target.sampler, Coupling::Shared).is_none());
}
