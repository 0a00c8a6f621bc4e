//! Sequences on a GPU, alone or several together.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use verdigris_kernels::cuda::draw;
use verdigris_kernels::cuda::elements::move_back;
use verdigris_kernels::cuda::inputs;
use verdigris_kernels::cuda::{Buffer, CudaError};

use super::decoder::{GpuDecoder, Shared};
use super::pass::pass;
use super::resident::Resident;
use super::work::{Span, Work, bucket, is_recorded, outputs};
use crate::error::ModelError;
use crate::held::{Held, moves};
use crate::language_model::{Batch, BatchItem, LanguageModel, PageShape, Rows, SampleRequest, Sequence};
use crate::slices::{CHUNK, TokenSlice, passes, share_out};

/// One text that is read or written.
struct GpuSequence {
    decoder: Arc<GpuDecoder>,
    state: State,
}

/// The state of one text.
struct State {
    /// Pages shared with other sequences are copied before this one writes to them.
    pages: Vec<Arc<Buffer>>,
    angles: Buffer,
    held: Held,
}

/// The input of one of several texts, and where its rows are written.
struct GpuItem<'a> {
    state: &'a mut State,
    batch: Batch<'a>,
    rows: &'a mut Rows,
}

impl State {
    /// Makes the pages of `from..to` exclusive to this sequence (copy on write), and allocates missing ones.
    fn make_own(&mut self, resident: &Resident, from: usize, to: usize) -> Result<(), CudaError> {
        let Resident { gpu, layout, .. } = resident;
        for at in from / layout.tokens..to.div_ceil(layout.tokens) {
            let Some(held) = self.pages.get_mut(at) else {
                self.pages.push(gpu.allocate(layout.page_bytes())?.into());
                continue;
            };
            if Arc::get_mut(held).is_none() {
                let own = gpu.allocate(layout.page_bytes())?;
                own.copy(held)?;
                *held = own.into();
            }
        }
        Ok(())
    }
}

impl LanguageModel for GpuDecoder {
    fn vocabulary_size(&self) -> usize {
        self.config().vocabulary
    }

    fn context_length(&self) -> usize {
        self.config().context
    }

    fn pages(&self) -> PageShape {
        let layout = self.resident.layout;
        let depends_on_capacity = self.config().depends_on_length();
        PageShape { tokens: layout.tokens, bytes: Some(layout.page_bytes()), depends_on_capacity, has_parts: true }
    }

    fn free_bytes(&self) -> Result<Option<u64>, ModelError> {
        Ok(Some(self.resident.gpu.free_memory()?))
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let held = Held::none(capacity, self.config().context)?;
        let angles = self.resident.gpu.upload_numbers(&self.resident.angles(capacity))?;
        Ok(Box::new(GpuSequence { decoder: self, state: State { pages: Vec::new(), angles, held } }))
    }

    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        forward(self, &mut own(self, items), &mut [])
    }

    fn draw_each(&self, items: &mut [BatchItem<'_>], draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        forward(self, &mut own(self, items), draws)?;
        Ok(true)
    }
}

