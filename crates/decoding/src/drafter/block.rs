//! Published heads that guess a block of tokens at once.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId};
use verdigris_models::Rows;
use verdigris_models::draft_head::block::{BlockModel, BlockSequence};

use super::children::{Children, Coupling};
use super::some_tokens::SomeTokens;
use super::{Drafter, ahead};
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The maximum number of drafts of one token.
const MOST_CHILDREN: usize = 4;

/// A [`BlockModel`] as a drafter: the drafts of a depth come from one row of its block, and from the token before. The
/// target's transforms apply to its rows too.
///
/// It drafts nothing before the first call of its target, and nothing past its own context.
#[doc(alias = "dflash")]
#[doc(alias = "dspark")]
pub struct BlockDrafter {
    model: BlockModel,
    sequence: BlockSequence,
    children: Children,
    tokens: SomeTokens,
    rows: Rows,
    /// A row of the head with the change by the token before.
    changed: Vec<f32>,
    /// The target's states of a call.
    of_target: Vec<f32>,
    /// Whether the text has become longer than the context.
    is_over: bool,
}

impl BlockDrafter {
    /// Drafts with a head for texts of at most `capacity` tokens, for a target whose rows have `size` logits.
    ///
    /// # Errors
    /// The head's, if it cannot begin a text.
    pub fn new(
        model: &BlockModel,
        capacity: usize,
        size: usize,
        transforms: &Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        Ok(Self {
            // A block goes past the end of the text.
            sequence: model.begin((capacity + model.count() + 1).min(model.context_length()))?,
            children: Children::new(transforms, sampler, coupling),
            tokens: SomeTokens::new(model.tokens(), size),
            rows: Rows::default(),
            changed: Vec::new(),
            of_target: Vec::new(),
            is_over: false,
            model: model.clone(),
        })
    }
}

impl Drafter for BlockDrafter {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let Self { model, sequence, children, tokens, rows, changed, is_over, .. } = self;
        let seen = sequence.len();
        let (Some(&first), Some(&last)) = (text.get(seen), text.last()) else { return Ok(()) };
        let (late, depth) = ahead::reach(text, seen, shape, model.count());
        let is_known = (first as usize) < tokens.of();
        if seen == 0 || *is_over || depth == 0 || !is_known || !sequence.has_room(0) {
            return Ok(());
        }
        sequence.guess(first, rows)?;
        let load = |depth: usize, before, row: &mut Row| {
            changed.clear();
            changed.extend_from_slice(rows.row(late + depth));
            sequence.after(before, changed);
            tokens.load(changed, row);
        };
        ahead::draft(children, (last, state), (shape, depth), chance, tree, load);
        Ok(())
    }

    fn most_children(&self) -> usize {
        MOST_CHILDREN
    }

    fn reads_features(&self) -> bool {
        true
    }

    fn layers(&self) -> &[usize] {
        self.model.layers()
    }

    fn observe(&mut self, _: &[TokenId], rows: &Rows, kept: &[usize]) -> Result<(), DecodeError> {
        self.is_over |= !self.sequence.has_room(kept.len());
        if self.is_over {
            return Ok(());
        }
        rows.hidden_of(kept, &mut self.of_target);
        self.sequence.read(&self.of_target)?;
        Ok(())
    }
}
