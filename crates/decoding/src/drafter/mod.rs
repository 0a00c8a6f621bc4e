//! Guesses at how a text goes on.

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

pub use children::Coupling;
pub use feature::FeatureDrafter;
pub use lookup::Lookup;
pub use lookup_or::LookupOr;
pub use medusa::Medusa;
pub use small_model::DraftModel;

/// The most ways of drafting that one drafter has.
pub const WAYS: usize = 4;

/// Guesses the tokens that follow a text.
///
/// # Contract
/// - The tree gets at most as many nodes as the shape has, and none deeper. A drafter that has no trees gives a chain
///   of the shape's depth. A token that the target does not have is rejected.
/// - Whether and where a draft is made may depend on the text and on the drafts before it, but not on the token drawn:
///   a drawn token is always handed over.
/// - A token that was drawn comes with the law that it was drawn from through `chance`, as [`DraftTree::draw`] and
///   [`DraftTree::draw_without`] see to. Laws sum to one.
/// - What comes back has no influence on the law of the text, only on how fast it is written.
pub trait Drafter {
    /// Drafts in one of its ways after `text` (prompt and output) into an empty `tree`. `state` is the state of the
    /// target's transforms there.
    ///
    /// # Errors
    /// Those of a model that drafts.
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError>;

    /// In which of its ways, numbers below [`WAYS`], it can draft after a text: one at least, and first the one to take
    /// where nothing is known of them. Drafts of one way may stand far more often than those of another, so what each
    /// costs and gains is measured by itself, and of several the one is taken that promises most.
    fn ways(&mut self, _text: &[TokenId]) -> &'static [usize] {
        &[0]
    }

    /// About how many tokens of a text it would have to read before it could draft after it in one of its ways: what a
    /// first draft costs more than those that come after it.
    fn unread(&self, _way: usize, _text: &[TokenId]) -> usize {
        0
    }

    /// The most children that it gives one node: 1 of a drafter of chains.
    fn most_children(&self) -> usize {
        1
    }

    /// Whether it drafts from what the target itself computes, which it is then [shown](Drafter::observe).
    fn reads_features(&self) -> bool {
        false
    }

    /// Sees a call of the target: the tokens of its batch, what was computed of them, and the indices of those that
    /// stand in the text, in order. Every token of the text is shown once, the prompt's included, except the last one
    /// and those not read yet.
    ///
    /// # Errors
    /// Those of a model that drafts.
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

    fn observe(&mut self, tokens: &[TokenId], rows: &Rows, kept: &[usize]) -> Result<(), DecodeError> {
        (**self).observe(tokens, rows, kept)
    }
}

/// What a drafter drafts in its first way: its tokens, each with its parent and the law that it was drawn from.
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
    let law = |i: usize| {
        let node = &tree.nodes()[i];
        let mut rest = Vec::new();
        match node.origin {
            Origin::Guess => return None,
            Origin::Drawn(law) => rest.extend_from_slice(tree.law_of(law)),
            Origin::DrawnWithout(law) => assert!(tree.rest_of(law, node.parent, i, &mut rest)),
        }
        Some(rest)
    };
    tree.nodes().iter().enumerate().map(|(i, node)| (node.token, node.parent, law(i))).collect()
}
