//! Wrong rules must be detected: errors that decoders are known to make, found by the enumeration.

use super::trees::{Kind, Trees, distribution_with, trees};
use super::*;
use crate::enumerate::Branch;
use crate::tree::DistributionId;

/// Hands over a node of a drafter's tree, given its index, with another distribution or not at all.
type Tale = fn(&DraftTree, usize, &mut DraftTree, &mut Vec<Option<usize>>);

/// A drafter that misreports its drafts.
struct Liar<'a>(Trees<'a>, Tale);

impl Drafter for Liar<'_> {
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let mut honest = DraftTree::default();
        honest.clear(text.len());
        self.0.draft(way, text, state, shape, chance, &mut honest)?;
        // The new index of each node.
        let mut told = Vec::new();
        (0..honest.len()).for_each(|node| (self.1)(&honest, node, tree, &mut told));
        Ok(())
    }
}

/// Hands over a node with another distribution.
fn tell(
    honest: &DraftTree,
    node: usize,
    tree: &mut DraftTree,
    told: &mut Vec<Option<usize>>,
    origin: impl FnOnce(&mut DraftTree) -> Option<Origin>,
) {
    let original = honest.nodes()[node];
    let parent = original.parent.map(|parent| told[parent]);
    let new = match (parent, origin(tree)) {
        (Some(None), _) | (_, None) => None,
        (parent, Some(origin)) => Some(tree.push(parent.flatten(), original.token, origin)),
    };
    told.push(new);
}

fn distribution_of(honest: &DraftTree, node: usize) -> Vec<f64> {
    match honest.nodes()[node].origin {
        Origin::Drawn(distribution) | Origin::DrawnWithout(distribution) => {
            honest.distribution_of(distribution).to_vec()
        }
        Origin::Guess => panic!("a guess has no distribution"),
    }
}

fn with_distribution(tree: &mut DraftTree, distribution: Vec<f64>) -> DistributionId {
    tree.distribution(|out| *out = distribution)
}

/// The distance from the distribution of plain decoding when drafts of a kind are misreported in this way.
fn distance_of(transforms: &str, kind: Kind, shape: TreeShape, tale: Tale) -> f64 {
    let (model, target) = (Table::noise(TOKENS, 1), target(chain(transforms), Sampler::Categorical));
    let drafted = distribution(|chance| {
        let (liar, length) = (Liar(trees(&target, kind), tale), DraftLength::Tree(shape));
        let run = Speculative::new(model.clone(), &target, &PROMPT, limits(3), liar, length, chance);
        run.unwrap().map(Result::unwrap).collect()
    });
    distance(&plain_distribution(&model, &target, 3), &drafted)
}

#[test]
fn a_raw_q_is_seen() {
    let honest: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| {
            Some(Origin::Drawn(with_distribution(tree, distribution_of(honest, node))))
        });
    };
    // The distribution before the draft's own transforms, flattened here.
    let raw: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| {
            let raw = distribution_of(honest, node).iter().map(|q| (q + 0.1) / 1.4).collect();
            Some(Origin::Drawn(with_distribution(tree, raw)))
        });
    };
    for shape in [TreeShape::chain(2), TreeShape::levels(&[2])] {
        assert!(distance_of("top-k", Kind::WithReplacement, shape, honest) < 1e-12);
        assert!(distance_of("top-k", Kind::WithReplacement, shape, raw) > 1e-3);
    }
}

/// The `q` of the previous node.
#[test]
fn the_distribution_of_another_position_is_seen() {
    let shifted: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| {
            let before = distribution_of(honest, node.saturating_sub(1));
            let before = before.iter().map(|q| (q + 1e-3) / (1.0 + 1e-3 * TOKENS as f64)).collect();
            Some(Origin::Drawn(with_distribution(tree, before)))
        });
    };
    assert!(distance_of("none", Kind::WithReplacement, TreeShape::chain(2), shifted) > 1e-3);
}

/// The likeliest tokens, handed over as if they had been sampled.
#[test]
fn guesses_that_pass_for_draws_are_seen() {
    let as_drawn: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| Some(Origin::Drawn(with_distribution(tree, vec![0.25; TOKENS]))));
    };
    for shape in [TreeShape::chain(1), TreeShape::levels(&[2])] {
        assert!(distance_of("none", Kind::Guesses, shape, as_drawn) > 1e-3);
    }
}

#[test]
fn dropped_duplicates_are_seen() {
    let once: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| {
            let DraftNode { token, parent, .. } = honest.nodes()[node];
            let is_new = honest.children(parent).all(|(i, other)| i >= node || other.token != token);
            is_new.then(|| Origin::Drawn(with_distribution(tree, distribution_of(honest, node))))
        });
    };
    assert!(distance_of("none", Kind::WithReplacement, TreeShape::levels(&[3]), once) > 1e-3);
}

