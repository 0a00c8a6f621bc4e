//! The exact distribution of texts with trees of drafts: every rule, every origin of a draft, every transform.

use super::*;

/// The origin of the children of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    WithReplacement,
    WithoutReplacement,
    Guesses,
    /// In turn: sampled without replacement, a guess, sampled from the distribution of another model, and sampled from
    /// the first distribution again.
    Mixed,
}

pub(super) const KINDS: [Kind; 4] = [Kind::WithReplacement, Kind::WithoutReplacement, Kind::Guesses, Kind::Mixed];

/// Drafts trees of a kind from the rows of tables, with the target's transforms.
pub(super) struct Trees<'a> {
    pub(super) tables: [Arc<Table>; 2],
    pub(super) target: &'a Target,
    pub(super) kind: Kind,
}

impl Drafter for Trees<'_> {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let mut after: Vec<Option<(usize, ChainState)>> = vec![None; shape.len()];
        let parents = std::iter::once(None).chain((0..shape.len()).map(Some));
        for asked in parents {
            let (parent, state) = match asked {
                None => (None, state.clone()),
                Some(node) => match after[node].clone() {
                    Some((parent, state)) => (Some(parent), state),
                    None => continue,
                },
            };
            let last = parent.map_or(text[text.len() - 1], |parent| tree.nodes()[parent].token);
            let [first, second] = [0, 1].map(|i| {
                let mut row = Row::from(self.tables[i].row(last).to_vec());
                self.target.transforms.apply(&state, &mut row);
                Sampler::Categorical.distribution(&row)
            });
            // As in a draft model, nothing is drafted if nothing is allowed.
            if first.iter().chain(&second).sum::<f64>() < 1.5 {
                continue;
            }
            let best: Vec<u32> = {
                let mut order: Vec<u32> = (0..first.len() as u32).collect();
                order.sort_by(|&a, &b| first[b as usize].total_cmp(&first[a as usize]));
                order
            };
            let distributions = [first, second].map(|distribution| tree.distribution(|out| *out = distribution));
            for (rank, asked) in shape.children(asked).enumerate() {
                let child = match (self.kind, rank % 4) {
                    (Kind::WithReplacement, _) | (Kind::Mixed, 3) => Some(tree.draw(parent, distributions[0], chance)),
                    (Kind::Mixed, 2) => Some(tree.draw(parent, distributions[1], chance)),
                    (Kind::WithoutReplacement, _) | (Kind::Mixed, 0) => {
                        tree.draw_without(parent, distributions[0], chance)
                    }
                    (Kind::Guesses, _) | (Kind::Mixed, _) => Some(tree.guess(parent, best[rank % best.len()])),
                };
                let Some(child) = child else { break };
                let mut state = state.clone();
                self.target.transforms.advance(&mut state, tree.nodes()[child].token);
                after[asked] = Some((child, state));
            }
        }
        Ok(())
    }

    fn most_children(&self) -> usize {
        3
    }
}

pub(super) fn trees(target: &Target, kind: Kind) -> Trees<'_> {
    Trees { tables: [2, 3].map(|seed| Table::noise(TOKENS, seed)), target, kind }
}

/// The distribution of texts of `n` tokens with trees of a shape, by taking every branch.
pub(super) fn distribution_with(
    model: &Arc<Table>,
    target: &Target,
    kind: Kind,
    shape: TreeShape,
    rule: Rule,
    n: usize,
) -> Texts {
    distribution(|chance| {
        let (drafter, length) = (trees(target, kind), DraftLength::Tree(shape));
        let run = Speculative::new(model.clone(), target, &PROMPT, limits(n), drafter, length, chance);
        run.unwrap().judged_by(rule).map(Result::unwrap).collect()
    })
}

pub(super) fn shapes() -> [TreeShape; 5] {
    // The last one has leaves at different depths.
    let uneven = TreeShape::levels(&[2]).with(Some(1)).with(Some(2));
    [TreeShape::chain(2), TreeShape::chain(3), TreeShape::levels(&[3]), TreeShape::levels(&[2, 1]), uneven]
}

#[test]
fn trees_never_change_the_distribution() {
    let model = Table::noise(TOKENS, 1);
    for name in chains().into_iter().map(|(name, _)| name) {
        for sampler in [Sampler::Categorical, Sampler::Greedy] {
            let target = target(chain(name), sampler);
            let plain = plain_distribution(&model, &target, 3);
            for shape in shapes() {
                for kind in KINDS {
                    for rule in [Rule::EachToken, Rule::Block] {
                        if rule == Rule::Block && !shape.is_chain() {
                            continue;
                        }
                        let drafted = distribution_with(&model, &target, kind, shape, rule, 3);
                        let distance = distance(&plain, &drafted);
                        assert!(distance < 1e-12, "{name}, {kind:?}, {rule:?}, {shape:?}: {distance}");
                    }
                }
            }
        }
    }
}

