//! The layout of a call of the model: the tokens that it reads, the drafts among them, and the positions of their rows.

use verdigris_logits::TokenId;
use verdigris_models::{ModelError, Rows, Sequence};

use crate::draft_length::Judged;
use crate::speculative::reading::Reading;
use crate::tree::DraftTree;

/// The number of unread tokens above which they are read in a separate call before a tree, since each token of a tree
/// is compared with all others of its call.
const BESIDE_A_TREE: usize = 32;

/// The drafts of a call, the tokens that the model reads in it, and the rows that it computes for them.
pub(super) struct Layout {
    /// The size of the model's vocabulary.
    size: usize,
    pub(super) tree: DraftTree,
    pub(super) reading: Reading,
    pub(super) rows: Rows,
}

impl Layout {
    /// An empty layout, for a model with a vocabulary of `size` tokens that computes these rows.
    pub(super) fn new(size: usize, rows: Rows) -> Self {
        Self { size, tree: DraftTree::default(), reading: Reading::default(), rows }
    }

    /// Lays out unread tokens, and the tree after them.
    pub(super) fn lay_out(&mut self, unread: &[TokenId]) {
        self.reading.lay_out(unread, &self.tree, self.size);
    }

    /// Whether the unread tokens are too many to be read in one call with the tree.
    pub(super) fn is_too_long(&self) -> bool {
        !self.reading.is_chain && self.reading.unseen > BESIDE_A_TREE
    }

    /// Computes the rows by a call of the model.
    pub(super) fn forward(&mut self, sequence: &mut dyn Sequence) -> Result<(), ModelError> {
        sequence.forward(&self.reading.batch(), &mut self.rows)
    }

    /// The row after a node, or after the text.
    pub(super) fn row(&self, node: Option<usize>) -> &[f32] {
        self.rows.row(self.reading.row(node))
    }

    /// The draft of a token after a node, or after the text.
    pub(super) fn child(&self, node: Option<usize>, token: TokenId) -> Option<usize> {
        self.tree.children(node).find(|(_, child)| child.token == token).map(|(child, _)| child)
    }

    /// Whether there are drafts after a node, or after the text.
    pub(super) fn has_drafts(&self, node: Option<usize>) -> bool {
        self.tree.children(node).next().is_some()
    }

    /// Fills `judged` with the drafts that were judged: those after the text and after each accepted draft.
    pub(super) fn judged_into(&self, judged: &mut Vec<Judged>) {
        judged.clear();
        let mut at = None;
        loop {
            let stands = self.reading.path.get(at.map_or(0, |at: usize| self.tree.nodes()[at].depth)).copied();
            for (rank, (child, node)) in self.tree.children(at).enumerate() {
                judged.push(Judged { above: node.depth - 1, rank, stood: stands == Some(child) });
            }
            let Some(child) = stands else { break };
            at = Some(child);
        }
    }
}
