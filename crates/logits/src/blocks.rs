//! Passes over logits, block by block: compilers vectorize a block, and blocks without an allowed token are skipped.
//! Such passes are most of the cost of a step on 128,000 logits, not the work on the few tokens that count. They are
//! compiled for [several processors](dispatch) where that makes them faster. Such a pass computes the number that it
//! stores: a selection between a logit and another number becomes a masked store with wide registers, which takes
//! several times as long.

use crate::TokenId;
use crate::dispatch::{Pass, dispatch};

/// The number of logits in a block.
pub(crate) const BLOCK: usize = 64;

/// The number of logits that are compared or added in parallel.
const LANES: usize = 16;

/// The largest logit; infinite if one is `+inf` or NaN.
pub(crate) struct Largest<'a>(pub(crate) &'a [f32]);

impl Pass for Largest<'_> {
    type Output = f32;

    #[inline(always)]
    fn call(self) -> f32 {
        largest(self.0)
    }
}

/// The largest logit of each block, replacing the contents of the vector; infinite if one is `+inf` or NaN.
pub(crate) struct Maxima<'a>(pub(crate) &'a [f32], pub(crate) &'a mut Vec<f32>);

impl Pass for Maxima<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.1.clear();
        // Not `extend`, which is a separate function.
        for block in self.0.chunks(BLOCK) {
            self.1.push(largest(block));
        }
    }
}

#[inline(always)]
fn largest(logits: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    // 0 for a number, and NaN for NaN and `+inf`. Minus infinity counts as a number here.
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

/// Keeps the tokens whose bits are set in the words of a set, and forbids the others. Not dispatched: this is a
/// selection, and arithmetic instead would yield NaN for forbidden tokens.
pub(crate) fn restrict(logits: &mut [f32], words: &[u64]) {
    let mut words = words.iter();
    for block in logits.chunks_mut(BLOCK) {
        match words.next().copied().unwrap_or(0) {
            0 => block.fill(f32::NEG_INFINITY),
            u64::MAX => (),
            word => with_bits(block, word, |logit, is_set| if is_set { logit } else { f32::NEG_INFINITY }),
        }
    }
}

/// Adds a number to the logits whose bits are set in the words of a set.
pub(crate) struct Bias<'a>(pub(crate) &'a mut [f32], pub(crate) &'a [u64], pub(crate) f32);

impl Pass for Bias<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (block, &word) in self.0.chunks_mut(BLOCK).zip(self.1) {
            with_bits(block, word, |logit, is_set| logit + if is_set { self.2 } else { 0.0 });
        }
    }
}

/// Divides all logits by a number.
pub(crate) struct Divide<'a>(pub(crate) &'a mut [f32], pub(crate) f32);

impl Pass for Divide<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.iter_mut().for_each(|z| *z /= self.1);
    }
}

/// Forbids the tokens whose logits are below a number.
pub(crate) struct ForbidBelow<'a>(pub(crate) &'a mut [f32], pub(crate) f32);

impl Pass for ForbidBelow<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.0.iter_mut().for_each(|z| *z -= if *z < self.1 { f32::INFINITY } else { 0.0 });
    }
}

/// The bits of a 32-bit word.
const BITS: [u32; 32] = {
    let (mut bits, mut at) = ([0; 32], 0);
    while at < 32 {
        bits[at] = 1 << at;
        at += 1;
    }
    bits
};

/// Changes each logit of a block according to its bit of a word. Bits are tested in 32-bit lanes, like the logits.
#[inline(always)]
fn with_bits(block: &mut [f32], word: u64, change: impl Fn(f32, bool) -> f32) {
    for (half, word) in block.chunks_mut(32).zip([word as u32, (word >> 32) as u32]) {
        half.iter_mut().zip(&BITS).for_each(|(logit, &bit)| *logit = change(*logit, word & bit != 0));
    }
}

/// Whether all logits of a block are forbidden.
pub(crate) fn is_forbidden(block: &[f32]) -> bool {
    block.iter().fold(true, |forbidden, &z| forbidden & (z == f32::NEG_INFINITY))
}

/// Appends the ids of the tokens with at least this logit, in order; of all allowed tokens for minus infinity.
pub(crate) struct Collect<'a>(pub(crate) &'a [f32], pub(crate) f32, pub(crate) &'a mut Vec<TokenId>);

impl Pass for Collect<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let least = self.1.max(f32::MIN);
        for (number, block) in self.0.chunks(BLOCK).enumerate() {
            if !block.iter().fold(false, |any, &z| any | (z >= least)) {
                continue;
            }
            // Written whether it is kept or not, to avoid a branch.
            let (mut kept, mut count) = ([0; BLOCK], 0);
            for (at, &z) in block.iter().enumerate() {
                kept[count] = (number * BLOCK + at) as TokenId;
                count += usize::from(z >= least);
            }
            self.2.extend_from_slice(&kept[..count]);
        }
    }
}

/// Returns a logit that at least `count` tokens reach, and few more if probable tokens are in different blocks: the
/// `count`th largest of the blocks' largest logits. Also returns the largest logit. The first is minus infinity if
/// fewer blocks allow a token; both are infinite if a logit is `+inf` or NaN.
pub(crate) fn reached_by(count: usize, logits: &[f32], maxima: &mut Vec<f32>) -> (f32, f32) {
    dispatch(Maxima(logits, maxima));
    let largest = maxima.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let reached = match count {
        _ if largest == f32::INFINITY => f32::INFINITY,
        1.. if count <= maxima.len() => *maxima.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a)).1,
        _ => f32::NEG_INFINITY,
    };
    (reached, largest)
}

/// The largest relative error of [`SumOfWeights`]: 1.2e-7 for the polynomial, about as much for its rounding, and less
/// than 2e-7 for the rounding of the sums.
pub(crate) const SUM_ERROR: f64 = 1e-6;

/// An approximate sum of `exp(z - max)`.
pub(crate) struct SumOfWeights<'a>(pub(crate) &'a [f32], pub(crate) f32);

impl Pass for SumOfWeights<'_> {
    type Output = f64;

    #[inline(always)]
    fn call(self) -> f64 {
        let Self(logits, max) = self;
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
}

/// An approximate `exp` of a number up to 0, without a branch; numbers below -87 count as -87.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// Adding this rounds to an integer, which is then in the lowest bits.
    const WHOLE: f32 = 12_582_912.0;
    /// The logarithm of 2 in two parts, of which the first has few bits.
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    let x = if x > -87.0 { x } else { -87.0 };
    let shifted = x * std::f32::consts::LOG2_E + WHOLE;
    let n = shifted - WHOLE;
    let r = x - n * LN_2[0] - n * LN_2[1];
    let power = 1.0 / 120.0 + r * (1.0 / 720.0);
    let power = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * power))));
    power * f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
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
                Collect(&logits, least, &mut got).call();
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
            assert!((SumOfWeights(&logits, max).call() - exact).abs() < SUM_ERROR * exact);
        }
    }
}
