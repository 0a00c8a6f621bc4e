//! The contract between a model and its users.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use verdigris_logits::steps::Steps;
use verdigris_logits::{Sampler, TokenId};

use crate::error::ModelError;
use crate::saved::{SavedSection, StateId};

/// The bytes of a GPU that are left for what passes compute: at most some 1 GiB, for very long texts.
const FOR_PASSES: u64 = 1 << 30;

/// A model's weights: immutable, and shared by all its sequences.
pub trait LanguageModel: Send + Sync {
    /// The length of its rows: one more than the highest token.
    fn vocabulary_size(&self) -> usize;

    /// The most tokens that one sequence can hold.
    fn context_length(&self) -> usize;

    /// The unit in which its sequences share memory with their forks.
    fn pages(&self) -> PageShape {
        PageShape { tokens: self.context_length().max(1), bytes: None, depends_on_capacity: true, has_parts: true }
    }

    /// The bytes of memory that are free for pages; `None` if that is not known, as on a CPU.
    ///
    /// # Errors
    /// [`ModelError::Gpu`] if the GPU fails.
    fn free_bytes(&self) -> Result<Option<u64>, ModelError> {
        Ok(None)
    }

    /// Checks that there is memory for the pages of this number of tokens, all texts together.
    ///
    /// # Errors
    /// [`ModelError::PageMemory`] if there is not, and those of [`LanguageModel::free_bytes`].
    fn check_room(&self, tokens: usize) -> Result<(), ModelError> {
        let PageShape { tokens: of_page, bytes: Some(bytes), .. } = self.pages() else { return Ok(()) };
        let Some(free) = self.free_bytes()? else { return Ok(()) };
        let (free, bytes) = (free.saturating_sub(FOR_PASSES), bytes.max(1) as u64);
        let needed = bytes.saturating_mul(tokens.div_ceil(of_page) as u64);
        let most = usize::try_from(free / bytes).unwrap_or(usize::MAX).saturating_mul(of_page);
        if needed <= free { Ok(()) } else { Err(ModelError::PageMemory { tokens, bytes: needed, free, most }) }
    }

    /// The length of its hidden states, if it can store them for [`Rows::with_hidden`].
    fn hidden_size(&self) -> Option<usize> {
        None
    }

    /// Identifies what the saved states of its sequences with this capacity depend on; `None` if they cannot be saved.
    /// It reads all weights, so a caller keeps the result.
    fn state_id(&self, _capacity: usize) -> Option<StateId> {
        None
    }

    /// The number of layers whose states it can store for [`Rows::with_layers`].
    fn layers(&self) -> usize {
        0
    }

    /// Begins an empty sequence with room for `capacity` tokens (at most the context length).
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] for more than the context, and an error if there is not enough memory.
    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError>;

    /// Continues several sequences of this model, each with its own batch, possibly at the cost of one. Each gets the
    /// rows that it would get alone (on a CPU: bit for bit). After an error all sequences are unchanged.
    ///
    /// # Errors
    /// The same as [`Sequence::forward`], for any of the sequences.
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

    /// Like [`LanguageModel::forward_each`], but samples tokens where the rows are computed and does not return the
    /// rows. Returns `false` if this model does not support that; then nothing has happened. By default only a single
    /// text is sampled in this way, by [`Sequence::draw`].
    ///
    /// # Errors
    /// The same as [`LanguageModel::forward_each`].
    fn draw_each(&self, items: &mut [BatchItem<'_>], draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        match items {
            [BatchItem { sequence, batch, .. }] => sequence.draw(batch, draws),
            _ => Ok(false),
        }
    }
}

