//! The tokens that the model reads in one call.

use verdigris_logits::TokenId;
use verdigris_models::{Batch, Wanted};

use crate::tree::DraftTree;

/// The tokens that the model reads in a call: those that it has not read yet, followed by the drafts, each at its own
/// index. Siblings with the same token share an index.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) tokens: Vec<TokenId>,
    /// The parents of all tokens, as in a tree.
    pub(super) parents: Vec<Option<usize>>,
    /// The number of tokens that are not drafts.
    pub(super) unseen: usize,
    pub(super) is_chain: bool,
    /// Whether other tokens were read first, in a separate call.
    pub(super) is_second: bool,
    /// The index of each node among the drafts. `None` for a token that the model does not have, and for its
    /// descendants.
    places: Vec<Option<usize>>,
    /// The accepted nodes.
    pub(super) path: Vec<usize>,
    /// The indices of the tokens to keep.
    pub(super) kept: Vec<usize>,
}

impl Reading {
    /// Lays out a tree of drafts after some tokens.
    pub(super) fn lay_out(&mut self, unseen: &[TokenId], tree: &DraftTree, size: usize) {
        self.tokens.clear();
        self.tokens.extend_from_slice(unseen);
        self.parents.clear();
        self.parents.extend((0..unseen.len()).map(|i| i.checked_sub(1)));
        self.unseen = unseen.len();
        (self.is_chain, self.is_second) = (true, false);
        self.places.clear();
        for (i, node) in tree.nodes().iter().enumerate() {
            let parent = match node.parent.map(|parent| self.places[parent]) {
                Some(None) => None,
                Some(Some(place)) => Some(unseen.len() + place),
                None => Some(unseen.len() - 1),
            };
            let Some(parent) = parent.filter(|_| (node.token as usize) < size) else {
                self.places.push(None);
                continue;
            };
            let mut siblings =
                tree.nodes()[..i].iter().zip(&self.places).filter(|(other, _)| other.token == node.token);
            let twin = siblings
                .find_map(|(_, &place)| place.filter(|place| self.parents[unseen.len() + place] == Some(parent)));
            if twin.is_some() {
                self.places.push(twin);
                continue;
            }
            self.is_chain &= parent + 1 == self.tokens.len();
            self.places.push(Some(self.tokens.len() - unseen.len()));
            self.tokens.push(node.token);
            self.parents.push(Some(parent));
        }
    }

    /// Lays out tokens that are followed by tokens already written, so their rows are not used.
    pub(super) fn lay_out_part(&mut self, tokens: &[TokenId]) {
        self.lay_out(tokens, &DraftTree::default(), 0);
        self.path.clear();
        self.kept.clear();
        self.kept.extend(0..tokens.len());
    }

    /// The batch, with the rows of the last token that is not a draft and of all drafts.
    pub(super) fn batch(&self) -> Batch<'_> {
        let parents = (!self.is_chain).then_some(&self.parents[..]);
        Batch { tokens: &self.tokens, parents, wanted: Wanted::From(self.unseen - 1) }
    }

    /// The index among those rows of the one after a node, or after the text.
    pub(super) fn row(&self, node: Option<usize>) -> usize {
        node.map_or(0, |node| 1 + self.places[node].expect("only what was read is accepted"))
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.tokens.len() + 1 - self.unseen
    }

    /// The number of nodes before the first one that the model does not have.
    pub(super) fn readable(&self) -> usize {
        self.places.iter().take_while(|place| place.is_some()).count()
    }

    /// Keeps the tokens that are not drafts, and no draft so far.
    pub(super) fn keep_unseen(&mut self) {
        self.path.clear();
        self.kept.clear();
        self.kept.extend(0..self.unseen);
    }

    /// Keeps a draft, as the next one after those that are kept.
    pub(super) fn accept(&mut self, node: usize) {
        self.path.push(node);
        let place = self.places[node].expect("only what was read is accepted");
        self.kept.push(self.unseen + place);
    }
}
