//! A small model as a drafter.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, Sequence, Wanted};

use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The most drafts of one token: more are hardly ever accepted.
const MOST_CHILDREN: usize = 4;

/// A small model as a drafter. The target's transforms act on its rows too, so that its guesses obey the same
/// constraint and prefer the same tokens.
#[doc(alias = "assistant_model")]
pub struct DraftModel<'a> {
    sequence: Box<dyn Sequence>,
    /// How many tokens the model can read.
    size: usize,
    /// How many logits of its rows count.
    cut: usize,
    /// What the sequence holds.
    held: Vec<TokenId>,
    transforms: &'a Chain,
    sampler: Sampler,
    coupling: Coupling,
    row: Row,
    rows: Rows,
}

/// Where the chance of a drafted token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coupling {
    /// From a number of its own: the draft comes with its law, and is accepted as often as any rule can that
    /// has the target's law.
    Independent,
    /// From the number that the target itself will draw with. A draft is a guess at that very token, so the text is
    /// the one that plain decoding writes with the same seed, however many drafts are made.
    Shared,
}

impl<'a> DraftModel<'a> {
    /// Drafts with `model`, for texts of at most `capacity` tokens. Past its own context it drafts nothing, nor after a
    /// token that its vocabulary is too short for, nor from a row that is no law.
    ///
    /// # Errors
    /// The model's, where it cannot begin a text.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        capacity: usize,
        transforms: &'a Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        let capacity = capacity.min(model.context_length());
        let size = model.vocabulary_size();
        let sequence = model.begin(capacity)?;
        let (row, rows) = (Row::default(), Rows::default());
        Ok(Self { sequence, size, cut: size, held: Vec::new(), transforms, sampler, coupling, row, rows })
    }
}

impl DraftModel<'_> {
    /// Cuts its rows to the length of the target's. What is longer is padding, and would be drafted in vain.
    #[must_use]
    pub fn cut(self, target: usize) -> Self {
        Self { cut: self.size.min(target), ..self }
    }
}

impl DraftModel<'_> {
    /// Puts the law after what the sequence holds, whose row is of this number, into `self.row`; `false` where it is
    /// none: the target will say so where it is the same with it.
    fn load_row(&mut self, row: usize, state: &ChainState) -> bool {
        self.row.load(&self.rows.row(row)[..self.cut]);
        self.transforms.apply(state, &mut self.row);
        self.row.max().is_some()
    }

    /// Drafts the children of a node from `self.row`; their indices, by rank.
    fn children(
        &mut self,
        parent: Option<usize>,
        count: usize,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
        children: &mut Vec<usize>,
    ) {
        children.clear();
        match self.coupling {
            Coupling::Independent => {
                let law = tree.law(|law| self.sampler.distribution_into(&self.row, law));
                match count {
                    1 => children.push(tree.draw(parent, law, chance)),
                    _ => children.extend((0..count).map_while(|_| tree.draw_without(parent, law, chance))),
                }
            }
            Coupling::Shared => {
                let Some(drawn) = chance.token(self.sampler, &self.row, tree.position_after(parent)) else { return };
                children.push(tree.guess(parent, drawn));
                if count > 1 {
                    self.row.with_best(count, |best, logits| {
                        let best = &mut best.to_vec();
                        best.retain(|&token| token != drawn);
                        best.sort_unstable_by(|&a, &b| {
                            logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b))
                        });
                        children.extend(best.iter().take(count - 1).map(|&token| tree.guess(parent, token)));
                    });
                }
            }
        }
    }

    /// Drafts a chain: each token is read before the next is drafted. A token that a step has decided is a draft
    /// without a row, and is read with the one after it.
    fn chain(
        &mut self,
        mut unseen: Vec<TokenId>,
        mut state: ChainState,
        length: usize,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let mut children = Vec::with_capacity(1);
        while tree.len() < length {
            let parent = tree.len().checked_sub(1);
            let node = match self.transforms.decided(&state) {
                Some(token) => tree.guess(parent, token),
                None => {
                    if self.sequence.len() + unseen.len() > self.sequence.capacity() {
                        break;
                    }
                    self.sequence.forward(&Batch::chain(&unseen, Wanted::Last), &mut self.rows)?;
                    self.held.append(&mut unseen);
                    if !self.load_row(0, &state) {
                        break;
                    }
                    self.children(parent, 1, chance, tree, &mut children);
                    let Some(&node) = children.first() else { break };
                    node
                }
            };
            let token = tree.nodes()[node].token;
            self.transforms.advance(&mut state, token);
            if token as usize >= self.size {
                break;
            }
            unseen.push(token);
        }
        Ok(())
    }

    /// Drafts a tree, level by level: a call for each reads all nodes so far that have children, for what a sequence
    /// holds can only be gone on with at its end.
    fn tree(
        &mut self,
        unseen: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        if self.sequence.len() + unseen.len() > self.sequence.capacity() {
            return Ok(());
        }
        self.sequence.forward(&Batch::chain(unseen, Wanted::Last), &mut self.rows)?;
        self.held.extend_from_slice(unseen);
        let base = self.sequence.len();
        // For each node of the shape that has been drafted: its index in the tree, and the state after it.
        let mut drafted: Vec<Option<(usize, ChainState)>> = vec![None; shape.len()];
        let mut children = Vec::new();
        let (mut tokens, mut parents, mut slots) = (Vec::new(), Vec::new(), vec![usize::MAX; shape.len()]);
        for depth in 0..shape.depth() {
            // The nodes of this depth that have children; those above them are in the batch already.
            let first = tokens.len();
            let level: Vec<Option<usize>> = match depth {
                0 => vec![None],
                _ => (0..shape.len())
                    .filter(|&node| shape.depth_of(node) == depth && shape.children(Some(node)).next().is_some())
                    .filter(|&node| drafted[node].is_some())
                    .map(Some)
                    .collect(),
            };
            for node in level.iter().flatten() {
                let (at, _) = drafted[*node].as_ref().expect("only what was drafted is gone on with");
                slots[*node] = tokens.len();
                tokens.push(tree.nodes()[*at].token);
                parents.push(shape.parent(*node).map(|parent| slots[parent]));
            }
            if depth > 0 {
                if level.is_empty() || base + tokens.len() > self.sequence.capacity() {
                    break;
                }
                let batch = Batch { wanted: Wanted::From(first), ..Batch::tree(&tokens, &parents) };
                self.sequence.forward(&batch, &mut self.rows)?;
                self.sequence.truncate(base);
            }
            for (row, node) in level.into_iter().enumerate() {
                let (parent, state) = match node {
                    None => (None, state.clone()),
                    Some(node) => {
                        let (parent, state) = drafted[node].as_ref().expect("only what was drafted is gone on with");
                        (Some(*parent), state.clone())
                    }
                };
                if !self.load_row(row, &state) {
                    continue;
                }
                let asked: Vec<usize> = shape.children(node).collect();
                self.children(parent, asked.len(), chance, tree, &mut children);
                for (&child, asked) in children.iter().zip(asked) {
                    let mut state = state.clone();
                    self.transforms.advance(&mut state, tree.nodes()[child].token);
                    drafted[asked] = Some((child, state));
                }
            }
        }
        Ok(())
    }
}

