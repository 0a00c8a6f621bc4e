//! Models of other libraries, such as candle-transformers, for architectures that the decoder here does not cover.
//!
//! Such a model keeps its cache to itself, cannot take tokens back, and gives the row of the last token alone. That is
//! enough for the contract, at a price: what is taken back is read again from the beginning, and a row for each of
//! several tokens is a call for each. `tests/candle-transformers` shows it on one of candle's models.

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::error::{BoxError, ModelError};
use crate::held::{Held, moves};
use crate::language_model::{Batch, LanguageModel, Rows, Sequence, Wanted};

/// A model that reads one text from its beginning.
pub trait Forward: Send {
    /// Reads tokens after the `held` that it has read, and gives the row of the last: as many logits as the vocabulary
    /// has tokens.
    ///
    /// # Errors
    /// Whatever the model fails with; it is cleared before it reads again.
    fn forward(&mut self, tokens: &[TokenId], held: usize) -> Result<Vec<f32>, BoxError>;

    /// Forgets everything that it has read.
    ///
    /// # Errors
    /// Whatever the model fails with.
    fn clear(&mut self) -> Result<(), BoxError>;
}

/// A model of another library as a [`LanguageModel`].
pub struct Foreign<F> {
    vocabulary: usize,
    context: usize,
    /// A model that has read nothing. Its weights should be shared and not copied, as candle's tensors are.
    make: F,
}

impl<M: Forward + 'static, F: Fn() -> Result<M, BoxError> + Send + Sync + 'static> Foreign<F> {
    /// A model with so many tokens, that can read so many. `make` gives one that has read nothing, for each text.
    pub fn new(vocabulary: usize, context: usize, make: F) -> Self {
        Self { vocabulary, context, make }
    }
}

impl<M: Forward + 'static, F: Fn() -> Result<M, BoxError> + Send + Sync + 'static> LanguageModel for Foreign<F> {
    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn context_length(&self) -> usize {
        self.context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let held = Held::none(capacity, self.context)?;
        let inner = (self.make)().map_err(ModelError::Compute)?;
        Ok(Box::new(ForeignSequence { model: self, inner, read: Vec::new(), tokens: Vec::new(), held }))
    }
}

struct ForeignSequence<M, F> {
    model: Arc<Foreign<F>>,
    inner: M,
    /// What the inner model has read.
    read: Vec<TokenId>,
    /// What it should have read.
    tokens: Vec<TokenId>,
    held: Held,
}

impl<M: Forward, F> ForeignSequence<M, F> {
    /// The row after some tokens.
    fn row_after(&mut self, tokens: &[TokenId]) -> Result<Vec<f32>, BoxError> {
        let goes_on = tokens.len() > self.read.len() && tokens.starts_with(&self.read);
        if !goes_on {
            self.inner.clear()?;
            self.read.clear();
        }
        let held = self.read.len();
        let row = self.inner.forward(&tokens[held..], held);
        match row {
            Ok(_) => self.read.extend_from_slice(&tokens[held..]),
            // Who knows what it has read: something that no text begins with.
            Err(_) => self.read = vec![TokenId::MAX; self.held.capacity() + 1],
        }
        row
    }

    fn rows(&mut self, batch: &Batch<'_>, rows: &mut Vec<f32>) -> Result<(), BoxError> {
        let size = batch.tokens.len();
        let wanted = if batch.wanted == Wanted::Last { size - 1..size } else { 0..size };
        let mut text = Vec::new();
        for node in wanted {
            let mut path = vec![batch.tokens[node]];
            let mut at = node;
            while let Some(parent) = batch.parents.map_or(at.checked_sub(1), |parents| parents[at]) {
                path.push(batch.tokens[parent]);
                at = parent;
            }
            text.clone_from(&self.tokens);
            text.extend(path.into_iter().rev());
            rows.extend(self.row_after(&text)?);
        }
        Ok(())
    }
}

impl<M: Forward + 'static, F: Fn() -> Result<M, BoxError> + Send + Sync + 'static> Sequence for ForeignSequence<M, F> {
    fn len(&self) -> usize {
        self.held.length()
    }

    fn capacity(&self) -> usize {
        self.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let size = self.model.vocabulary;
        self.held.after(batch, size)?;
        let mut all = Vec::new();
        if !batch.tokens.is_empty() {
            self.rows(batch, &mut all).map_err(ModelError::Compute)?;
        }
        if all.len() != batch.rows() * size {
            let fault = format!("rows of {} logits, not {size}", all.len().checked_div(batch.rows()).unwrap_or(0));
            return Err(ModelError::Compute(fault.into()));
        }
        rows.set(all, size);
        self.tokens.extend_from_slice(batch.tokens);
        self.held.extend(batch.tokens.len());
        Ok(())
    }

    fn truncate(&mut self, length: usize) {
        self.held.truncate(length);
        self.tokens.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.held.truncate(self.held.after_keep(from, path));
        moves(from, path).for_each(|(at, to)| self.tokens[to] = self.tokens[at]);
        self.tokens.truncate(self.held.length());
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let inner = (self.model.make)().map_err(ModelError::Compute)?;
        let (model, tokens, held) = (self.model.clone(), self.tokens.clone(), self.held);
        Ok(Box::new(Self { model, inner, read: Vec::new(), tokens, held }))
    }
}