/// The items, with their sequences downcast.
///
/// # Panics
/// If a sequence belongs to another decoder.
fn own<'a>(decoder: &GpuDecoder, items: &'a mut [BatchItem<'_>]) -> Vec<GpuItem<'a>> {
    let own = |item: &'a mut BatchItem<'_>| {
        let sequence: &mut dyn Any = item.sequence;
        let sequence = sequence.downcast_mut::<GpuSequence>().filter(|own| std::ptr::eq(&*own.decoder, decoder));
        let state = &mut sequence.expect("a sequence of this model").state;
        GpuItem { state, batch: item.batch, rows: item.rows }
    };
    items.iter_mut().map(own).collect()
}

/// Continues several sequences, and samples tokens from their rows or, without `draws`, writes their rows.
fn forward(decoder: &GpuDecoder, items: &mut [GpuItem<'_>], draws: &mut [SampleRequest<'_>]) -> Result<(), ModelError> {
    let (resident, size) = (&decoder.resident, decoder.config().vocabulary);
    let (mut slices, mut shared) = (Vec::new(), decoder.shared());
    share_out(items.iter().map(|item| item.batch), &mut slices);
    // Pages of texts that have ended are free before new ones are allocated.
    if let Some(first) = passes(&slices).next() {
        shared.release_all_but(bucket_of(first))?;
    }
    let mut lengths = Vec::with_capacity(items.len());
    for GpuItem { state, batch, .. } in &mut *items {
        if batch.parents.is_some() && batch.tokens.len() > CHUNK {
            return Err(ModelError::Tree { tokens: batch.tokens.len(), most: CHUNK });
        }
        let length = state.held.length();
        state.make_own(resident, length, state.held.after(batch, size)?)?;
        lengths.push(length);
    }
    if draws.is_empty() {
        for GpuItem { batch, rows, .. } in &mut *items {
            rows.prepare(batch.rows(), size);
        }
    }
    let done = passes(&slices).try_for_each(|slices| one_pass(resident, &mut shared, items, slices, draws));
    if done.is_err() {
        items.iter_mut().zip(lengths).for_each(|(item, length)| item.state.held.truncate(length));
    }
    Ok(done?)
}

/// The size of the memory for a pass.
fn bucket_of(slices: &[TokenSlice]) -> usize {
    bucket(slices.iter().map(TokenSlice::len).sum())
}

fn one_pass(
    resident: &Resident,
    Shared { works, drawer }: &mut Shared,
    items: &mut [GpuItem<'_>],
    slices: &[TokenSlice],
    draws: &mut [SampleRequest<'_>],
) -> Result<(), CudaError> {
    let (gpu, size) = (&resident.gpu, resident.config.vocabulary);
    let bucket = bucket_of(slices);
    let work = match works.entry(bucket) {
        Entry::Occupied(work) => work.into_mut(),
        Entry::Vacant(work) => work.insert(Work::new(resident, bucket)?),
    };
    let wanted = set_rows(&mut work.rows, items, slices)?;
    if !is_recorded(bucket) && work.buffers.logits.len() < wanted * size * 4 {
        work.buffers.logits = gpu.allocate(wanted * size * 4)?;
    }
    let (rows, buffers, Span { splits, done }) = work.for_these_rows(resident)?;
    let outputs = if is_recorded(bucket) { outputs(wanted) } else { wanted };
    match done.get_mut(&outputs) {
        Some(Some(graph)) => graph.replay()?,
        Some(graph) if is_recorded(bucket) => {
            let recorded = gpu.record(|| pass(resident, rows, buffers, splits, outputs))?;
            graph.insert(recorded).replay()?;
        }
        _ => {
            pass(resident, rows, buffers, splits, outputs)?;
            done.insert(outputs, None);
        }
    }
    let (mut at, mut asked, mut drawn) = (0, Vec::new(), Vec::new());
    for slice in slices {
        let GpuItem { state, batch, rows } = &mut items[slice.item];
        let of_slice = slice.rows(batch);
        if draws.is_empty() && !of_slice.is_empty() {
            let numbers = &mut rows.logits[of_slice.start * size..of_slice.end * size];
            buffers.logits.read_numbers(at * size * 4, numbers)?;
        }
        for (i, draw) in draws.iter().enumerate() {
            if draw.item == slice.item && of_slice.contains(&draw.row) {
                let SampleRequest { steps, sampler, number, .. } = *draw;
                asked.push(draw::DrawItem { row: at + draw.row - of_slice.start, steps, sampler, number });
                drawn.push(i);
            }
        }
        at += of_slice.len();
        state.held.extend(slice.len());
    }
    let tokens = drawer.draw(gpu, &buffers.logits, &asked)?;
    drawn.into_iter().zip(tokens).for_each(|(i, token)| draws[i].token = token);
    Ok(())
}

/// Sets the rows of a pass. Returns the number of wanted rows.
fn set_rows(rows: &mut inputs::Inputs, items: &[GpuItem<'_>], slices: &[TokenSlice]) -> Result<usize, CudaError> {
    let (mut positions, mut visible, mut wanted) = (Vec::new(), Vec::new(), 0);
    rows.clear();
    for slice in slices {
        let GpuItem { state: State { pages, angles, held }, batch, .. } = &items[slice.item];
        let (held, of_slice, those) = (held.length(), slice.of(batch), slice.wanted(batch));
        positions.clear();
        visible.clear();
        of_slice.extend_positions(held, &mut positions);
        let is_tree = of_slice.extend_visibility(&mut visible);
        let first = rows.len();
        rows.push(inputs::Slice {
            held,
            tokens: of_slice.tokens,
            positions: &positions,
            visible: is_tree.then_some(&visible),
            pages,
            angles,
        });
        wanted += those.len();
        those.for_each(|row| rows.want(first + row));
    }
    rows.finish()?;
    Ok(wanted)
}

impl Sequence for GpuSequence {
    fn len(&self) -> usize {
        self.state.held.length()
    }

    fn capacity(&self) -> usize {
        self.state.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let Self { decoder, state } = self;
        forward(decoder, &mut [GpuItem { state, batch: *batch, rows }], &mut [])
    }

    fn draw(&mut self, batch: &Batch<'_>, draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        let Self { decoder, state } = self;
        forward(decoder, &mut [GpuItem { state, batch: *batch, rows: &mut Rows::default() }], draws)?;
        Ok(true)
    }

    fn truncate(&mut self, length: usize) {
        self.state.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let Self { decoder, state } = self;
        let length = state.held.after_keep(from, path);
        state.make_own(&decoder.resident, from, state.held.length())?;
        let moves: Vec<(usize, usize)> = moves(from, path).collect();
        move_back(&decoder.resident.gpu, decoder.resident.layout, &state.pages, &moves)?;
        state.held.truncate(length);
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let (decoder, State { pages, angles, held }) = (self.decoder.clone(), &self.state);
        let used = held.length().div_ceil(decoder.resident.layout.tokens);
        let state = State { pages: pages[..used].to_vec(), angles: angles.clone(), held: *held };
        Ok(Box::new(Self { decoder, state }))
    }
}
