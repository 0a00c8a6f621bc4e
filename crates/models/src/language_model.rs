//! The contract between a model and everything above it.

use std::any::Any;
use std::sync::Arc;

use verdigris_logits::steps::Steps;
use verdigris_logits::{Sampler, TokenId};

use crate::error::ModelError;

/// A model's weights: immutable, shared by all texts that it reads or writes at a time.
pub trait LanguageModel: Send + Sync {
    /// The length of its rows: one more than the highest token.
    fn vocabulary_size(&self) -> usize;

    /// The most tokens that one sequence can hold.
    fn context_length(&self) -> usize;

    /// How its sequences share memory with their forks.
    fn pages(&self) -> PageShape {
        PageShape { tokens: self.context_length().max(1), bytes: None, depends_on_capacity: true }
    }

    /// The length of its hidden states, where it keeps them for [`Rows::with_hidden`].
    fn hidden_size(&self) -> Option<usize> {
        None
    }

    /// Begins an empty sequence with room for `capacity` tokens (at most the context length).
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] for more than the context, and where there is no memory.
    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError>;

    /// Goes on with several sequences of this model, each by a batch of its own, which may be as cheap as one of them.
    /// Each has the rows that it would have alone (on a CPU: bit for bit). After an error all are as before the call.
    ///
    /// # Errors
    /// As [`Sequence::forward`], of any of them.
    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        for i in 0..items.len() {
            let BatchItem { sequence, batch, rows } = &mut items[i];
            if let Err(error) = sequence.forward(batch, rows) {
                for BatchItem { sequence, batch, .. } in &mut items[..i] {
                    sequence.truncate(sequence.len() - batch.tokens.len());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// As [`LanguageModel::forward_each`], but tokens are drawn where the rows are, which do not come back. `false`:
    /// this model does not do that, and nothing has happened.
    ///
    /// # Errors
    /// As [`LanguageModel::forward_each`].
    fn draw_each(&self, _items: &mut [BatchItem<'_>], _draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        Ok(false)
    }
}

/// The unit in which the sequences of a model have memory: a fork shares the pages that its origin has filled, and has
/// one of its own for what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// Tokens of a page; at least one. As many as a sequence can hold where it has one piece of memory.
    pub tokens: usize,
    /// How much memory that is, where it is known.
    pub bytes: Option<usize>,
    /// Whether what is computed, or how much memory it takes, depends on the capacity that a sequence was begun with.
    /// If not, a text can go on from a fork of any other's.
    pub depends_on_capacity: bool,
}

/// A token to be drawn from a row: the law of the row after some steps, and the number that picks.
#[derive(Debug)]
pub struct SampleRequest<'a> {
    /// Which of several items; 0 of one.
    pub item: usize,
    /// Which of the item's rows that are wanted.
    pub row: usize,
    /// What is done to the row.
    pub steps: &'a Steps,
    /// How the token is taken.
    pub sampler: Sampler,
    /// In [0, 1): which token a categorical draw takes.
    pub number: f64,
    /// The token, when it is drawn; `None` where none is allowed.
    pub token: Option<TokenId>,
}

/// What one of several sequences is to read: see [`LanguageModel::forward_each`].
pub struct BatchItem<'a> {
    /// The sequence.
    pub sequence: &'a mut (dyn Sequence + 'static),
    /// What it reads.
    pub batch: Batch<'a>,
    /// Where its rows go.
    pub rows: &'a mut Rows,
}

/// One text as a model sees it: the tokens so far, as a cache.
///
/// # Contract
/// - `forward` appends its tokens, and writes the rows asked for. The row of a token is the law of the token
///   after it, given its ancestors; it does not depend on how the tokens were split into batches (on a CPU:
///   bit for bit), nor on tokens that it does not see.
/// - After an error the sequence is as before the call.
/// - `truncate` takes constant time. Afterwards everything is as if the tokens past `length` had never come.
/// - A fork and its origin do not influence each other.
/// - A model knows its own sequences again, as [`Any`].
pub trait Sequence: Any + Send {
    /// The number of tokens held.
    fn len(&self) -> usize;

    /// Whether no token is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tokens that can be held.
    fn capacity(&self) -> usize;

