//! A table as a model, for tests: the row after each token, whatever came before it. Also transforms of its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use verdigris_logits::{Purpose, Random, Row, TokenId, Transform};
use verdigris_models::{Batch, BatchItem, LanguageModel, ModelError, Rows, SampleRequest, Sequence};

pub(crate) struct Table {
    rows: Vec<Vec<f32>>,
    /// Whether a row depends on all tokens before it, so that a wrong cache is noticed.
    deep: bool,
    context: usize,
    calls: AtomicUsize,
    /// The number of tokens that it has sampled itself, or `None` if it does not sample.
    drawn: Option<AtomicUsize>,
}

struct TableSequence {
    table: Arc<Table>,
    tokens: Vec<TokenId>,
    capacity: usize,
}

impl Table {
    pub(crate) fn new(rows: Vec<Vec<f32>>, context: usize) -> Arc<Self> {
        Arc::new(Self { rows, deep: false, context, calls: AtomicUsize::new(0), drawn: None })
    }

    /// A table of `size` tokens filled from a seed.
    pub(crate) fn noise(size: usize, seed: u64) -> Arc<Self> {
        Self::with_context(size, seed, 64)
    }

    pub(crate) fn with_context(size: usize, seed: u64, context: usize) -> Arc<Self> {
        let random = Random::new(seed);
        let logit = |i: usize, j: usize| 4.0 * random.uniform((i * size + j) as u64, Purpose::Weight) as f32;
        Self::new((0..size).map(|i| (0..size).map(|j| logit(i, j)).collect()).collect(), context)
    }

    /// A table of `size` tokens filled from a seed, in which each row depends on all tokens before it.
    pub(crate) fn deep(size: usize, seed: u64, context: usize) -> Arc<Self> {
        let Self { rows, context, .. } = Arc::into_inner(Self::with_context(size, seed, context)).unwrap();
        Arc::new(Self { rows, deep: true, context, calls: AtomicUsize::new(0), drawn: None })
    }

    /// The same table as a model that samples tokens itself.
    pub(crate) fn drawing(&self) -> Arc<Self> {
        let (drawn, calls) = (Some(AtomicUsize::new(0)), AtomicUsize::new(0));
        Arc::new(Self { rows: self.rows.clone(), deep: self.deep, context: self.context, calls, drawn })
    }

    /// The number of tokens that it has sampled itself.
    pub(crate) fn drawn(&self) -> usize {
        self.drawn.as_ref().map_or(0, |drawn| drawn.load(Ordering::Relaxed))
    }

