//! Counting each distinct draw once, in bounded memory.
//!
//! A repeated context repeats the same random draw, and counting it again would claim evidence that is not
//! there. A set of all draws of a very long text would not fit in memory, so past [`CAPACITY`] distinct draws
//! only a random sample of them is kept: those whose identity lies under a threshold that halves whenever the
//! set is full (adaptive sampling, Wegman; Flajolet, *On adaptive sampling*, 1990). Which draws stay depends
//! on their identities alone, not on their colours, so the statistics of the sample are exact.

use crate::scheme::Draw;

/// The most distinct draws that are counted: far more than any verdict needs, in 16 MiB.
pub(crate) const CAPACITY: usize = 1 << 20;

const FIRST_SLOTS: usize = 1 << 10;

/// A set of draws: identities with the colour in the lowest bit, in open addressing with linear probing.
pub(crate) struct Distinct {
    slots: Vec<u64>,
    len: usize,
    green: usize,
    /// A draw is kept when the `level` highest bits of its identity are zero.
    level: u32,
}

impl Distinct {
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; FIRST_SLOTS], len: 0, green: 0, level: 0 }
    }

    /// Brings the slots of some draws into the cache, all at once instead of one after the other.
    pub(crate) fn expect(&self, draws: &[Draw]) {
        let mask = self.slots.len() - 1;
        let touched = draws.iter().fold(0, |sum, draw| sum ^ self.slots[place(clean(draw.identity)) & mask]);
        std::hint::black_box(touched);
    }

    /// Takes in a draw; true when it was not there before (whether or not the sample keeps it).
    #[inline]
    pub(crate) fn insert(&mut self, draw: Draw) -> bool {
        let identity = clean(draw.identity);
        if identity.leading_zeros() < self.level {
            return false;
        }
        let mask = self.slots.len() - 1;
        let mut slot = place(identity) & mask;
        loop {
            match self.slots[slot] {
                0 => break,
                taken if taken & !1 == identity => return false,
                _ => slot = (slot + 1) & mask,
            }
        }
        self.slots[slot] = identity | u64::from(draw.green);
        self.len += 1;
        self.green += usize::from(draw.green);
        if 2 * self.len >= self.slots.len() {
            self.make_room();
        }
        true
    }

    /// The number of draws counted.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many of them are green.
    pub(crate) fn green(&self) -> usize {
        self.green
    }

    /// Each distinct draw of the text was counted with probability `2^-level`.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    #[cold]
    fn make_room(&mut self) {
        let slots = if self.len < CAPACITY {
            2 * self.slots.len()
        } else {
            self.level += 1;
            self.slots.len()
        };
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        (self.len, self.green) = (0, 0);
        for kept in old.into_iter().filter(|&kept| kept != 0) {
            self.insert(Draw { identity: kept, green: kept & 1 == 1 });
        }
    }
}

/// Never zero, which marks a free slot; the colour takes the place of the lowest bit.
fn clean(identity: u64) -> u64 {
    identity & !3 | 2
}

/// Spreads what the threshold leaves of an identity over the table.
fn place(identity: u64) -> usize {
    (identity.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use verdigris_logits::random::philox4x32;

    fn draw(i: u32) -> Draw {
        let [a, b, c, _] = philox4x32([i, 0, 0, 0], [1, 2]);
        Draw { identity: u64::from(a) << 32 | u64::from(b), green: c % 4 == 0 }
    }

    #[test]
    fn counts_each_draw_once() {
        let mut distinct = Distinct::new();
        let mut model = HashMap::new();
        for i in 0..200_000u32 {
            let draw = draw(i * i % 70_001);
            assert_eq!(distinct.insert(draw), model.insert(draw.identity, draw.green).is_none());
        }
        assert_eq!(distinct.len(), model.len());
        assert_eq!(distinct.green(), model.values().filter(|&&green| green).count());
        assert_eq!(distinct.level(), 0);
    }

    #[test]
    fn past_its_capacity_it_keeps_a_fair_sample() {
        let mut distinct = Distinct::new();
        let n = 5 * CAPACITY as u32;
        (0..n).for_each(|i| _ = distinct.insert(draw(i)));
        (0..n / 8).for_each(|i| _ = distinct.insert(draw(i)));
        assert_eq!(distinct.level(), 3);
        assert!(distinct.len() <= CAPACITY && distinct.slots.len() <= 2 * CAPACITY);
        let expected = f64::from(n) / 8.0;
        assert!((distinct.len() as f64 - expected).abs() < 6.0 * expected.sqrt(), "{}", distinct.len());
        let share = distinct.green() as f64 / distinct.len() as f64;
        assert!((share - 0.25).abs() < 6.0 * (0.1875 / expected).sqrt(), "{share}");
    }
}
