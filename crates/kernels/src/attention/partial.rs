//! The result of a row over some of the keys that it sees, and the merging of two such partial results: online softmax
//! (Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018; Dao et al., *FlashAttention*, NeurIPS
//! 2022).
//!
//! A partial result is a slice: the sum of weighted values in whole lanes, then [`LANES`] numbers, of which the first
//! is the largest score and the second the sum of weights. A weight is `e^(score - largest)`.

use super::mask::Sight;
use crate::simd::{LANES, Simd};

/// Resets a partial result with values of `width` numbers to one over no keys.
#[inline(always)]
pub(super) fn clear(part: &mut [f32], width: usize) {
    part.fill(0.0);
    part[width] = f32::NEG_INFINITY;
}

/// Turns products, of which each times `scale` is a score, into weights, and writes the largest score and the sum of
/// weights to `part`, with zero for the values. The weights of hidden keys and of padding are zero.
#[inline(always)]
pub(super) fn weigh<S: Simd>(
    unit: S,
    mut scores: &mut [f32],
    scale: f32,
    sight: Sight<'_>,
    part: &mut [f32],
    width: usize,
) {
    match sight {
        Sight::First(count) => {
            let (seen, others) = scores.split_at_mut(count.next_multiple_of(LANES));
            seen[count..].fill(f32::NEG_INFINITY);
            others.fill(0.0);
            scores = seen;
        }
        Sight::Branch(first, row) => {
            let (of_tree, behind) = scores[first..].split_at_mut(row.len());
            of_tree.iter_mut().zip(row).for_each(|(score, sees)| {
                if !sees {
                    *score = f32::NEG_INFINITY;
                }
            });
            behind.fill(f32::NEG_INFINITY);
        }
    }
    let scale = unit.splat(scale);
    let mut largest = unit.splat(f32::NEG_INFINITY);
    for lanes in scores.as_chunks::<LANES>().0 {
        largest = unit.max(largest, unit.mul(unit.load(lanes), scale));
    }
    let largest = unit.largest(largest);
    if largest == f32::NEG_INFINITY {
        scores.fill(0.0);
        return clear(part, width);
    }
    let below = unit.splat(-largest);
    let mut total = unit.zero();
    for lanes in scores.as_chunks_mut::<LANES>().0 {
        let weights = unit.store(unit.exp(unit.add(unit.mul(unit.load(lanes), scale), below)));
        for (to, weight) in lanes.iter_mut().zip(weights) {
            *to = if *to == f32::NEG_INFINITY { 0.0 } else { weight };
        }
        total = unit.add(total, unit.load(lanes));
    }
    if let Sight::Branch(first, row) = sight {
        // Each weight is added in the lane that it would have without the hidden keys.
        let seen = (0..first).chain((first..).zip(row).filter(|(_, sees)| **sees).map(|(at, _)| at));
        let mut sums = [0.0; LANES];
        seen.enumerate().for_each(|(rank, at)| sums[rank % LANES] += scores[at]);
        total = unit.load(&sums);
    }
    part[..width].fill(0.0);
    (part[width], part[width + 1]) = (largest, unit.finish(total, &[], &[]));
}

/// Merges the partial result of the keys that follow.
#[inline(always)]
pub(super) fn merge<S: Simd>(unit: S, part: &mut [f32], next: &[f32], width: usize) {
    if next[width] == f32::NEG_INFINITY {
        return;
    }
    let largest = part[width].max(next[width]);
    let mut less = [0.0; LANES];
    (less[0], less[1]) = (part[width] - largest, next[width] - largest);
    let factors = unit.store(unit.exp(unit.load(&less)));
    let [own, other] = [factors[0], factors[1]].map(|factor| unit.splat(factor));
    for (part, next) in part.as_chunks_mut::<LANES>().0.iter_mut().zip(next.as_chunks().0) {
        *part = unit.store(unit.fma(unit.load(part), own, unit.mul(unit.load(next), other)));
    }
    // The loop scaled the largest score too, together with the sum of weights.
    part[width] = largest;
}

/// Adds the weight of a score that has no value. A score far above all others leaves zero.
pub(super) fn add_sink(part: &mut [f32], width: usize, score: f32) {
    part[width + 1] += libm::expf(score - part[width]);
}

/// Divides the values by the sum of weights.
#[inline(always)]
pub(super) fn normalize<S: Simd>(unit: S, part: &mut [f32], width: usize) {
    let share = unit.splat(1.0 / part[width + 1]);
    for lanes in part[..width].as_chunks_mut::<LANES>().0 {
        *lanes = unit.store(unit.mul(unit.load(lanes), share));
    }
}
