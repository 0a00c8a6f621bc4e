//! Passes over logits, some of them at a time: compilers make SIMD of a block, and a block without a token is skipped.
//! Most of what a step on 128,000 logits costs is such passes, not what it does to the few tokens that count. They are
//! compiled for [several processors](dispatch) where that makes them faster.

use crate::TokenId;
use crate::dispatch::dispatch;

/// How many logits are looked at together.
pub(crate) const BLOCK: usize = 64;

/// Logits that are compared or added side by side.
const LANES: usize = 16;

/// The largest logit; infinite where one is infinite above or NaN.
pub(crate) fn largest(logits: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    // Of a number 0, and NaN of what is none. Minus infinity does not count here.
    let rest_of = |z: f32| {
        let z = if f32::MIN > z { f32::MIN } else { z };
        z * 0.0
    };
    let (mut lanes, mut rests) = ([f32::NEG_INFINITY; LANES], [0.0; LANES]);
    let (chunks, tail) = logits.as_chunks::<LANES>();
    for chunk in chunks {
        for ((lane, rest), &z) in lanes.iter_mut().zip(&mut rests).zip(chunk) {
            *lane = larger(z, *lane);
            *rest += rest_of(z);
        }
    }
    let rest: f32 = rests.iter().sum::<f32>() + tail.iter().map(|&z| rest_of(z)).sum::<f32>();
    let largest = lanes.iter().chain(tail).fold(f32::NEG_INFINITY, |max, &z| larger(z, max));
    if rest.is_nan() { f32::INFINITY } else { largest }
}

/// Leaves the tokens whose bits are set in the words of a set, and forbids the others.
pub(crate) fn restrict(logits: &mut [f32], words: &[u64]) {
    let mut words = words.iter();
    for block in logits.chunks_mut(BLOCK) {
        match words.next().copied().unwrap_or(0) {
            0 => block.fill(f32::NEG_INFINITY),
            u64::MAX => (),
            word => with_masks(block, word, |logit, mask| {
                f32::from_bits((logit.to_bits() & mask) | (f32::NEG_INFINITY.to_bits() & !mask))
            }),
        }
    }
}

/// Adds to the logits whose bits are set in the words of a set.
pub(crate) fn bias(logits: &mut [f32], words: &[u64], delta: f32) {
    for (block, &word) in logits.chunks_mut(BLOCK).zip(words) {
        with_masks(block, word, |logit, mask| logit + f32::from_bits(delta.to_bits() & mask));
    }
}

/// Divides all logits.
pub(crate) fn divide(logits: &mut [f32], by: f32) {
    dispatch(|| divide_by(logits, by));
}

#[inline(always)]
fn divide_by(logits: &mut [f32], by: f32) {
    logits.iter_mut().for_each(|z| *z /= by);
}

/// Forbids the tokens with smaller logits than this.
pub(crate) fn forbid_below(logits: &mut [f32], least: f32) {
    dispatch(|| forbid_from(logits, least));
}

#[inline(always)]
fn forbid_from(logits: &mut [f32], least: f32) {
    logits.iter_mut().for_each(|z| *z = if *z < least { f32::NEG_INFINITY } else { *z });
}

/// Four bits as masks of four logits.
const MASKS: [[u32; 4]; 16] = {
    let (mut masks, mut bits) = ([[0; 4]; 16], 0);
    while bits < 64 {
        if ((bits / 4) >> (bits % 4)) & 1 == 1 {
            masks[bits / 4][bits % 4] = u32::MAX;
        }
        bits += 1;
    }
    masks
};

/// Changes each logit of a block by its bit of a word, which comes as a mask: all ones, or all zeros. Four masks are one
/// load from the table, as wide as every processor can; wider registers have to gather them, and are slower.
fn with_masks(block: &mut [f32], word: u64, change: impl Fn(f32, u32) -> f32) {
    let (fours, rest) = block.as_chunks_mut::<4>();
    let mut left = word;
    for four in fours {
        let masks = &MASKS[(left & 15) as usize];
        four.iter_mut().zip(masks).for_each(|(logit, &mask)| *logit = change(*logit, mask));
        left >>= 4;
    }
    rest.iter_mut().zip(&MASKS[(left & 15) as usize]).for_each(|(logit, &mask)| *logit = change(*logit, mask));
}

/// Whether some logits forbid all their tokens.
pub(crate) fn is_forbidden(block: &[f32]) -> bool {
    block.iter().fold(true, |forbidden, &z| forbidden & (z == f32::NEG_INFINITY))
}

/// Appends the ids of the tokens with at least this logit, in their order; of all that are allowed, for minus infinity.
pub(crate) fn collect(logits: &[f32], least: f32, to: &mut Vec<TokenId>) {
    dispatch(|| collect_from(logits, least.max(f32::MIN), to));
}

#[inline(always)]
fn collect_from(logits: &[f32], least: f32, to: &mut Vec<TokenId>) {
    for (number, block) in logits.chunks(BLOCK).enumerate() {
        if !block.iter().fold(false, |any, &z| any | (z >= least)) {
            continue;
        }
        // Written whether it is kept or not, so that nothing depends on a branch.
        let (mut kept, mut count) = ([0; BLOCK], 0);
        for (at, &z) in block.iter().enumerate() {
            kept[count] = (number * BLOCK + at) as TokenId;
            count += usize::from(z >= least);
        }
        to.extend_from_slice(&kept[..count]);
    }
}