/// The unit of memory of a model's sequences: a fork shares the pages that its origin has filled, and gets its own for
/// what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageShape {
    /// Tokens per page, at least one; the context length if each sequence uses one block of memory.
    pub tokens: usize,
    /// Bytes per page, if known.
    pub bytes: Option<usize>,
    /// Whether the computation, or the memory that it takes, depends on the capacity that a sequence was begun with. If
    /// not, a text can continue from a fork of any other.
    pub depends_on_capacity: bool,
    /// Whether a sequence can be cut back to any part of a page. If not, its tokens are then read again, as those of
    /// layers with a state of fixed size.
    pub has_parts: bool,
}

/// A token to sample from a row: the steps that change the row's distribution, and the number that selects the token.
#[derive(Debug)]
pub struct SampleRequest<'a> {
    /// The index of the item; 0 if there is only one.
    pub item: usize,
    /// The index among the item's wanted rows.
    pub row: usize,
    /// The steps that are applied to the row.
    pub steps: &'a Steps,
    /// The sampler that selects the token.
    pub sampler: Sampler,
    /// A number in [0, 1) that selects the token of a categorical sample.
    pub number: f64,
    /// The token, once it is sampled; `None` if no token is allowed.
    pub token: Option<TokenId>,
}

/// The input of one of several sequences: see [`LanguageModel::forward_each`].
pub struct BatchItem<'a> {
    /// The sequence.
    pub sequence: &'a mut (dyn Sequence + 'static),
    /// The tokens that it reads.
    pub batch: Batch<'a>,
    /// The memory for its rows.
    pub rows: &'a mut Rows,
}

/// One text as a model sees it: the tokens so far, as a cache.
///
/// # Contract
/// - `forward` appends its tokens and writes the rows asked for. The row of a token is the distribution of the token
///   after it, given its ancestors; it does not depend on how the tokens were split into batches (on a CPU: bit for
///   bit), nor on tokens that it does not see.
/// - After an error the sequence is unchanged.
/// - `truncate` takes constant time. Afterwards the sequence behaves as if the tokens past `length` had never been
///   read.
/// - A fork and its origin do not influence each other.
/// - A model recognises its own sequences, as [`Any`].
pub trait Sequence: Any + Send {
    /// The number of tokens held.
    fn len(&self) -> usize;

    /// Whether no token is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tokens that can be held.
    fn capacity(&self) -> usize;

