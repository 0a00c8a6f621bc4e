//! Sequences on a CPU, alone or several together.

use std::any::Any;
use std::sync::Arc;

use crate::cpu::CpuDecoder;
use crate::cpu::pages::Pages;
use crate::cpu::pass::{Work, pass};
use crate::error::ModelError;
use crate::held::{Held, moves};
use crate::language_model::{Batch, Rows, Sequence, Turn};
use crate::pieces::in_passes;
use crate::rotary::Angles;

pub(super) struct CpuSequence {
    decoder: Arc<CpuDecoder>,
    pub(super) pages: Pages,
    /// Those of each rotary embedding.
    pub(super) angles: Arc<[Angles]>,
    pub(super) held: Held,
    work: Work,
}

impl CpuSequence {
    pub(super) fn new(decoder: Arc<CpuDecoder>, pages: Pages, angles: Arc<[Angles]>, held: Held) -> Self {
        Self { decoder, pages, angles, held, work: Work::default() }
    }

    /// The sequence of a turn.
    ///
    /// # Panics
    /// If it is none of this decoder's.
    pub(super) fn of<'a>(turn: &'a mut Turn<'_>, decoder: &CpuDecoder) -> &'a mut Self {
        let sequence: &mut dyn Any = turn.sequence;
        let own = sequence.downcast_mut::<Self>().filter(|sequence| std::ptr::eq(&*sequence.decoder, decoder));
        own.expect("a sequence of this model")
    }
}

/// See [`LanguageModel::forward_each`](crate::LanguageModel::forward_each).
pub(super) fn forward_each(decoder: &CpuDecoder, turns: &mut [Turn<'_>]) -> Result<(), ModelError> {
    let size = decoder.config.vocabulary;
    for turn in &mut *turns {
        let batch = turn.batch;
        let CpuSequence { pages, held, .. } = CpuSequence::of(turn, decoder);
        pages.make_own(held.length(), held.after(&batch, size)?)?;
    }
    let Some(first) = turns.first_mut() else { return Ok(()) };
    let mut work = std::mem::take(&mut CpuSequence::of(first, decoder).work);
    let mut pieces = std::mem::take(&mut work.pieces);
    for Turn { batch, rows, .. } in &mut *turns {
        rows.prepare(batch.rows(), size);
    }
    let done = in_passes(turns, &mut pieces, |turns, pieces| {
        pass(decoder, turns, pieces, &mut work);
        Ok(())
    });
    work.pieces = pieces;
    CpuSequence::of(&mut turns[0], decoder).work = work;
    done
}

impl Sequence for CpuSequence {
    fn len(&self) -> usize {
        self.held.length()
    }

    fn capacity(&self) -> usize {
        self.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let decoder = self.decoder.clone();
        forward_each(&decoder, &mut [Turn { sequence: self, batch: *batch, rows }])
    }

    fn truncate(&mut self, length: usize) {
        self.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let length = self.held.after_keep(from, path);
        self.pages.make_own(from, self.held.length())?;
        moves(from, path).for_each(|(at, to)| self.pages.move_back(at, to));
        self.held.truncate(length);
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let pages = self.pages.share(self.held.length());
        Ok(Box::new(Self::new(self.decoder.clone(), pages, self.angles.clone(), self.held)))
    }
}