    /// The number of calls of all its sequences.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn row(&self, token: TokenId) -> &[f32] {
        &self.rows[token as usize]
    }

    /// The row after some tokens.
    fn row_after(&self, tokens: &[TokenId]) -> Vec<f32> {
        let last = tokens[tokens.len() - 1];
        if !self.deep {
            return self.row(last).to_vec();
        }
        let hash = tokens.iter().fold(tokens.len() as u64, |hash, &token| {
            (hash ^ u64::from(token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        });
        let mut row = self.rows[hash as usize % self.rows.len()].clone();
        let shift = (hash >> 32) as usize % row.len();
        row.rotate_left(shift);
        row
    }
}

impl LanguageModel for Table {
    fn vocabulary_size(&self) -> usize {
        self.rows.len()
    }

    fn context_length(&self) -> usize {
        self.context
    }

    fn draw_each(&self, items: &mut [BatchItem<'_>], draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        if self.drawn.is_none() {
            return Ok(false);
        }
        for (number, item) in items.iter_mut().enumerate() {
            let batch = item.batch;
            let mut own: Vec<SampleRequest<'_>> = Vec::new();
            own.extend(draws.iter().filter(|draw| draw.item == number).map(|draw| SampleRequest { ..*draw }));
            item.sequence.draw(&batch, &mut own)?;
            draws.iter_mut().filter(|draw| draw.item == number).zip(own).for_each(|(to, from)| to.token = from.token);
        }
        Ok(true)
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let capacity = capacity.min(self.context);
        Ok(Box::new(TableSequence { table: self, tokens: Vec::new(), capacity }))
    }
}

impl Sequence for TableSequence {
    fn len(&self) -> usize {
        self.tokens.len()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        self.table.calls.fetch_add(1, Ordering::Relaxed);
        let tokens = self.tokens.len() + batch.tokens.len();
        if tokens > self.capacity {
            return Err(ModelError::ContextFull { tokens, capacity: self.capacity });
        }
        let size = self.table.rows.len();
        if let Some(&token) = batch.tokens.iter().find(|&&token| token as usize >= size) {
            return Err(ModelError::UnknownToken { token, size });
        }
        self.tokens.extend(batch.tokens);
        let wanted = batch.rows();
        let held = tokens - batch.tokens.len();
        let row = |end: usize| match batch.parents {
            None => self.table.row_after(&self.tokens[..=end]),
            Some(parents) => {
                let mut path = vec![end - held];
                while let Some(parent) = parents[path[path.len() - 1]] {
                    path.push(parent);
                }
                let path = path.iter().rev().map(|&i| batch.tokens[i]);
                self.table.row_after(&self.tokens[..held].iter().copied().chain(path).collect::<Vec<TokenId>>())
            }
        };
        let logits = (tokens - wanted..tokens).flat_map(row).collect();
        rows.set(logits, self.table.vocabulary_size());
        Ok(())
    }

    fn draw(&mut self, batch: &Batch<'_>, draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        let Some(count) = &self.table.clone().drawn else { return Ok(false) };
        let (mut rows, mut row) = (Rows::default(), Row::default());
        self.forward(batch, &mut rows)?;
        for draw in draws {
            row.load(rows.row(draw.row));
            draw.steps.apply(&mut row);
            draw.token = draw.sampler.sample(&row, draw.number);
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(true)
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.tokens.len());
        self.tokens.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let kept: Vec<TokenId> = path.iter().map(|index| self.tokens[from + index]).collect();
        self.tokens.truncate(from);
        self.tokens.extend(kept);
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(Self { table: self.table.clone(), tokens: self.tokens.clone(), capacity: self.capacity }))
    }
}

/// Leaves no choice for every second and third token: each is the successor of the previous token.
pub(crate) struct Cycle {
    pub(crate) tokens: TokenId,
    /// Whether `decided` reports the token.
    pub(crate) tells: bool,
}

impl Cycle {
    fn token(&self, &(count, last): &(usize, TokenId)) -> Option<TokenId> {
        (count % 3 != 0).then_some((last + 1) % self.tokens)
    }
}

impl Transform for Cycle {
    /// The number of tokens, and the last one.
    type State = (usize, TokenId);

    fn start(&self, _: &[TokenId]) -> Self::State {
        (0, 0)
    }

    fn apply(&self, state: &Self::State, row: &mut Row) {
        if let Some(only) = self.token(state) {
            let others = row.logits_mut().iter_mut().enumerate().filter(|&(token, _)| token != only as usize);
            others.for_each(|(_, logit)| *logit = f32::NEG_INFINITY);
        }
    }

    fn advance(&self, state: &mut Self::State, token: TokenId) {
        *state = (state.0 + 1, token);
    }

    fn decided(&self, state: &Self::State) -> Option<TokenId> {
        self.token(state).filter(|_| self.tells)
    }
}

/// Forbids a token.
pub(crate) struct Without(pub(crate) TokenId);

impl Transform for Without {
    type State = ();
    fn start(&self, _: &[TokenId]) {}
    fn apply(&self, (): &(), row: &mut Row) {
        if let Some(logit) = row.logits_mut().get_mut(self.0 as usize) {
            *logit = f32::NEG_INFINITY;
        }
    }
    fn advance(&self, (): &mut (), _: TokenId) {}
}
