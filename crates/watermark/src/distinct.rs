//! Counting each distinct thing once, in bounded memory: draws with their scores, and contexts.
//!
//! A repeated context repeats the same random draw, and counting it again would claim evidence that is not
//! there. A set of all draws of a very long text would not fit in memory, so past [`CAPACITY`] distinct ones
//! only a random sample is kept: those whose name lies under a threshold that halves whenever the set is full
//! (adaptive sampling, Wegman; Flajolet, *On adaptive sampling*, 1990). Which draws stay depends on their names
//! alone, not on their scores, so the statistics of the sample are exact.

/// The most distinct names that are kept: far more than any verdict needs, in 32 MiB.
pub(crate) const CAPACITY: usize = 1 << 20;

const FIRST_SLOTS: usize = 1 << 10;

/// A name with the score that it has; zero is a free slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    name: u64,
    score: f32,
}

/// A set of names with scores, in open addressing with linear probing.
pub(crate) struct Distinct {
    slots: Vec<Slot>,
    len: usize,
    sum: f64,
    /// A name is kept when its `level` highest bits are zero.
    level: u32,
}

impl Distinct {
    pub(crate) fn new() -> Self {
        Self { slots: vec![Slot::default(); FIRST_SLOTS], len: 0, sum: 0.0, level: 0 }
    }

    /// Brings the slots of some names into the cache, all at once instead of one after the other.
    pub(crate) fn expect(&self, names: impl Iterator<Item = u64>) {
        let mask = self.slots.len() - 1;
        let touched = names.fold(0, |sum, name| sum ^ self.slots[place(clean(name)) & mask].name);
        std::hint::black_box(touched);
    }

    /// Takes in a name; true when it was not there before and the sample keeps it.
    #[inline]
    pub(crate) fn insert(&mut self, name: u64, score: f32) -> bool {
        let name = clean(name);
        if name.leading_zeros() < self.level {
            return false;
        }
        let mask = self.slots.len() - 1;
        let mut slot = place(name) & mask;
        loop {
            match self.slots[slot].name {
                0 => break,
                taken if taken == name => return false,
                _ => slot = (slot + 1) & mask,
            }
        }
        self.slots[slot] = Slot { name, score };
        self.len += 1;
        self.sum += f64::from(score);
        if 2 * self.len >= self.slots.len() {
            self.make_room();
        }
        true
    }

    /// The number of names counted.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The sum of their scores.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// Each distinct name was counted with probability `2^-level`.
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
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        (self.len, self.sum) = (0, 0.0);
        for kept in old.into_iter().filter(|kept| kept.name != 0) {
            self.insert(kept.name, kept.score);
        }
    }
}

/// Never zero, which marks a free slot.
fn clean(name: u64) -> u64 {
    name | 1
}

/// Spreads what the threshold leaves of a name over the table.
fn place(name: u64) -> usize {
    (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use verdigris_logits::random::philox4x32;

    fn draw(i: u32) -> (u64, f32) {
        let [a, b, c, _] = philox4x32([i, 0, 0, 0], [1, 2]);
        (u64::from(a) << 32 | u64::from(b), if c % 4 == 0 { 1.0 } else { 0.0 })
    }

    #[test]
    fn counts_each_name_once() {
        let mut distinct = Distinct::new();
        let mut model = HashMap::new();
        for i in 0..200_000u32 {
            let (name, score) = draw(i * i % 70_001);
            assert_eq!(distinct.insert(name, score), model.insert(name, score).is_none());
        }
        assert_eq!(distinct.len(), model.len());
        assert_eq!(distinct.sum(), model.values().map(|&score| f64::from(score)).sum::<f64>());
        assert_eq!(distinct.level(), 0);
    }

    #[test]
    fn past_its_capacity_it_keeps_a_fair_sample() {
        let mut distinct = Distinct::new();
        let n = 5 * CAPACITY as u32;
        let mut insert = |i| {
            let (name, score) = draw(i);
            distinct.insert(name, score);
        };
        (0..n).for_each(&mut insert);
        (0..n / 8).for_each(&mut insert);
        assert_eq!(distinct.level(), 3);
        assert!(distinct.len() <= CAPACITY && distinct.slots.len() <= 2 * CAPACITY);
        let expected = f64::from(n) / 8.0;
        assert!((distinct.len() as f64 - expected).abs() < 6.0 * expected.sqrt(), "{}", distinct.len());
        let share = distinct.sum() / distinct.len() as f64;
        assert!((share - 0.25).abs() < 6.0 * (0.1875 / expected).sqrt(), "{share}");
    }
}
