//! Sequences on a GPU, alone or several together.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use verdigris_kernels::cuda::draw::Item;
use verdigris_kernels::cuda::elements::move_back;
use verdigris_kernels::cuda::rows;
use verdigris_kernels::cuda::{Buffer, CudaError};

use crate::error::ModelError;
use crate::gpu::pass::pass;
use crate::gpu::work::{Span, Work, bucket, is_recorded, outputs};
use crate::gpu::{GpuDecoder, Shared};
use crate::held::{Held, moves};
use crate::language_model::{Batch, Drawn, Rows, Sequence, Turn};
use crate::pieces::{CHUNK, Piece, in_passes};

pub(super) struct GpuSequence {
    decoder: Arc<GpuDecoder>,
    /// Those that other sequences have too are copied before this one writes to them.
    pages: Vec<Arc<Buffer>>,
    angles: Buffer,
    held: Held,
}

impl GpuSequence {
    pub(super) fn new(decoder: Arc<GpuDecoder>, held: Held) -> Result<Self, ModelError> {
        let angles = decoder.gpu.upload_numbers(&decoder.angles(held.capacity()))?;
        Ok(Self { decoder, pages: Vec::new(), angles, held })
    }

    /// The sequence of a turn.
    ///
    /// # Panics
    /// If it is none of this decoder's.
    fn of<'a>(turn: &'a mut Turn<'_>, decoder: &GpuDecoder) -> &'a mut Self {
        let sequence: &mut dyn Any = turn.sequence;
        let own = sequence.downcast_mut::<Self>().filter(|sequence| std::ptr::eq(&*sequence.decoder, decoder));
        own.expect("a sequence of this model")
    }