    /// Appends tokens and writes the rows asked for.
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`] and [`ModelError::ContextFull`] for tokens that cannot be held, and an error if
    /// there is not enough memory or the device fails.
    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError>;

    /// Like [`Sequence::forward`], but samples tokens where the rows are computed and does not return the rows. Returns
    /// `false` if this sequence does not support that; then nothing has happened.
    ///
    /// # Errors
    /// The same as [`Sequence::forward`].
    fn draw(&mut self, _batch: &Batch<'_>, _draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        Ok(false)
    }

    /// Forgets all tokens past the first `length`.
    ///
    /// # Panics
    /// If fewer are held.
    fn truncate(&mut self, length: usize);

    /// Keeps, of the tokens after the first `from`, those at the indices of `path` (counted from `from`), as if the
    /// others had never been read: the accepted path of a token tree. The indices are strictly ascending, and each is
    /// the parent of the next.
    ///
    /// # Errors
    /// If there is not enough memory, or the device fails.
    ///
    /// # Panics
    /// If the indices are not strictly ascending, or not held.
    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError>;

    /// A second sequence that starts from the same tokens.
    ///
    /// # Errors
    /// If there is not enough memory, or the device fails.
    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError>;

    /// The state of some of the tokens held, for [`Sequence::restore`]. `None` if it cannot be saved, or not of these
    /// tokens.
    fn save(&self, _tokens: Range<usize>) -> Option<Vec<SavedSection<'static>>> {
        None
    }

    /// Drops the states of layers with a state of fixed size, which take memory that does not depend on the tokens
    /// held. They are computed again, from a snapshot, when they are needed.
    fn forget_states(&mut self) {}

    /// The numbers of first tokens after which a saved state can be continued, in order; `None` if after any number.
    /// Sequences of models with states of fixed size know these states only after some of them.
    fn saved_ends(&self) -> Option<Vec<usize>> {
        None
    }

    /// Appends `tokens`, the first of `of` tokens whose state was saved, as if they were read. The tokens held must be
    /// those that came before them, in a sequence of a model with the same [`StateId`]. Returns `false`, and changes
    /// nothing, if the sections are not those of a state of `of` tokens, or if there is no room. If the state cannot be
    /// continued after the last of these tokens ([`Sequence::saved_ends`]), some of them are read again before the next
    /// ones.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn restore(&mut self, _tokens: &[TokenId], _of: usize, _sections: &[SavedSection<'_>]) -> Result<bool, ModelError> {
        Ok(false)
    }

    /// A second sequence that starts from the first `length` tokens, without memory that these do not need.
    ///
    /// # Errors
    /// The same as [`Sequence::fork`].
    ///
    /// # Panics
    /// If fewer are held.
    fn fork_at(&self, length: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let mut fork = self.fork()?;
        if fork.len() == length {
            return Ok(fork);
        }
        fork.truncate(length);
        // This fork leaves out what the other shares with its origin.
        fork.fork()
    }

    /// Reads the tokens now that must be read again before the next one, if there are any: forks then need not.
    ///
    /// # Errors
    /// The same as [`Sequence::forward`].
    fn read_again(&mut self) -> Result<(), ModelError> {
        Ok(())
    }
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

/// The wanted rows of a batch. Rows that are not wanted cost no product with the output matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The row of the last token.
    Last,
    /// The rows of all tokens.
    All,
    /// The rows of the token at this index and of all after it.
    From(usize),
}

impl<'a> Batch<'a> {
    /// A chain of tokens, such as a prompt or a chain of drafts.
    pub fn chain(tokens: &'a [TokenId], wanted: Wanted) -> Self {
        Self { tokens, parents: None, wanted }
    }

    /// A tree of tokens, with all rows wanted.
    pub fn tree(tokens: &'a [TokenId], parents: &'a [Option<usize>]) -> Self {
        Self { tokens, parents: Some(parents), wanted: Wanted::All }
    }

    /// The index of the first token whose row is wanted; all after it have rows too.
    ///
    /// # Panics
    /// If [`Wanted::From`] is beyond the tokens.
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

    /// The number of wanted rows.
    pub fn rows(&self) -> usize {
        self.tokens.len() - self.first_wanted()
    }

    /// The positions of the tokens after `held` other tokens.
    pub fn positions(&self, held: usize) -> Vec<u32> {
        let mut positions = Vec::with_capacity(self.tokens.len());
        self.extend_positions(held, &mut positions);
        positions
    }

    /// Like [`Batch::positions`], appended to `positions`.
    pub(crate) fn extend_positions(&self, held: usize, positions: &mut Vec<u32>) {
        let before = positions.len();
        for i in 0..self.tokens.len() {
            let parent = self.parents.map_or(i.checked_sub(1), |parents| parents[i]);
            positions.push(parent.map_or(held as u32, |parent| positions[before + parent] + 1));
        }
    }

    /// For a tree: appends to `visible` which of its tokens (columns) each of its tokens (rows) sees, as `m x m` values
    /// row by row. Returns whether the batch is a tree.
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

/// Rows of logits, one after the other. The next call reuses the memory.
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
    /// The numbers of layers after which states are kept; if there are none, the last states are.
    layers: Vec<usize>,
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

    /// Empty rows into which models that [have hidden states](LanguageModel::hidden_size) also write these.
    #[doc(alias = "output_hidden_states")]
    pub fn with_hidden() -> Self {
        Self { hidden: Some(Hidden::default()), ..Self::default() }
    }

    /// Empty rows into which models that have these [layers](LanguageModel::layers) also write other states than for
    /// [`Rows::with_hidden`]: for each token, the residual stream after the first `n` layers, for each `n` of `layers`.
    ///
    /// # Panics
    /// If `layers` is empty.
    pub fn with_layers(layers: &[usize]) -> Self {
        assert!(!layers.is_empty(), "states after some layers");
        Self { hidden: Some(Hidden { layers: layers.to_vec(), ..Hidden::default() }), ..Self::default() }
    }

    /// The hidden state of token `i` of the batch, whether or not its row was wanted: the residual stream after the
    /// last norm, from which the output matrix computes a row. Of [`Rows::with_layers`] it is the states after these
    /// layers, side by side.
    ///
    /// # Panics
    /// If hidden states were not kept, or the token does not exist.
    pub fn hidden(&self, i: usize) -> &[f32] {
        let Hidden { states, size, .. } = self.hidden.as_ref().expect("hidden states are kept");
        &states[i * size..(i + 1) * size]
    }

    /// Replaces `states` by the hidden states of some tokens of the batch, one after the other.
    ///
    /// # Panics
    /// If hidden states were not kept, or a token does not exist.
    pub fn hidden_of(&self, tokens: &[usize], states: &mut Vec<f32>) {
        states.clear();
        tokens.iter().for_each(|&i| states.extend_from_slice(self.hidden(i)));
    }

    /// Makes room for the hidden states of `tokens` tokens of a model of this width, if they are kept.
    pub(crate) fn prepare_hidden(&mut self, tokens: usize, width: usize) {
        if let Some(hidden) = &mut self.hidden {
            hidden.size = width * hidden.layers.len().max(1);
            hidden.states.resize(tokens * hidden.size, 0.0);
        }
    }

    /// The memory for the last hidden states of all tokens, if they are kept.
    pub(crate) fn hidden_mut(&mut self) -> Option<&mut [f32]> {
        self.hidden.as_mut().filter(|hidden| hidden.layers.is_empty()).map(|hidden| &mut hidden.states[..])
    }

    /// Whether states are kept, of whichever layers.
    pub(crate) fn keeps_states(&self) -> bool {
        self.hidden.is_some()
    }

    /// Keeps the states after the first `layers` layers of the tokens from `first` on, if they are wanted.
    pub(crate) fn keep_layer(&mut self, layers: usize, first: usize, states: &[f32], width: usize) {
        let Some(hidden) = &mut self.hidden else { return };
        let those = hidden.layers.iter().enumerate().filter(|(_, wanted)| **wanted == layers);
        for (at, _) in those {
            let rows = hidden.states.chunks_exact_mut(hidden.size).skip(first);
            rows.zip(states.chunks_exact(width)).for_each(|(row, state)| {
                row[at * width..(at + 1) * width].copy_from_slice(state);
            });
        }
    }

    /// Makes room for `count` rows, for the caller to fill.
    pub(crate) fn prepare(&mut self, count: usize, width: usize) -> &mut [f32] {
        self.width = width;
        self.logits.resize(count * width, 0.0);
        &mut self.logits
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.logits.len().checked_div(self.width).unwrap_or(0)
    }

    /// Row `i`: one logit per token of the vocabulary.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.logits[i * self.width..(i + 1) * self.width]
    }

    /// Row `i`, for a model composed of others to change.
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
        let mut visible = Vec::new();
        assert!(batch.extend_visibility(&mut visible));
        let sees: Vec<Vec<usize>> = visible.chunks(5).map(|row| (0..5).filter(|&j| row[j]).collect()).collect();
        assert_eq!(sees, [vec![0], vec![0, 1], vec![0, 2], vec![0, 2, 3], vec![4]]);
        assert_eq!(Batch::chain(&[7, 8, 9], Wanted::All).positions(3), [3, 4, 5]);
        let rows = |wanted| Batch::chain(&[7, 8, 9], wanted).rows();
        assert_eq!([Wanted::Last, Wanted::All, Wanted::From(1), Wanted::From(3)].map(rows), [1, 3, 2, 0]);
        assert_eq!(Batch::chain(&[], Wanted::Last).rows(), 0);
    }
}