/// Samples without replacement that are judged as if each came from the whole distribution.
#[test]
fn forgotten_replacement_is_seen() {
    let whole: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| {
            Some(Origin::Drawn(with_distribution(tree, distribution_of(honest, node))))
        });
    };
    assert!(distance_of("none", Kind::WithoutReplacement, TreeShape::levels(&[2]), whole) > 1e-3);
}

/// Drafts that a drafter's own distribution finds improbable are not handed over.
#[test]
fn dropping_by_the_token_drawn_is_seen() {
    let likely: Tale = |honest, node, tree, told| {
        tell(honest, node, tree, told, |tree| {
            let distribution = distribution_of(honest, node);
            (distribution[honest.nodes()[node].token as usize] > 0.3)
                .then(|| Origin::Drawn(with_distribution(tree, distribution)))
        });
    };
    for shape in [TreeShape::chain(2), TreeShape::levels(&[2])] {
        assert!(distance_of("none", Kind::WithReplacement, shape, likely) > 1e-3);
    }
}

/// A chance that is used incorrectly.
struct Wrong<'a, 'b> {
    right: &'a mut Branch,
    fault: &'b Fault,
    /// The position of the last coin, and the part of the unit interval that its number is known to exceed.
    coin: (usize, f64),
}

enum Fault {
    None,
    /// Chooses only the likeliest token after a rejection.
    FilteredResidual,
    /// Judges all drafts of a position by one number.
    OneCoin,
}

impl Chance for Wrong<'_, '_> {
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId> {
        self.right.token(sampler, row, position)
    }
    fn draft(&mut self, distribution: &[f64], position: usize, index: usize) -> TokenId {
        self.right.draft(distribution, position, index)
    }
    fn accept(&mut self, probability: f64, position: usize, index: usize) -> bool {
        if !matches!(self.fault, Fault::OneCoin) {
            return self.right.accept(probability, position, index);
        }
        if self.coin.0 != position {
            self.coin = (position, 0.0);
        }
        // The number is known not to be below the rejected probabilities.
        let below = self.coin.1;
        let left = if below < 1.0 { ((probability - below) / (1.0 - below)).max(0.0) } else { 0.0 };
        let accepted = self.right.accept(left, position, index);
        self.coin.1 = below.max(probability);
        accepted
    }
    fn residual(&mut self, distribution: &[f64], position: usize) -> TokenId {
        let best = distribution.iter().copied().fold(0.0, f64::max);
        match self.fault {
            Fault::FilteredResidual => distribution.iter().position(|&p| p == best).unwrap() as TokenId,
            _ => self.right.residual(distribution, position),
        }
    }
}

#[test]
fn chance_that_is_used_wrongly_is_seen() {
    let (model, target) = (Table::noise(TOKENS, 1), target(chain("soft watermark"), Sampler::Categorical));
    let plain = plain_distribution(&model, &target, 3);
    let distance = |fault: Fault, kind, shape| {
        let drafted = distribution(|branch| {
            let chance = Wrong { right: branch, fault: &fault, coin: (0, 0.0) };
            let (drafter, length) = (trees(&target, kind), DraftLength::Tree(shape));
            let run = Speculative::new(model.clone(), &target, &PROMPT, limits(3), drafter, length, chance);
            run.unwrap().map(Result::unwrap).collect()
        });
        distance(&plain, &drafted)
    };
    let three = TreeShape::levels(&[3]);
    for shape in [TreeShape::chain(2), three] {
        assert!(distance(Fault::None, Kind::WithReplacement, shape) < 1e-12);
        assert!(distance(Fault::FilteredResidual, Kind::WithReplacement, shape) > 1e-3);
    }
    assert!(distance(Fault::None, Kind::WithoutReplacement, three) < 1e-12);
    assert!(distance(Fault::OneCoin, Kind::WithoutReplacement, three) > 1e-3);
}

/// A sequence with incorrect rows.
struct Misread {
    right: Box<dyn Sequence>,
    fault: Misreading,
    tokens: Vec<TokenId>,
}

#[derive(Clone, Copy)]
enum Misreading {
    None,
    /// All but the first row are replaced by the row before them.
    Neighbour,
    /// Penalties only count the tokens before the drafts.
    PenaltiesAtTheRoot,
    /// Penalties count the tokens up to each.
    Penalties,
}

fn penalties() -> Chain {
    Chain::new().then(CountPenalty::new(0.9, 0.7).unwrap())
}

