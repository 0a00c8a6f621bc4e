//! The state of one text in a decoder on a CPU.

use std::sync::Arc;

use super::decoder::CpuDecoder;
use super::pages::Pages;
use super::recurrent::Recurrent;
use crate::description::config::Positions;
use crate::description::rotary::Angles;
use crate::error::ModelError;
use crate::held::{Held, moves};

/// The state of one text in a decoder.
pub(crate) struct State {
    pub(super) pages: Pages,
    /// The angles of each rotary embedding.
    pub(super) angles: Arc<[Angles]>,
    pub(crate) held: Held,
    /// The states of layers without keys and values.
    pub(super) recurrent: Recurrent,
}

impl State {
    /// An empty state with room for `capacity` tokens.
    pub(crate) fn new(decoder: &CpuDecoder, capacity: usize) -> Result<Self, ModelError> {
        let config = &decoder.config;
        let held = Held::none(capacity, config.context)?;
        let pages = Pages::new(decoder.layout, decoder.cache_format, decoder.cached.clone(), capacity)?;
        let rotary = if let Positions::Rotary(all) = &config.positions { &all[..] } else { &[] };
        let of = |(which, rotary)| Angles::new(rotary, config.rotated_head(which), capacity);
        let angles = rotary.iter().enumerate().map(of).collect();
        Ok(Self { pages, angles, held, recurrent: Recurrent::new(config) })
    }

    /// See [`Sequence::keep`](crate::Sequence::keep).
    pub(crate) fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let Self { pages, held, recurrent, .. } = self;
        let length = held.after_keep(from, path);
        pages.make_own(from, held.length())?;
        moves(from, path).for_each(|(at, to)| pages.move_back(at, to));
        held.truncate(length);
        recurrent.keep(from, path);
        Ok(())
    }

    /// See [`Sequence::fork`](crate::Sequence::fork).
    pub(crate) fn fork(&self) -> Self {
        let Self { pages, angles, held, recurrent } = self;
        let pages = pages.share(held.length());
        Self { pages, angles: angles.clone(), held: *held, recurrent: recurrent.clone() }
    }

    /// See [`Sequence::fork_at`](crate::Sequence::fork_at).
    pub(crate) fn fork_at(&self, length: usize) -> Self {
        let Self { pages, angles, held, recurrent } = self;
        let mut held = *held;
        held.truncate(length);
        Self { pages: pages.share(length), angles: angles.clone(), held, recurrent: recurrent.fork_at(length) }
    }
}