/// The same for a target that is steered by experts, one of which drafts.
#[test]
fn trees_never_change_the_distribution_of_a_steered_target() {
    let (base, expert, anti) = (Table::noise(TOKENS, 1), Table::noise(TOKENS, 2), Table::noise(TOKENS, 6));
    let pair = Pair::new(expert, anti, Alpha::constant(0.8).unwrap());
    let steered: Arc<dyn LanguageModel> = Arc::new(Steered::new(base, vec![pair]));
    let target = target(chain("all"), Sampler::Categorical);
    let write = |kind, shape, rule| {
        distribution(|chance| {
            let (drafter, length) = (trees(&target, kind), DraftLength::Tree(shape));
            let run = Speculative::new(steered.clone(), &target, &PROMPT, limits(3), drafter, length, chance);
            run.unwrap().judged_by(rule).map(Result::unwrap).collect()
        })
    };
    let plain = write(Kind::Guesses, TreeShape::EMPTY, Rule::EachToken);
    for shape in shapes() {
        for kind in KINDS {
            for rule in [Rule::EachToken, Rule::Block] {
                assert!(distance(&plain, &write(kind, shape, rule)) < 1e-12, "{kind:?}, {rule:?}, {shape:?}");
            }
        }
    }
}

/// A noise watermark samples with the key, and a draft is accepted if it is the token that the key selects: drafts
/// change neither the text nor its detection.
#[test]
fn a_mark_of_noise_is_the_one_without_drafts() {
    let model = Table::noise(TOKENS, 1);
    let target = target(chain("noise watermark"), Sampler::Categorical);
    // No context occurs twice in so few tokens; otherwise it would be sampled without the key.
    let certain: Texts = plain_distribution(&model, &target, 1);
    assert_eq!(certain.len(), 1, "the key decides: {certain:?}");
    for kind in KINDS {
        let drafted = distribution_with(&model, &target, kind, TreeShape::levels(&[2]), Rule::EachToken, 1);
        assert_eq!(drafted.keys().collect::<Vec<_>>(), certain.keys().collect::<Vec<_>>());
    }
}

/// If a model samples, and drafts are guesses, a tree does not change any token either.
#[test]
fn trees_of_guesses_give_the_text_of_plain_decoding() {
    let model = Table::deep(TOKENS, 1, 200);
    for name in chains().into_iter().map(|(name, _)| name) {
        let (mut drawn, mut accepted) = (0, 0);
        for seed in 0..20 {
            let target = Target { random: Random::new(seed), ..target(chain(name), Sampler::Categorical) };
            let plain = Plain::new(model.clone(), &target, &PROMPT, limits(20)).unwrap();
            let plain: Vec<u32> = plain.map(Result::unwrap).collect();
            for shape in shapes() {
                for model in [model.clone(), model.drawing()] {
                    let (length, chance) = (DraftLength::Tree(shape), Seeded(target.random));
                    let shared = drafter(model.clone(), &target, Coupling::Shared);
                    let drafters: [Box<dyn Drafter>; 2] = [Box::new(trees(&target, Kind::Guesses)), Box::new(shared)];
                    for drafter in drafters {
                        let run =
                            Speculative::new(model.clone(), &target, &PROMPT, limits(20), drafter, length, chance);
                        let mut run = run.unwrap();
                        assert_eq!(run.by_ref().map(Result::unwrap).collect::<Vec<u32>>(), plain, "{name}, {shape:?}");
                        accepted += run.acceptance().accepted;
                    }
                    drawn += model.drawn();
                }
            }
        }
        assert!(draws_where_it_can(name, drawn), "{name}");
        assert!(accepted > 100, "{name}: {accepted}");
    }
}

/// A twin that drafts trees is right about the first of siblings in the whole tree: its rows are those of the target,
/// whose cache keeps the path.
#[test]
fn a_tree_of_a_twin_is_never_rejected() {
    let model = Table::deep(8, 3, 200);
    let soft = watermark_of(8, Strength::soft(3.0).unwrap());
    let transforms = Chain::new().then(CountPenalty::new(0.5, 0.5).unwrap()).then(soft);
    let target = target(transforms, Sampler::Categorical);
    for shape in [TreeShape::levels(&[2, 2]), TreeShape::levels(&[3, 1, 2]), shapes()[4]] {
        for coupling in [Coupling::Independent, Coupling::Shared] {
            let drafter = drafter(model.clone(), &target, coupling);
            let limits = Limits { max_tokens: 120, end: Vec::new() };
            let (length, chance) = (DraftLength::Tree(shape), Seeded(target.random));
            let mut run = Speculative::new(model.clone(), &target, &PROMPT, limits, drafter, length, chance).unwrap();
            assert_eq!(run.by_ref().map(Result::unwrap).count(), 120);
            // All but the last token of each call are drafts. The first children go as deep as the first of each level.
            let depth = std::iter::successors(shape.children(None).next(), |&node| shape.children(Some(node)).next());
            let calls = 120usize.div_ceil(depth.count() + 1);
            let Acceptance { calls: got, accepted, .. } = run.acceptance();
            // Near the end there is no room for the whole tree.
            assert!(got - calls <= 1 && accepted == 120 - got, "{shape:?}, {coupling:?}: {got} calls, {accepted}");
        }
    }
}
