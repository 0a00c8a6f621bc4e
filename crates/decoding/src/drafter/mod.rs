//! Drafters, which guess how a text continues.

mod ahead;
mod assistant;
mod block;
pub(crate) mod children;
mod feature;
pub(crate) mod grow;
mod lookup;
mod lookup_or;
mod medusa;
mod small_model;
mod some_tokens;
mod suffix_automaton;

use verdigris_logits::TokenId;
use verdigris_logits::transform::ChainState;
use verdigris_models::Rows;

use crate::chance::Chance;
use crate::target::DecodeError;
#[cfg(test)]
use crate::tree::Origin;
use crate::tree::{DraftTree, TreeShape};

pub use assistant::AssistantDrafter;
pub use block::BlockDrafter;
pub use children::Coupling;
pub use feature::FeatureDrafter;
pub use lookup::Lookup;
pub use lookup_or::LookupOr;
pub use medusa::Medusa;
pub use small_model::DraftModel;

/// The maximum number of ways of drafting of one drafter.
pub const WAYS: usize = 4;

/// Guesses the tokens that follow a text.
///
/// # Contract
/// - The tree gets at most as many nodes as the shape has, and none deeper. A drafter that does not build trees drafts
///   a chain of the shape's depth. A token that the target does not have is rejected.
/// - Whether and where a draft is made may depend on the text and on the drafts before it, but not on the sampled
///   token: a sampled token is always added.
/// - A sampled token comes with the distribution that it was sampled from through `chance`; [`DraftTree::draw`] and
///   [`DraftTree::draw_without`] ensure this. Distributions sum to one.
/// - Drafts never influence the distribution of the text, only the speed at which it is written.
pub trait Drafter {
    /// Drafts in one of its ways after `text` (prompt and output) into an empty `tree`. `state` is the state of the
    /// target's transforms after the text.
    ///
    /// # Errors
    /// Those of the model that drafts.
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError>;

    /// The ways of drafting, as numbers below [`WAYS`], that are possible after a text. There is at least one, and the
    /// first is used as long as nothing has been measured. Drafts of one way may be accepted far more often than those
    /// of another, so costs and gains are measured for each way separately, and the most promising one is used.
    fn ways(&mut self, _text: &[TokenId]) -> &'static [usize] {
        &[0]
    }

    /// The approximate number of tokens of a text to read before it can draft after it in one of its ways: the extra
    /// cost of a first draft compared with later ones.
    fn unread(&self, _way: usize, _text: &[TokenId]) -> usize {
        0
    }

    /// The maximum number of children that it gives a node, 1 for a drafter of chains.
    fn most_children(&self) -> usize {
        1
    }

    /// Whether it drafts from the target's own computations, which are then [passed to it](Drafter::observe).
    fn reads_features(&self) -> bool {
        false
    }

    /// The layers of the target after which it reads states, as in [`Rows::with_layers`]; if there are none, it reads
    /// the last ones.
    fn layers(&self) -> &[usize] {
        &[]
    }

    /// Receives a call of the target: the tokens of its batch, the rows computed for them, and the indices of those
    /// that are part of the text, in order. Every token of the text, prompt included, is passed once, except the last
    /// one and those not read yet.
    ///
    /// # Errors
    /// Those of the model that drafts.
    fn observe(&mut self, _tokens: &[TokenId], _rows: &Rows, _kept: &[usize]) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// Drafts nothing.
#[derive(Clone, Copy, Debug)]
pub struct Undrafted;

impl Drafter for Undrafted {
    fn draft(
        &mut self,
        _: usize,
        _: &[TokenId],
        _: &ChainState,
        _: &TreeShape,
        _: &mut dyn Chance,
        _: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        Ok(())
    }
}

impl<D: Drafter + ?Sized> Drafter for Box<D> {
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        (**self).draft(way, text, state, shape, chance, tree)
    }

    fn ways(&mut self, text: &[TokenId]) -> &'static [usize] {
        (**self).ways(text)
    }

    fn unread(&self, way: usize, text: &[TokenId]) -> usize {
        (**self).unread(way, text)
    }

    fn most_children(&self) -> usize {
        (**self).most_children()
    }

    fn reads_features(&self) -> bool {
        (**self).reads_features()
    }

    fn layers(&self) -> &[usize] {
        (**self).layers()
    }

    fn observe(&mut self, tokens: &[TokenId], rows: &Rows, kept: &[usize]) -> Result<(), DecodeError> {
        (**self).observe(tokens, rows, kept)
    }
}

/// Drafts in a drafter's first way. Returns the tokens, each with its parent and the distribution that it was sampled
/// from.
#[cfg(test)]
pub(crate) fn drafts(
    drafter: &mut dyn Drafter,
    text: &[TokenId],
    state: &ChainState,
    shape: TreeShape,
    chance: &mut dyn Chance,
) -> Vec<(TokenId, Option<usize>, Option<Vec<f64>>)> {
    let mut tree = DraftTree::default();
    tree.clear(text.len());
    let way = drafter.ways(text)[0];
    drafter.draft(way, text, state, &shape, chance, &mut tree).unwrap();
    let distribution = |i: usize| {
        let node = &tree.nodes()[i];
        let mut rest = Vec::new();
        match node.origin {
            Origin::Guess => return None,
            Origin::Drawn(distribution) => rest.extend_from_slice(tree.distribution_of(distribution)),
            Origin::DrawnWithout(distribution) => assert!(tree.rest_of(distribution, node.parent, i, &mut rest)),
        }
        Some(rest)
    };
    tree.nodes().iter().enumerate().map(|(i, node)| (node.token, node.parent, distribution(i))).collect()
}