/// A logit that at least `count` tokens reach, and few more where good tokens stand apart: that of the `count`th among
/// the best of their blocks. And the largest logit. The first is minus infinity where so many blocks have no token; both
/// are infinite where a logit is infinite above or NaN.
pub(crate) fn reached_by(count: usize, logits: &[f32], maxima: &mut Vec<f32>) -> (f32, f32) {
    maxima.clear();
    maxima.extend(logits.chunks(BLOCK).map(largest));
    let largest = maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let reached = match count {
        _ if largest == f32::INFINITY => f32::INFINITY,
        1.. if count <= maxima.len() => *maxima.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1,
        _ => f32::NEG_INFINITY,
    };
    (reached, largest)
}

/// By how much [`sum_of_weights`] can be wrong, as a share of the sum: 1.2e-7 for the polynomial, about as much for its
/// roundings, and less than 2e-7 for those of the sums.
pub(crate) const SUM_ERROR: f64 = 1e-6;

/// The sum of `exp(z - max)`, nearly.
pub(crate) fn sum_of_weights(logits: &[f32], max: f32) -> f64 {
    let mut total = 0.0;
    for block in logits.chunks(BLOCK) {
        let mut lanes = [0f32; LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            lanes.iter_mut().zip(chunk).for_each(|(lane, &z)| *lane += exp(z - max));
        }
        total += lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>();
        total += rest.iter().map(|&z| f64::from(exp(z - max))).sum::<f64>();
    }
    total
}

/// `exp` of a number up to 0, nearly, without a branch; what is below -87 counts as -87.
fn exp(x: f32) -> f32 {
    /// A sum with it is a whole number, whose lowest bits are that number's.
    const WHOLE: f32 = 12_582_912.0;
    /// The logarithm of 2 as two numbers, of which the first has few bits.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = if x > -87.0 { x } else { -87.0 };
    let shifted = x * std::f32::consts::LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let power = 1.0 / 120.0 + r * (1.0 / 720.0);
    let power = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * power))));
    power * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

/// What the passes that are compiled so make of a row, for a comparison.
#[cfg(test)]
#[inline(always)]
pub(crate) fn bits_of_passes(logits: &[f32]) -> (Vec<u32>, Vec<TokenId>) {
    let (mut changed, mut ids) = (logits.to_vec(), Vec::new());
    divide_by(&mut changed, 0.7);
    collect_from(&changed, -4.0, &mut ids);
    forbid_from(&mut changed, -5.0);
    (changed.iter().map(|z| z.to_bits()).collect(), ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Random};

    const NO: f32 = f32::NEG_INFINITY;

    fn rows() -> impl Iterator<Item = Vec<f32>> {
        let random = Random::new(3);
        (0..300).map(move |n| {
            let number = |i: usize| random.uniform((1000 * n + i) as u64, Purpose::Weight) as f32;
            (0..n).map(|i| if number(i) < 0.3 { NO } else { (90.0 * number(i)).floor() - 45.0 }).collect()
        })
    }

    #[test]
    fn the_largest_and_the_broken_are_found_anywhere() {
        for mut logits in rows() {
            let max = logits.iter().copied().fold(NO, f32::max);
            assert_eq!((largest(&logits), is_forbidden(&logits)), (max, max == NO));
            for at in 0..logits.len() {
                let before = logits[at];
                for bad in [f32::NAN, -f32::NAN, f32::INFINITY] {
                    logits[at] = bad;
                    assert_eq!(largest(&logits), f32::INFINITY);
                    assert_eq!(reached_by(1, &logits, &mut Vec::new()), (f32::INFINITY, f32::INFINITY));
                }
                logits[at] = before;
            }
        }
    }

    #[test]
    fn tokens_are_collected_in_order_and_bounds_are_reached() {
        let mut maxima = Vec::new();
        for logits in rows() {
            for least in [NO, -20.0, 0.0, 44.0, 99.0] {
                let mut got = vec![7];
                collect(&logits, least, &mut got);
                let expected = (0..logits.len()).filter(|&t| logits[t] > NO && logits[t] >= least);
                assert_eq!(got, [7].into_iter().chain(expected.map(|t| t as TokenId)).collect::<Vec<_>>());
            }
            for count in 0..8 {
                let (bound, max) = reached_by(count, &logits, &mut maxima);
                assert_eq!(max, largest(&logits));
                assert!(bound == NO || logits.iter().filter(|&&z| z >= bound).count() >= count);
                let blocks = logits.chunks(BLOCK).filter(|block| !is_forbidden(block)).count();
                assert_eq!(bound == NO, count == 0 || blocks < count);
            }
        }
    }

    #[test]
    fn the_sum_of_weights_is_as_near_as_it_says() {
        for x in (0..870_000).map(|i| i as f32 * -1e-4) {
            let (near, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((near - exact).abs() < 4e-7 * exact, "{x}: {near} {exact}");
        }
        for logits in rows().filter(|logits| !is_forbidden(logits)) {
            let max = largest(&logits);
            let exact: f64 = logits.iter().map(|&z| f64::from(z - max).exp()).sum();
            assert!((sum_of_weights(&logits, max) - exact).abs() < SUM_ERROR * exact);
        }
    }
}
