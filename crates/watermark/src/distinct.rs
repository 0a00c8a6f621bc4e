//! Counts each distinct observation or context once, in bounded memory, and adds up scores of what is counted.
//!
//! A repeated context repeats the same random draw, and counting it again would claim evidence that does not exist. The
//! set of all observations of a very long text would not fit in memory, so past [`CAPACITY`] distinct ones only a
//! random sample is kept: those whose name is below a threshold that halves whenever the set is full (adaptive
//! sampling, Wegman; Flajolet, *On adaptive sampling*, 1990). Which observations stay depends on their names alone, not
//! on their scores, so the statistics of the sample are exact.

/// The most distinct names that are kept: far more than any verdict needs, in 16 MiB.
pub(crate) const CAPACITY: usize = 1 << 20;

const FIRST_SLOTS: usize = 1 << 10;

/// A set of names in open addressing with linear probing.
///
/// Slots are in the order of the names, so that a table grows in one pass from front to back.
pub(crate) struct Distinct {
    /// Zero is a free slot.
    slots: Vec<u64>,
    len: usize,
    /// A name is kept when its `level` highest bits are zero.
    level: u32,
}

/// A sum of scores of names. It can leave out the names that a level drops.
pub(crate) struct Sum {
    /// The sum of the scores of the names with `i` leading zeros, at index `i`.
    by_zeros: [f64; 64],
}

impl Sum {
    pub(crate) fn new() -> Self {
        Self { by_zeros: [0.0; 64] }
    }

    /// Adds the score of a name with this number of leading zeros.
    #[inline]
    pub(crate) fn add(&mut self, zeros: u32, score: f32) {
        self.by_zeros[zeros as usize] += f64::from(score);
    }

    /// The sum of the scores of the names that a set of this level keeps.
    pub(crate) fn at(&self, level: u32) -> f64 {
        self.by_zeros[level as usize..].iter().sum()
    }
}

impl Distinct {
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; FIRST_SLOTS], len: 0, level: 0 }
    }

    /// Makes room for `names` names if the set is empty.
    pub(crate) fn reserve(&mut self, names: usize) {
        let slots = (2 * names).next_power_of_two().min(2 * CAPACITY);
        if self.len == 0 && slots > self.slots.len() {
            self.grow(slots);
        }
    }

    /// Loads the slots of some names into the cache, all at once instead of one after the other.
    pub(crate) fn expect(&self, names: impl Iterator<Item = u64>) {
        // A small table stays in the cache.
        if self.slots.len() < 1 << 14 {
            return;
        }
        let touched = names.fold(0, |sum, name| sum ^ self.slots[self.first_slot(clean(name))]);
        std::hint::black_box(touched);
    }

    /// Adds a name. If it was not in the set before and the sample keeps it, returns the number of its leading zeros.
    #[inline]
    pub(crate) fn insert(&mut self, name: u64) -> Option<u32> {
        let name = clean(name);
        let zeros = name.leading_zeros();
        if zeros < self.level || !self.put(name) {
            return None;
        }
        if 2 * self.len >= self.slots.len() {
            self.make_room();
        }
        Some(zeros)
    }

    /// The number of names counted.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The level: each distinct name was counted with probability `2^-level`.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    /// The slot at which the search for a name starts.
    #[inline]
    fn first_slot(&self, name: u64) -> usize {
        (name << self.level >> (u64::BITS - self.slots.len().trailing_zeros())) as usize
    }

    /// Puts a name into its slot. Returns whether it was not in the set before.
    #[inline]
    fn put(&mut self, name: u64) -> bool {
        let mask = self.slots.len() - 1;
        let mut slot = self.first_slot(name);
        loop {
            match self.slots[slot] {
                0 => break,
                taken if taken == name => return false,
                _ => slot = (slot + 1) & mask,
            }
        }
        self.slots[slot] = name;
        self.len += 1;
        true
    }

    #[cold]
    fn make_room(&mut self) {
        if self.len < CAPACITY {
            self.grow(2 * self.slots.len());
        } else {
            self.level += 1;
            self.grow(self.slots.len());
        }
    }

    fn grow(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        self.len = 0;
        for name in old.into_iter().filter(|&name| name != 0) {
            if name.leading_zeros() >= self.level {
                self.put(name);
            }
        }
    }
}

/// A name that is never zero, which marks a free slot.
fn clean(name: u64) -> u64 {
    name | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use verdigris_logits::random::philox4x32;

    fn observation(i: u32) -> (u64, f32) {
        let [a, b, c, _] = philox4x32([i, 0, 0, 0], [1, 2]);
        (u64::from(a) << 32 | u64::from(b), if c % 4 == 0 { 1.0 } else { 0.0 })
    }

    #[test]
    fn counts_each_name_once() {
        let (mut distinct, mut sum) = (Distinct::new(), Sum::new());
        let mut model = HashMap::new();
        for i in 0..200_000u32 {
            let (name, score) = observation(i.wrapping_mul(i) % 70_001);
            let zeros = distinct.insert(name);
            assert_eq!(zeros.is_some(), model.insert(name, score).is_none());
            zeros.into_iter().for_each(|zeros| sum.add(zeros, score));
        }
        assert_eq!(distinct.len(), model.len());
        assert_eq!(sum.at(distinct.level()), model.values().map(|&score| f64::from(score)).sum::<f64>());
        assert_eq!(distinct.level(), 0);
    }

    #[test]
    fn past_its_capacity_it_keeps_a_fair_sample() {
        let (mut distinct, mut sum) = (Distinct::new(), Sum::new());
        let n = 5 * CAPACITY as u32;
        let mut insert = |i| {
            let (name, score) = observation(i);
            distinct.insert(name).into_iter().for_each(|zeros| sum.add(zeros, score));
        };
        (0..n).for_each(&mut insert);
        (0..n / 8).for_each(&mut insert);
        assert_eq!(distinct.level(), 3);
        assert!(distinct.len() <= CAPACITY && distinct.slots.len() <= 2 * CAPACITY);
        let expected = f64::from(n) / 8.0;
        assert!((distinct.len() as f64 - expected).abs() < 6.0 * expected.sqrt(), "{}", distinct.len());
        let share = sum.at(distinct.level()) / distinct.len() as f64;
        assert!((share - 0.25).abs() < 6.0 * (0.1875 / expected).sqrt(), "{share}");
    }
}