    /// Appends tokens and writes the rows of those asked for.
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`] and [`ModelError::ContextFull`] for tokens that cannot be held, and where there is
    /// no memory or the device fails.
    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError>;

    /// As [`Sequence::forward`], but tokens are drawn where the rows are, which do not come back. `false`: this
    /// sequence does not do that, and nothing has happened.
    ///
    /// # Errors
    /// As [`Sequence::forward`].
    fn draw(&mut self, _batch: &Batch<'_>, _draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        Ok(false)
    }

    /// Forgets all tokens past the first `length`.
    ///
    /// # Panics
    /// If fewer are held.
    fn truncate(&mut self, length: usize);

    /// Of the tokens after the first `from` keeps those at the indices of `path`, counted from `from`, as if the others
    /// had never come: what remains of a token tree. They are strictly ascending, and each is the parent of the next.
    ///
    /// # Errors
    /// Where there is no memory, or the device fails.
    ///
    /// # Panics
    /// If the indices are not strictly ascending, or not held.
    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError>;

    /// A second sequence that starts from the same tokens.
    ///
    /// # Errors
    /// Where there is no memory, or the device fails.
    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError>;
}

/// Tokens to append, and the rows wanted back.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The tokens, each after its parent.
    pub tokens: &'a [TokenId],
    /// For a token tree: the parent of each token among the tokens before it in this batch, or `None` where it
    /// follows what was held before. A token sees what was held, its ancestors and itself, and its position
    /// is one more than its parent's. Without parents every token follows the one before it.
    pub parents: Option<&'a [Option<usize>]>,
    /// The tokens whose rows are wanted.
    pub wanted: Wanted,
}

/// Which rows of a batch are wanted. Rows that are not wanted cost no product with the output matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// That of the last token.
    Last,
    /// Those of all tokens.
    All,
    /// Those of the token of this index and all after it.
    From(usize),
}

impl<'a> Batch<'a> {
    /// Tokens one after the other, as in a prompt or a chain of drafts.
    pub fn chain(tokens: &'a [TokenId], wanted: Wanted) -> Self {
        Self { tokens, parents: None, wanted }
    }

    /// A tree of tokens, with all rows.
    pub fn tree(tokens: &'a [TokenId], parents: &'a [Option<usize>]) -> Self {
        Self { tokens, parents: Some(parents), wanted: Wanted::All }
    }

    /// The index of the first token whose row is wanted; all after it have rows too.
    ///
    /// # Panics
    /// If it is [`Wanted::From`] beyond the tokens.
    pub fn first_wanted(&self) -> usize {
        match self.wanted {
            Wanted::Last => self.tokens.len().saturating_sub(1),
            Wanted::All => 0,
            Wanted::From(first) => {
                assert!(first <= self.tokens.len(), "rows from {first} of {} tokens", self.tokens.len());
                first
            }
        }
    }

    /// How many rows are wanted.
    pub fn rows(&self) -> usize {
        self.tokens.len() - self.first_wanted()
    }

    /// The positions of the tokens when `held` tokens stand before them.
    pub fn positions(&self, held: usize) -> Vec<u32> {
        let mut positions = Vec::with_capacity(self.tokens.len());
        self.extend_positions(held, &mut positions);
        positions
    }

    /// As [`Batch::positions`], behind those that are there.
    pub(crate) fn extend_positions(&self, held: usize, positions: &mut Vec<u32>) {
        let before = positions.len();
        for i in 0..self.tokens.len() {
            let parent = self.parents.map_or(i.checked_sub(1), |parents| parents[i]);
            positions.push(parent.map_or(held as u32, |parent| positions[before + parent] + 1));
        }
    }

    /// For a tree: which of its tokens (columns) each of its tokens (rows) sees, as `m x m` values row by row.
    pub fn visibility(&self) -> Option<Vec<bool>> {
        let mut visible = Vec::new();
        self.extend_visibility(&mut visible).then_some(visible)
    }

    /// As [`Batch::visibility`], behind what is there; whether it is a tree.
    pub(crate) fn extend_visibility(&self, visible: &mut Vec<bool>) -> bool {
        let Some(parents) = self.parents else { return false };
        let m = self.tokens.len();
        assert_eq!(parents.len(), m, "one parent a token");
        let before = visible.len();
        visible.resize(before + m * m, false);
        let visible = &mut visible[before..];
        for i in 0..m {
            if let Some(parent) = parents[i] {
                assert!(parent < i, "a token comes after its parent");
                let (before, row) = visible.split_at_mut(i * m);
                row[..m].copy_from_slice(&before[parent * m..(parent + 1) * m]);
            }
            visible[i * m + i] = true;
        }
        true
    }
}

/// Rows of logits, one after the other; the memory is used again by the next call.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub(crate) logits: Vec<f32>,
    pub(crate) width: usize,
    hidden: Option<Hidden>,
}

/// Hidden states, one after the other.
#[derive(Clone, Debug, Default)]
struct Hidden {
    states: Vec<f32>,
    size: usize,
}

impl Rows {
    /// Replaces the rows.
    ///
    /// # Panics
    /// If `logits` is not a whole number of rows of `width`.
    pub fn set(&mut self, logits: Vec<f32>, width: usize) {
        assert!(width > 0 && logits.len().is_multiple_of(width), "whole rows");
        (self.logits, self.width) = (logits, width);
    }

    /// Rows beside which models that [have them](LanguageModel::hidden_size) keep hidden states.
    #[doc(alias = "output_hidden_states")]
    pub fn with_hidden() -> Self {
        Self { hidden: Some(Hidden::default()), ..Self::default() }
    }

    /// Whether hidden states are kept.
    pub fn keeps_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    /// The hidden state of token `i` of the batch, whether its row was wanted or not: the residual stream after the
    /// last norm, which the output matrix makes a row of.
    ///
    /// # Panics
    /// If none were kept, or there was no such token.
    pub fn hidden(&self, i: usize) -> &[f32] {
        let Hidden { states, size } = self.hidden.as_ref().expect("hidden states are kept");
        &states[i * size..(i + 1) * size]
    }

    /// Makes room for the hidden states of so many tokens, to be filled, if they are to be kept.
    pub(crate) fn prepare_hidden(&mut self, tokens: usize, size: usize) {
        if let Some(hidden) = &mut self.hidden {
            hidden.size = size;
            hidden.states.resize(tokens * size, 0.0);
        }
    }

    /// The hidden states of all tokens, to be filled, if they are to be kept.
    pub(crate) fn hidden_mut(&mut self) -> Option<&mut [f32]> {
        self.hidden.as_mut().map(|hidden| &mut hidden.states[..])
    }

    /// Makes room for so many rows, to be filled.
    pub(crate) fn prepare(&mut self, count: usize, width: usize) -> &mut [f32] {
        self.width = width;
        self.logits.resize(count * width, 0.0);
        &mut self.logits
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.logits.len().checked_div(self.width).unwrap_or(0)
    }

    /// Row `i`: one logit a token of the vocabulary.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.logits[i * self.width..(i + 1) * self.width]
    }

    /// Row `i`, to be changed by a model that is made of others.
    pub fn row_mut(&mut self, i: usize) -> &mut [f32] {
        &mut self.logits[i * self.width..(i + 1) * self.width]
    }

    /// The last row.
    pub fn last(&self) -> &[f32] {
        self.row(self.count() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_gives_positions_and_visibility() {
        let parents = [None, Some(0), Some(0), Some(2), None];
        let batch = Batch::tree(&[1, 2, 3, 4, 5], &parents);
        assert_eq!(batch.positions(10), [10, 11, 11, 12, 10]);
        let visible = batch.visibility().unwrap();
        let sees: Vec<Vec<usize>> = visible.chunks(5).map(|row| (0..5).filter(|&j| row[j]).collect()).collect();
        assert_eq!(sees, [vec![0], vec![0, 1], vec![0, 2], vec![0, 2, 3], vec![4]]);
        assert_eq!(Batch::chain(&[7, 8, 9], Wanted::All).positions(3), [3, 4, 5]);
        let rows = |wanted| Batch::chain(&[7, 8, 9], wanted).rows();
        assert_eq!([Wanted::Last, Wanted::All, Wanted::From(1), Wanted::From(3)].map(rows), [1, 3, 2, 0]);
        assert_eq!(Batch::chain(&[], Wanted::Last).rows(), 0);
    }
}
