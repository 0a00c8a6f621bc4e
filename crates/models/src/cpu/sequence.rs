//! Sequences on a CPU, alone or several together.

use std::any::Any;
use std::sync::Arc;

use super::decoder::CpuDecoder;
use super::pages::Pages;
use super::pass::{Item, State, Work, pass};
use crate::description::config::{DecoderConfig, Positions};
use crate::description::rotary::Angles;
use crate::error::ModelError;
use crate::held::{Held, moves};
use crate::language_model::{Batch, BatchItem, LanguageModel, Rows, Sequence};
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

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let DecoderConfig { layers, kv_heads, head_dim, context, .. } = self.config;
        let held = Held::none(capacity, context)?;
        let pages = Pages::new(self.layout, self.cache_format, kv_heads * head_dim, layers, capacity)?;
        let rotary = if let Positions::Rotary(all) = &self.config.positions { &all[..] } else { &[] };
        let angles = rotary.iter().map(|rotary| Angles::new(rotary, head_dim, capacity)).collect();
        Ok(Box::new(CpuSequence { decoder: self, state: State { pages, angles, held }, work: Work::default() }))
    }

    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        let mut work: Option<&mut Work> = None;
        let mut own = Vec::with_capacity(items.len());
        for BatchItem { sequence, batch, rows } in items {
            let sequence: &mut dyn Any = *sequence;
            let sequence = sequence.downcast_mut::<CpuSequence>().filter(|own| std::ptr::eq(&*own.decoder, self));
            let CpuSequence { state, work: memory, .. } = sequence.expect("a sequence of this model");
            work.get_or_insert(memory);
            own.push(Item { state, batch: *batch, rows });
        }
        work.map_or(Ok(()), |work| forward(self, &mut own, work))
    }
}

/// Goes on with several sequences: see [`LanguageModel::forward_each`].
fn forward(decoder: &CpuDecoder, items: &mut [Item<'_>], work: &mut Work) -> Result<(), ModelError> {
    let size = decoder.config.vocabulary;
    for Item { state: State { pages, held, .. }, batch, .. } in &mut *items {
        pages.make_own(held.length(), held.after(batch, size)?)?;
    }
    for Item { batch, rows, .. } in &mut *items {
        rows.prepare(batch.rows(), size);
    }
    let mut slices = std::mem::take(&mut work.slices);
    share_out(items.iter().map(|item| item.batch), &mut slices);
    passes(&slices).for_each(|slices| pass(decoder, items, slices, work));
    work.slices = slices;
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
        forward(decoder, &mut [Item { state, batch: *batch, rows }], work)
    }

    fn truncate(&mut self, length: usize) {
        self.state.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let State { pages, held, .. } = &mut self.state;
        let length = held.after_keep(from, path);
        pages.make_own(from, held.length())?;
        moves(from, path).for_each(|(at, to)| pages.move_back(at, to));
        held.truncate(length);
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let State { pages, angles, held } = &self.state;
        let state = State { pages: pages.share(held.length()), angles: angles.clone(), held: *held };
        Ok(Box::new(Self { decoder: self.decoder.clone(), state, work: Work::default() }))
    }
}