impl Drafter for DraftModel<'_> {
    fn draft(
        &mut self,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        // Keeps what of the last drafts was accepted; the last token is read anew for its row.
        let shared = self.held.iter().zip(text).take_while(|(a, b)| a == b).count();
        let kept = shared.min(text.len() - 1);
        self.sequence.truncate(kept);
        self.held.truncate(kept);
        let unseen = &text[kept..];
        if unseen.iter().any(|&token| token as usize >= self.size) {
            return Ok(());
        }
        match shape.is_chain() {
            true => self.chain(unseen.to_vec(), state.clone(), shape.len(), chance, tree),
            false => self.tree(unseen, state, shape, chance, tree),
        }
    }

    fn most_children(&self) -> usize {
        MOST_CHILDREN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seeded;
    use crate::drafter::drafts;
    use crate::table::Table;
    use verdigris_logits::{CountPenalty, Random};

    fn chance() -> Seeded {
        Seeded(Random::new(3))
    }

    /// What a drafter holds of drafts that were not gone on with does not show, though its rows depend on all that it
    /// holds.
    #[test]
    fn a_drafter_forgets_what_was_rejected() {
        let (model, chain) = (Table::deep(16, 4, 100), Chain::new());
        let state = chain.start(&[]);
        for coupling in [Coupling::Independent, Coupling::Shared] {
            let drafter = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, coupling).unwrap();
            let mut used = drafter();
            for text in [&[5, 6, 7][..], &[5, 6, 7, 8, 9], &[5, 6, 10, 11], &[5, 6, 10, 11, 12, 13, 14], &[1], &[5, 6]]
            {
                let draft =
                    |drafter: &mut DraftModel<'_>| drafts(drafter, text, &state, TreeShape::chain(4), &mut chance());
                let again = draft(&mut used);
                assert_eq!(again.len(), 4);
                assert!(again == draft(&mut drafter()), "{text:?}");
            }
        }
    }

    /// Each draft comes from the law of the text with the drafts before it: of the model, and of the steps.
    #[test]
    fn drafts_are_steps_of_one_text() {
        let model = Table::deep(16, 4, 100);
        let chain = Chain::new().then(CountPenalty::new(2.0, 1.0).unwrap());
        let mut text = vec![1, 2, 3];
        let mut state = chain.start(&text);
        let new = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, Coupling::Independent).unwrap();
        let together = drafts(&mut new(), &text, &state, TreeShape::chain(12), &mut chance());
        for (token, _, law) in &together {
            let alone = drafts(&mut new(), &text, &state, TreeShape::chain(1), &mut chance());
            assert_eq!(&alone[0].2, law, "after {text:?}");
            chain.advance(&mut state, *token);
            text.push(*token);
        }
    }

    #[test]
    fn what_a_draft_model_cannot_read_it_does_not_go_on_from() {
        let (model, chain) = (Table::noise(4, 1), Chain::new());
        let state = chain.start(&[]);
        let mut drafter = DraftModel::new(model, 100, &chain, Sampler::Greedy, Coupling::Shared).unwrap();
        let mut count = |text: &[TokenId]| drafts(&mut drafter, text, &state, TreeShape::chain(3), &mut chance()).len();
        assert_eq!([count(&[1, 2]), count(&[1, 2, 4]), count(&[1, 2, 4, 0]), count(&[1, 2, 3])], [3, 0, 0, 3]);
    }
}