    /// Makes sure that there are pages for the tokens from one to before another that no other sequence holds.
    fn make_own(&mut self, from: usize, to: usize) -> Result<(), CudaError> {
        let GpuDecoder { gpu, layout, .. } = &*self.decoder;
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

/// Goes on with several sequences, and draws tokens from their rows, or, without draws, writes their rows.
pub(super) fn forward_each(
    decoder: &GpuDecoder,
    turns: &mut [Turn<'_>],
    draws: &mut [Drawn<'_>],
) -> Result<(), ModelError> {
    let mut lengths = Vec::with_capacity(turns.len());
    for turn in &mut *turns {
        let batch = turn.batch;
        if batch.parents.is_some() && batch.tokens.len() > CHUNK {
            return Err(ModelError::Tree { tokens: batch.tokens.len(), most: CHUNK });
        }
        let sequence = GpuSequence::of(turn, decoder);
        let size = decoder.config.vocabulary;
        let length = sequence.held.length();
        sequence.make_own(length, sequence.held.after(&batch, size)?)?;
        lengths.push(length);
    }
    if draws.is_empty() {
        turns.iter_mut().for_each(|Turn { batch, rows, .. }| {
            rows.prepare(batch.rows(), decoder.config.vocabulary);
        });
    }
    let mut shared = decoder.shared();
    let done =
        in_passes(turns, &mut Vec::new(), |turns, pieces| Ok(one_pass(decoder, &mut shared, turns, pieces, draws)?));
    if done.is_err() {
        turns.iter_mut().zip(lengths).for_each(|(turn, length)| GpuSequence::of(turn, decoder).held.truncate(length));
    }
    done
}

fn one_pass(
    decoder: &GpuDecoder,
    Shared { works, drawer }: &mut Shared,
    turns: &mut [Turn<'_>],
    pieces: &[Piece],
    draws: &mut [Drawn<'_>],
) -> Result<(), CudaError> {
    let (gpu, size) = (&decoder.gpu, decoder.config.vocabulary);
    let bucket = bucket(pieces.iter().map(Piece::len).sum());
    let work = match works.entry(bucket) {
        Entry::Occupied(work) => work.into_mut(),
        Entry::Vacant(place) => place.insert(Work::new(decoder, bucket)?),
    };
    let wanted = set_rows(decoder, &mut work.rows, turns, pieces)?;
    if !is_recorded(bucket) && work.buffers.logits.len() < wanted * size * 4 {
        work.buffers.logits = gpu.allocate(wanted * size * 4)?;
    }
    let (rows, buffers, Span { splits, done }) = work.for_these_rows(decoder)?;
    let outputs = if is_recorded(bucket) { outputs(wanted) } else { wanted };
    match done.get_mut(&outputs) {
        Some(Some(graph)) => graph.replay()?,
        Some(graph) if is_recorded(bucket) => {
            let recorded = gpu.record(|| pass(decoder, rows, buffers, splits, outputs))?;
            graph.insert(recorded).replay()?;
        }
        _ => {
            pass(decoder, rows, buffers, splits, outputs)?;
            done.insert(outputs, None);
        }
    }
    let (mut at, mut items, mut drawn) = (0, Vec::new(), Vec::new());
    for piece in pieces {
        let turn = &mut turns[piece.turn];
        let place = piece.place(turn);
        if draws.is_empty() && !place.is_empty() {
            let numbers = &mut turn.rows.logits[place.start * size..place.end * size];
            buffers.logits.read_numbers(at * size * 4, numbers)?;
        }
        for (i, draw) in draws.iter().enumerate() {
            if draw.turn == piece.turn && place.contains(&draw.row) {
                let Drawn { steps, sampler, number, .. } = *draw;
                items.push(Item { row: at + draw.row - place.start, steps, sampler, number });
                drawn.push(i);
            }
        }
        at += place.len();
        GpuSequence::of(turn, decoder).held.extend(piece.len());
    }
    let tokens = drawer.draw(gpu, &buffers.logits, &items)?;
    drawn.into_iter().zip(tokens).for_each(|(i, token)| draws[i].token = token);
    Ok(())
}

/// Sets the rows of a pass; how many are wanted.
fn set_rows(
    decoder: &GpuDecoder,
    rows: &mut rows::Rows,
    turns: &mut [Turn<'_>],
    pieces: &[Piece],
) -> Result<usize, CudaError> {
    let (mut positions, mut visible, mut wanted) = (Vec::new(), Vec::new(), 0);
    rows.clear();
    for piece in pieces {
        let batch = piece.batch(&turns[piece.turn]);
        let those = piece.wanted(&turns[piece.turn]);
        let GpuSequence { pages, angles, held, .. } = GpuSequence::of(&mut turns[piece.turn], decoder);
        let held = held.length();
        positions.clear();
        visible.clear();
        batch.extend_positions(held, &mut positions);
        let is_tree = batch.extend_visibility(&mut visible);
        let first = rows.len();
        rows.push(rows::Piece {
            held,
            tokens: batch.tokens,
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
        self.held.length()
    }

    fn capacity(&self) -> usize {
        self.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let decoder = self.decoder.clone();
        forward_each(&decoder, &mut [Turn { sequence: self, batch: *batch, rows }], &mut [])
    }

    fn draw(&mut self, batch: &Batch<'_>, draws: &mut [Drawn<'_>]) -> Result<bool, ModelError> {
        let decoder = self.decoder.clone();
        let turn = Turn { sequence: self, batch: *batch, rows: &mut Rows::default() };
        forward_each(&decoder, &mut [turn], draws)?;
        Ok(true)
    }

    fn truncate(&mut self, length: usize) {
        self.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let length = self.held.after_keep(from, path);
        self.make_own(from, self.held.length())?;
        let moves: Vec<(usize, usize)> = moves(from, path).collect();
        move_back(&self.decoder.gpu, self.decoder.layout, &self.pages, &moves)?;
        self.held.truncate(length);
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let used = self.held.length().div_ceil(self.decoder.layout.tokens);
        let (decoder, angles) = (self.decoder.clone(), self.angles.clone());
        Ok(Box::new(Self { decoder, pages: self.pages[..used].to_vec(), angles, ..*self }))
    }
}
