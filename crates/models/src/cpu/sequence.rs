//! Sequences on a CPU, alone or several together.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use verdigris_logits::TokenId;

use super::decoder::CpuDecoder;
use super::pages::Pages;
use super::pass::pass;
use super::peers::Peers;
use super::state::State;
use super::stored;
use super::work::{CpuItem, Sight, Work};
use crate::cache::CacheLayout;
use crate::error::ModelError;
use crate::language_model::{Batch, BatchItem, LanguageModel, PageShape, Rows, Sequence, Wanted};
use crate::saved::{SavedSection, StateId};
use crate::slices::{passes, share_out};

/// One text that is read or written.
struct CpuSequence {
    decoder: Arc<CpuDecoder>,
    state: State,
    work: Work,
}

impl LanguageModel for CpuDecoder {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn context_length(&self) -> usize {
        self.config.context
    }

    fn pages(&self) -> PageShape {
        let context = self.config.context;
        let (tokens, is_paged) = match self.layout {
            CacheLayout::Paged { tokens } => (tokens.clamp(1, context.max(1)), true),
            CacheLayout::Contiguous => (context.max(1), false),
        };
        let bytes = tokens.saturating_mul(Pages::bytes_a_token(self.cache_format, &self.cached));
        let depends_on_capacity = !is_paged || self.config.depends_on_length();
        PageShape { tokens, bytes: Some(bytes), depends_on_capacity, has_parts: !self.config.is_recurrent() }
    }

    fn hidden_size(&self) -> Option<usize> {
        Some(self.config.width)
    }

    fn layers(&self) -> usize {
        self.config.blocks.len()
    }

    fn state_id(&self, capacity: usize) -> Option<StateId> {
        Some(stored::state_id(self, capacity))
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let state = State::new(&self, capacity)?;
        Ok(Box::new(CpuSequence { decoder: self, state, work: Work::default() }))
    }

    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        let mut work: Option<&mut Work> = None;
        let mut own = Vec::with_capacity(items.len());
        for BatchItem { sequence, batch, rows } in items {
            let sequence: &mut dyn Any = *sequence;
            let sequence = sequence.downcast_mut::<CpuSequence>().filter(|own| std::ptr::eq(&*own.decoder, self));
            let CpuSequence { state, work: memory, .. } = sequence.expect("a sequence of this model");
            work.get_or_insert(memory);
            own.push(CpuItem { state, batch: *batch, beginning: None, sight: Sight::Before, rows });
        }
        reserve(self, &mut own)?;
        work.map_or(Ok(()), |work| forward(self, &mut own, work, &mut Peers::none()))
    }
}

/// Makes sure that several sequences have room and memory for their input. After an error none has read anything.
pub(crate) fn reserve(decoder: &CpuDecoder, items: &mut [CpuItem<'_>]) -> Result<(), ModelError> {
    for CpuItem { state: State { pages, held, .. }, batch, .. } in items {
        pages.make_own(held.length(), held.after(batch, decoder.config.vocabulary)?)?;
    }
    Ok(())
}

/// Continues several sequences whose memory is [reserved](reserve): see [`LanguageModel::forward_each`]. It fails only
/// if other ranks do.
pub(crate) fn forward(
    decoder: &CpuDecoder,
    items: &mut [CpuItem<'_>],
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    if peers.want_rows_here() {
        for CpuItem { batch, rows, .. } in &mut *items {
            rows.prepare(batch.rows(), decoder.row_width);
            rows.prepare_hidden(batch.tokens.len(), decoder.config.width);
        }
    }
    read_again(decoder, items, work)?;
    let mut slices = std::mem::take(&mut work.slices);
    share_out(items.iter().map(|item| item.batch), &mut slices);
    work.lengths.clear();
    work.lengths.extend(items.iter().map(|item| item.state.held.length()));
    let done = passes(&slices).try_for_each(|slices| pass(decoder, items, slices, work, peers));
    work.slices = slices;
    if done.is_err() {
        items.iter_mut().zip(&work.lengths).for_each(|(item, length)| item.state.held.truncate(*length));
    }
    done
}

/// Reads tokens again whose states cannot be reached otherwise: see [`recurrent`](super::recurrent).
fn read_again(decoder: &CpuDecoder, items: &mut [CpuItem<'_>], work: &mut Work) -> Result<(), ModelError> {
    for CpuItem { state, .. } in items {
        let length = state.held.length();
        let Some(tokens) = state.recurrent.tokens_to_read_again(length) else { continue };
        let from = length - tokens.len();
        state.pages.make_own(from, length)?;
        state.held.truncate(from);
        let batch = Batch::chain(&tokens, Wanted::From(tokens.len()));
        let item = CpuItem { state, batch, beginning: None, sight: Sight::Before, rows: &mut Rows::default() };
        forward(decoder, &mut [item], work, &mut Peers::none())?;
    }
    Ok(())
}

impl Sequence for CpuSequence {
    fn len(&self) -> usize {
        self.state.held.length()
    }

    fn capacity(&self) -> usize {
        self.state.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let Self { decoder, state, work } = self;
        let items = &mut [CpuItem { state, batch: *batch, beginning: None, sight: Sight::Before, rows }];
        reserve(decoder, items)?;
        forward(decoder, items, work, &mut Peers::none())
    }

    fn truncate(&mut self, length: usize) {
        self.state.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.state.keep(from, path)
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(Self { decoder: self.decoder.clone(), state: self.state.fork(), work: Work::default() }))
    }

    fn save(&self, tokens: Range<usize>) -> Option<Vec<SavedSection<'static>>> {
        stored::save(&self.state, tokens)
    }

    fn forget_states(&mut self) {
        self.state.recurrent.forget();
    }

    fn saved_ends(&self) -> Option<Vec<usize>> {
        self.state.recurrent.known_at()
    }

    fn restore(&mut self, tokens: &[TokenId], of: usize, sections: &[SavedSection<'_>]) -> Result<bool, ModelError> {
        stored::restore(&mut self.state, tokens, of, sections)
    }

    fn fork_at(&self, length: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let state = self.state.fork_at(length);
        Ok(Box::new(Self { decoder: self.decoder.clone(), state, work: Work::default() }))
    }

    fn read_again(&mut self) -> Result<(), ModelError> {
        let Self { decoder, state, work } = self;
        if !state.recurrent.must_read_again(state.held.length()) {
            return Ok(());
        }
        let (batch, rows) = (Batch::chain(&[], Wanted::All), &mut Rows::default());
        read_again(decoder, &mut [CpuItem { state, batch, beginning: None, sight: Sight::Before, rows }], work)?;
        *work = Work::default();
        *state = state.fork_at(state.held.length());
        Ok(())
    }
}
