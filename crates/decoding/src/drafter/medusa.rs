//! Draft heads that guess from one hidden state of the target.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId};
use verdigris_models::Rows;
use verdigris_models::draft_head::medusa::MedusaHeads;

use super::children::{Children, Coupling};
use super::some_tokens::SomeTokens;
use super::{Drafter, ahead};
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The maximum number of drafts of one token, which is that of the heads in the paper.
const MOST_CHILDREN: usize = 10;

/// [`MedusaHeads`] as a drafter: the drafts of a depth come from the row of one head, whatever they follow, after the
/// target's transforms for that position.
///
/// It drafts nothing before the first call of its target.
pub struct Medusa {
    heads: MedusaHeads,
    children: Children,
    /// The target's state after the last token that it has read, and the number of tokens that it has read.
    hidden: Vec<f32>,
    seen: usize,
    rows: Rows,
    tokens: SomeTokens,
}

impl Medusa {
    /// Drafts with heads for a target whose rows have `size` logits.
    pub fn new(heads: MedusaHeads, size: usize, transforms: &Chain, sampler: Sampler, coupling: Coupling) -> Self {
        let children = Children::new(transforms, sampler, coupling);
        let tokens = SomeTokens::new(heads.tokens(), size);
        Self { heads, children, hidden: Vec::new(), seen: 0, rows: Rows::default(), tokens }
    }
}

impl Drafter for Medusa {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let Self { heads, children, hidden, seen, rows, tokens } = self;
        if hidden.is_empty() {
            return Ok(());
        }
        // The first head guesses the token after the next one, which is already the last of the text.
        let (late, depth) = ahead::reach(text, *seen, shape, heads.count());
        if depth == 0 {
            return Ok(());
        }
        heads.guess(hidden, late + depth, rows);
        let last = *text.last().expect("a text with a token");
        let load = |depth: usize, _, row: &mut Row| tokens.load(rows.row(late + depth), row);
        ahead::draft(children, (last, state), (shape, depth), chance, tree, load);
        Ok(())
    }

    fn most_children(&self) -> usize {
        MOST_CHILDREN
    }

    fn reads_features(&self) -> bool {
        true
    }

    fn observe(&mut self, _: &[TokenId], rows: &Rows, kept: &[usize]) -> Result<(), DecodeError> {
        self.seen += kept.len();
        if let Some(&last) = kept.last() {
            self.hidden.clear();
            self.hidden.extend_from_slice(rows.hidden(last));
        }
        Ok(())
    }
}
