//! Randomness from a seed, as users run it: no number is used for two decisions, and texts follow their distribution.

use super::*;

/// A decision: its kind, its position, and its index for drafts.
type Decision = (&'static str, usize, usize);

/// Records every decision before passing it on to a seed.
struct Noted<'a>(Seeded, &'a mut Vec<Decision>);

impl Chance for Noted<'_> {
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId> {
        self.1.push(("token", position, 0));
        self.0.token(sampler, row, position)
    }
    fn draft(&mut self, distribution: &[f64], position: usize, index: usize) -> TokenId {
        self.1.push(("draft", position, index));
        self.0.draft(distribution, position, index)
    }
    fn accept(&mut self, probability: f64, position: usize, index: usize) -> bool {
        self.1.push(("accept", position, index));
        self.0.accept(probability, position, index)
    }
    fn residual(&mut self, distribution: &[f64], position: usize) -> TokenId {
        self.1.push(("residual", position, 0));
        self.0.residual(distribution, position)
    }
}

/// The decisions of a text of 120 tokens, with a model and a drafter of eight tokens.
fn decisions(seed: u64, length: DraftLength, rule: Rule) -> Vec<Decision> {
    let target = Target { random: Random::new(seed), ..target(Chain::new(), Sampler::Categorical) };
    let drafter = drafter(Table::deep(8, 10, 200), &target, Coupling::Independent);
    let (model, limits) = (Table::deep(8, 9, 200), Limits { max_tokens: 120, end: Vec::new() });
    let mut decisions = Vec::new();
    let chance = Noted(Seeded(target.random), &mut decisions);
    let run = Speculative::new(model, &target, &PROMPT, limits, drafter, length, chance);
    assert_eq!(run.unwrap().judged_by(rule).map(Result::unwrap).count(), 120);
    decisions
}

/// Since different decisions have different numbers, as tested in [`crate::chance`], no number is used twice.
#[test]
fn no_decision_is_made_twice() {
    let lengths = [1, 2, 5].map(DraftLength::Fixed).into_iter().chain([DraftLength::Auto]);
    for (seed, length) in (0..).zip(lengths) {
        let decisions = decisions(seed, length, Rule::EachToken);
        let distinct: BTreeSet<&Decision> = decisions.iter().collect();
        assert_eq!(distinct.len(), decisions.len(), "{length:?}");
        if length != DraftLength::Auto {
            let of = |kind| decisions.iter().filter(|decision| decision.0 == kind).count();
            assert!(["draft", "accept", "residual"].into_iter().all(|kind| of(kind) > 30), "{length:?}");
            // A position that is drafted again has another index.
            let again: BTreeSet<usize> = decisions.iter().filter(|d| d.0 == "draft").map(|d| d.1).collect();
            assert_eq!(again.len() < of("draft"), length != DraftLength::Fixed(1), "{length:?}");
        }
    }
}

/// The same for blocks of drafts, which are judged from their ends.
#[test]
fn no_decision_about_a_block_is_made_twice() {
    for (seed, length) in (0..).zip([2, 5]) {
        let decisions = decisions(seed, DraftLength::Fixed(length), Rule::Block);
        let distinct: BTreeSet<&Decision> = decisions.iter().collect();
        assert_eq!(distinct.len(), decisions.len(), "{length}");
        assert!(decisions.iter().filter(|decision| decision.0 == "accept").count() > 60, "{length}");
    }
}

/// Texts of many seeds compared with the distribution by its definition: chi-square over all texts of three tokens.
#[test]
fn texts_of_seeds_have_the_distribution_of_plain_decoding() {
    const SEEDS: u64 = 40_000;
    let model = Table::noise(TOKENS, 1);
    for name in ["none", "all", "constraint"] {
        let mut target = target(chain(name), Sampler::Categorical);
        let plain = plain_distribution(&model, &target, 3);
        for length in [1, 2, 3] {
            let mut counts: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
            for seed in 0..SEEDS {
                target.random = Random::new(seed);
                let drafter = drafter(Table::noise(TOKENS, 2), &target, Coupling::Independent);
                let (length, chance) = (DraftLength::Fixed(length), Seeded(target.random));
                let run = Speculative::new(model.clone(), &target, &PROMPT, limits(3), drafter, length, chance);
                *counts.entry(run.unwrap().map(Result::unwrap).collect()).or_default() += 1.0;
            }
            assert!(counts.keys().all(|text| plain.contains_key(text)), "{name}, {length}");
            // Rare texts share a cell.
            let (mut chi2, mut cells, mut rare) = (0.0, 0, (0.0, 0.0));
            for (text, p) in &plain {
                let (expected, count) = (p * SEEDS as f64, counts.get(text).copied().unwrap_or(0.0));
                if expected < 10.0 {
                    rare = (rare.0 + expected, rare.1 + count);
                } else {
                    (chi2, cells) = (chi2 + (count - expected).powi(2) / expected, cells + 1);
                }
            }
            if rare.0 > 10.0 {
                (chi2, cells) = (chi2 + (rare.1 - rare.0).powi(2) / rare.0, cells + 1);
            }
            // Chi-square has mean n and variance 2n: allow four and a half standard deviations, for its long tail.
            let n = f64::from(cells - 1);
            assert!(chi2 < n + 4.5 * (2.0 * n).sqrt(), "{name}, {length} drafts: {chi2} over {n} degrees of freedom");
        }
    }
}
