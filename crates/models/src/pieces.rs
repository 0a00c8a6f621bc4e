//! Turns of several sequences, in pieces that go through the layers together.

use std::ops::Range;

use crate::error::ModelError;
use crate::language_model::{Batch, Turn, Wanted};

/// The most tokens of chains that go through the layers together. A longer prompt goes in chunks, so that memory does not grow
/// with it.
pub(crate) const CHUNK: usize = 512;

/// Some tokens of one turn's batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) turn: usize,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    pub(crate) fn batch<'a>(&self, turn: &Turn<'a>) -> Batch<'a> {
        // A tree is one piece.
        Batch { tokens: &turn.batch.tokens[self.from..self.to], ..turn.batch }
    }

    /// Which of the piece's tokens have rows.
    pub(crate) fn wanted(&self, turn: &Turn<'_>) -> Range<usize> {
        let count = self.len();
        match turn.batch.wanted {
            Wanted::All => 0..count,
            Wanted::Last if self.to == turn.batch.tokens.len() => count - 1..count,
            Wanted::Last => 0..0,
        }
    }

    /// Which of the turn's rows those are.
    pub(crate) fn place(&self, turn: &Turn<'_>) -> Range<usize> {
        let from = if turn.batch.wanted == Wanted::All { self.from } else { 0 };
        from..from + self.wanted(turn).len()
    }
}

/// Shares all tokens out to passes of at most [`CHUNK`] tokens, except that a tree stays whole, for its tokens see each other. It
/// works in `pieces`.
pub(crate) fn in_passes(
    turns: &mut [Turn<'_>],
    pieces: &mut Vec<Piece>,
    mut pass: impl FnMut(&mut [Turn<'_>], &[Piece]) -> Result<(), ModelError>,
) -> Result<(), ModelError> {
    let mut room = CHUNK;
    let mut flush = |turns: &mut [Turn<'_>], pieces: &mut Vec<Piece>, room: &mut usize| {
        let done = if pieces.is_empty() { Ok(()) } else { pass(turns, pieces) };
        pieces.clear();
        *room = CHUNK;
        done
    };
    pieces.clear();
    for turn in 0..turns.len() {
        let Batch { tokens, parents, .. } = turns[turn].batch;
        let (m, is_tree) = (tokens.len(), parents.is_some());
        if is_tree && m > room {
            flush(turns, pieces, &mut room)?;
        }
        let mut from = 0;
        while from < m {
            let count = if is_tree { m } else { room.min(m - from) };
            pieces.push(Piece { turn, from, to: from + count });
            from += count;
            room = room.saturating_sub(count);
            if room == 0 {
                flush(turns, pieces, &mut room)?;
            }
        }
    }
    flush(turns, pieces, &mut room)
}