impl Sequence for Misread {
    fn len(&self) -> usize {
        self.right.len()
    }
    fn capacity(&self) -> usize {
        self.right.capacity()
    }
    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        self.right.forward(batch, rows)?;
        let first = batch.first_wanted();
        self.tokens.extend_from_slice(batch.tokens);
        let from = self.tokens.len() - batch.tokens.len();
        for i in (0..rows.count()).rev() {
            match self.fault {
                Misreading::None => (),
                Misreading::Neighbour => {
                    let before = rows.row(i.saturating_sub(1)).to_vec();
                    rows.row_mut(i).copy_from_slice(&before);
                }
                Misreading::PenaltiesAtTheRoot | Misreading::Penalties => {
                    let is_root = matches!(self.fault, Misreading::PenaltiesAtTheRoot);
                    let end = from + first + if is_root { 0 } else { i };
                    let chain = penalties();
                    let mut state = chain.start(&PROMPT);
                    self.tokens[PROMPT.len()..=end].iter().for_each(|&token| chain.advance(&mut state, token));
                    let mut row = Row::from(rows.row(i).to_vec());
                    chain.apply(&state, &mut row);
                    rows.row_mut(i).copy_from_slice(row.logits());
                }
            }
        }
        Ok(())
    }
    fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.right.truncate(length);
    }
    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let kept: Vec<TokenId> = path.iter().map(|at| self.tokens[from + at]).collect();
        self.tokens.truncate(from);
        self.tokens.extend(kept);
        self.right.keep(from, path)
    }
    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(Self { right: self.right.fork()?, fault: self.fault, tokens: self.tokens.clone() }))
    }
}

/// A transform that does not learn how probable tokens were.
struct Deaf(Mirostat);

impl Transform for Deaf {
    type State = f64;
    fn start(&self, prompt: &[TokenId]) -> f64 {
        self.0.start(prompt)
    }
    fn apply(&self, state: &f64, row: &mut Row) {
        self.0.apply(state, row);
    }
    fn advance(&self, state: &mut f64, token: TokenId) {
        self.0.advance(state, token);
    }
}

#[test]
fn a_bound_that_hears_of_no_surprise_is_seen() {
    let model = Table::noise(TOKENS, 1);
    let hearing = || Mirostat::new(1.1, 1.0).unwrap();
    let distribution = |chain| plain_distribution(&model, &target(chain, Sampler::Categorical), 3);
    let (right, wrong) = (distribution(Chain::new().then(hearing())), distribution(Chain::new().then(Deaf(hearing()))));
    assert!(distance(&right, &wrong) > 0.05, "{}", distance(&right, &wrong));
    assert!(distance(&right, &distribution(Chain::new())) > 0.05, "it cuts nothing");
}

#[test]
fn rows_of_another_prefix_are_seen() {
    let model = Table::noise(TOKENS, 1);
    let bare = target(Chain::new(), Sampler::Categorical);
    let distance = |fault, transforms: Chain| {
        let plain = plain_distribution(&model, &target(transforms, Sampler::Categorical), 3);
        let drafted = distribution(|chance| {
            let (drafter, length) = (trees(&bare, Kind::WithReplacement), DraftLength::Fixed(2));
            let run = Speculative::new(model.clone(), &bare, &PROMPT, limits(3), drafter, length, chance);
            let mut run = run.unwrap();
            let right = model.clone().begin(64).unwrap();
            run.sequence = Box::new(Misread { right, fault, tokens: Vec::new() });
            run.map(Result::unwrap).collect()
        });
        distance(&plain, &drafted)
    };
    assert!(distance(Misreading::None, Chain::new()) < 1e-12);
    assert!(distance(Misreading::Neighbour, Chain::new()) > 1e-3);
    assert!(distance(Misreading::Penalties, penalties()) < 1e-12);
    assert!(distance(Misreading::PenaltiesAtTheRoot, penalties()) > 1e-3);
}

/// Typical acceptance is not lossless, and is not reported as lossless.
#[test]
fn typical_acceptance_is_seen() {
    let (model, target) = (Table::noise(TOKENS, 1), target(Chain::new(), Sampler::Categorical));
    let plain = plain_distribution(&model, &target, 3);
    for shape in [TreeShape::chain(2), TreeShape::levels(&[2, 1])] {
        let typical = Rule::Typical(Typical::default());
        let drafted = distribution_with(&model, &target, Kind::Guesses, shape, typical, 3);
        assert!(distance(&plain, &drafted) > 1e-2);
        assert!((drafted.values().sum::<f64>() - 1.0).abs() < 1e-12);
        // At temperature 0 it is greedy verification.
        let greedy = Target { transforms: Chain::new(), sampler: Sampler::Greedy, random: Random::new(0) };
        let drafted = distribution_with(&model, &greedy, Kind::Guesses, shape, typical, 3);
        assert!(distance(&plain_distribution(&model, &greedy, 3), &drafted) < 1e-12);
    }
    assert!(!Rule::Typical(Typical::default()).is_lossless() && Rule::EachToken.is_lossless());
}
