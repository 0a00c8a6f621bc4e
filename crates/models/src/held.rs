//! The number of tokens that a sequence holds and can hold.

use crate::error::ModelError;
use crate::language_model::Batch;

/// The length and the capacity of a sequence, in tokens. Every kind of sequence counts them, and checks them before it
/// computes.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    length: usize,
    capacity: usize,
}

impl Held {
    /// An empty sequence with room for `capacity` tokens, in a model that can hold `context`.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] if `capacity` exceeds the context.
    pub fn none(capacity: usize, context: usize) -> Result<Self, ModelError> {
        if capacity > context {
            return Err(ModelError::ContextFull { tokens: capacity, capacity: context });
        }
        Ok(Self { length: 0, capacity })
    }

    /// The number of tokens held.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The number of tokens that can be held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of tokens held after `batch`.
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`] if a token is outside a vocabulary of `size`, and [`ModelError::ContextFull`] if
    /// there is no room for all.
    pub fn after(&self, batch: &Batch<'_>, size: usize) -> Result<usize, ModelError> {
        if let Some(&token) = batch.tokens.iter().find(|&&token| token as usize >= size) {
            return Err(ModelError::UnknownToken { token, size });
        }
        self.check(batch.tokens.len())?;
        Ok(self.length + batch.tokens.len())
    }

    /// Checks that there is room for `count` more tokens.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] if there is not.
    pub fn check(&self, count: usize) -> Result<(), ModelError> {
        let (tokens, capacity) = (self.length + count, self.capacity);
        if tokens > capacity { Err(ModelError::ContextFull { tokens, capacity }) } else { Ok(()) }
    }

    /// Counts `count` tokens that were read.
    pub fn extend(&mut self, count: usize) {
        self.length += count;
        debug_assert!(self.length <= self.capacity, "{} tokens in room for {}", self.length, self.capacity);
    }

    /// Forgets all tokens past the first `length`: see [`Sequence::truncate`](crate::Sequence::truncate).
    ///
    /// # Panics
    /// If fewer are held.
    pub fn truncate(&mut self, length: usize) {
        assert!(length <= self.length, "truncating {} tokens to {length}", self.length);
        self.length = length;
    }

    /// The number of tokens held after [`Sequence::keep`](crate::Sequence::keep).
    ///
    /// # Panics
    /// If the indices of the path are not strictly ascending, or not held.
    pub fn after_keep(&self, from: usize, path: &[usize]) -> usize {
        let length = self.length;
        assert!(path.is_sorted_by(|a, b| a < b), "indices of a path are strictly ascending: {path:?}");
        assert!(path.last().map_or(from, |last| from + last + 1) <= length, "{path:?} after {from} of {length} tokens");
        from + path.len()
    }
}

/// The tokens of a path that have to move, as pairs of a token's index and the lower index where it belongs.
pub fn moves(from: usize, path: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    path.iter().enumerate().filter(|(to, at)| to != *at).map(move |(to, at)| (from + at, from + to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language_model::Wanted;

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(matches!(Held::none(9, 8), Err(ModelError::ContextFull { tokens: 9, capacity: 8 })));
        let mut held = Held::none(4, 8).unwrap();
        assert_eq!(held.after(&Batch::chain(&[1, 2, 3], Wanted::Last), 10).unwrap(), 3);
        held.extend(3);
        let fault = held.after(&Batch::chain(&[1, 2], Wanted::Last), 10).unwrap_err();
        assert!(matches!(fault, ModelError::ContextFull { tokens: 5, capacity: 4 }), "{fault}");
        let fault = held.after(&Batch::chain(&[10], Wanted::Last), 10).unwrap_err();
        assert!(matches!(fault, ModelError::UnknownToken { token: 10, size: 10 }), "{fault}");
    }

    #[test]
    fn a_path_is_counted_and_moves_to_the_front() {
        let mut held = Held::none(20, 20).unwrap();
        held.extend(9);
        assert_eq!(held.after_keep(4, &[0, 2, 4]), 7);
        assert_eq!(moves(4, &[0, 2, 4]).collect::<Vec<_>>(), [(6, 5), (8, 6)]);
        held.truncate(7);
        assert_eq!(held.length(), 7);
        for path in [&[1, 1][..], &[2, 1], &[3]] {
            let held = std::panic::catch_unwind(|| held.after_keep(4, path));
            assert!(held.is_err(), "{path:?}");
        }
    }
}
