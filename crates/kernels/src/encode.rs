//! Encoding of numbers into storage formats, the inverse of [`decode`](crate::decode).

use crate::decode::half_power;
use crate::format::{Format, MICRO_FLOATS, NON_LINEAR, bytes};
use crate::half::half;

impl Format {
    /// Encodes numbers as closely as the format allows: each is rounded to the nearest, and scales and offsets of
    /// blocks are chosen for the least squared error. Numbers beyond half precision become its largest number.
    ///
    /// # Panics
    /// If the numbers are not whole blocks, or `out` does not have the length of their encoding.
    pub fn encode(self, numbers: &[f32], out: &mut [u8]) {
        assert!(numbers.len().is_multiple_of(self.block()), "whole blocks");
        assert_eq!(out.len(), self.bytes(numbers.len()), "the bytes of {} numbers in {self:?}", numbers.len());
        let to_half_finite = |x: f32| to_half(x.clamp(-65504.0, 65504.0));
        let blocks = out.chunks_exact_mut(self.block_bytes()).zip(numbers.chunks_exact(self.block()));
        match self {
            Self::F32 => out.copy_from_slice(bytes(numbers)),
            Self::F16 => {
                out.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(out, &x)| *out = to_half_finite(x));
            }
            Self::Bf16 => out.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(out, &x)| *out = to_bf16(x)),
            Self::Q8_0 => blocks.for_each(|(out, block)| q8_0(block, out)),
            Self::Q4_0 => blocks.for_each(|(out, block)| q4_0(block, out)),
            Self::Q4_1 => blocks.for_each(|(out, block)| q4_1(block, out)),
            Self::Q5_0 => blocks.for_each(|(out, block)| q5_0(block, out)),
            Self::Q5_1 => blocks.for_each(|(out, block)| q5_1(block, out)),
            Self::Q2K => blocks.for_each(|(out, block)| q2_k(block, out)),
            Self::Q3K => blocks.for_each(|(out, block)| q3_k(block, out)),
            Self::Q4K => blocks.for_each(|(out, block)| q4_k(block, out)),
            Self::Q5K => blocks.for_each(|(out, block)| q5_k(block, out)),
            Self::Q6K => blocks.for_each(|(out, block)| q6_k(block, out)),
            Self::Iq4Nl => blocks.for_each(|(out, block)| iq4_nl(block, out)),
            Self::Iq4Xs => blocks.for_each(|(out, block)| iq4_xs(block, out)),
            Self::Mxfp4 => blocks.for_each(|(out, block)| mxfp4(block, out)),
        }
    }
}

fn q8_0(block: &[f32], out: &mut [u8]) {
    let most = block.iter().fold(0f32, |most, x| most.max(x.abs()));
    let scale = most / 127.0;
    out[..2].copy_from_slice(&to_half(scale.min(65504.0)));
    let inverse = inverse(scale);
    for (out, x) in out[2..].iter_mut().zip(block) {
        *out = (x * inverse).round() as i8 as u8;
    }
}

fn q4_0(block: &[f32], out: &mut [u8]) {
    let scale = signed(block, 8.0);
    out[..2].copy_from_slice(&to_half(scale));
    let inverse = inverse(half([out[0], out[1]]));
    let q = |i: usize| (block[i] * inverse + 8.0).round().clamp(0.0, 15.0) as u8;
    for i in 0..16 {
        out[2 + i] = q(i) | q(i + 16) << 4;
    }
}

fn q4_1(block: &[f32], out: &mut [u8]) {
    let q = with_least(block, 15.0, out);
    for i in 0..16 {
        out[4 + i] = q[i] | q[i + 16] << 4;
    }
}

fn q5_0(block: &[f32], out: &mut [u8]) {
    out[..2].copy_from_slice(&to_half(signed(block, 16.0)));
    let inverse = inverse(half([out[0], out[1]]));
    let q = std::array::from_fn(|i| (block[i] * inverse + 16.0).round().clamp(0.0, 31.0) as u8);
    five_bits(&q, &mut out[2..]);
}

fn q5_1(block: &[f32], out: &mut [u8]) {
    let q = with_least(block, 31.0, out);
    five_bits(&q, &mut out[4..]);
}

/// Writes the scale and minimum of a block of 32; returns the quantized weights, from 0 to `most`.
fn with_least(block: &[f32], most: f32, out: &mut [u8]) -> [u8; 32] {
    let (scale, offset) = with_offset(block, most, false);
    out[..2].copy_from_slice(&to_half(scale.min(65504.0)));
    out[2..4].copy_from_slice(&to_half((-offset).clamp(-65504.0, 65504.0)));
    let (inverse, least) = (inverse(half([out[0], out[1]])), half([out[2], out[3]]));
    std::array::from_fn(|i| ((block[i] - least) * inverse).round().clamp(0.0, most) as u8)
}

/// Writes the fifth bits of 32 numbers, then the lower four of each.
fn five_bits(q: &[u8; 32], out: &mut [u8]) {
    let fifth = (0..32).fold(0u32, |fifth, i| fifth | u32::from(q[i] >> 4) << i);
    out[..4].copy_from_slice(&fifth.to_le_bytes());
    for i in 0..16 {
        out[4 + i] = q[i] & 15 | (q[i + 16] & 15) << 4;
    }
}

fn q2_k(block: &[f32], out: &mut [u8]) {
    let mut fits = [(0f32, 0f32); 16];
    for (fit, some) in fits.iter_mut().zip(block.chunks_exact(16)) {
        *fit = with_offset(some, 3.0, true);
    }
    let (coarse, fine) = scales_of_scales(&fits, 15.0);
    out[80..82].copy_from_slice(&to_half(coarse.0));
    out[82..84].copy_from_slice(&to_half(coarse.1));
    out[..16].iter_mut().zip(&fine).for_each(|(out, (s, m))| *out = s | m << 4);
    let q = |i: usize| {
        let (s, m) = fine[i / 16];
        ((block[i] + coarse.1 * f32::from(m)) * inverse(coarse.0 * f32::from(s))).round().clamp(0.0, 3.0) as u8
    };
    two_bits(q, &mut out[16..80]);
}

/// Writes 256 numbers of two bits.
fn two_bits(q: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        let at = |quarter: usize| q(i / 32 * 128 + 32 * quarter + i % 32) << (2 * quarter);
        *out = at(0) | at(1) | at(2) | at(3);
    }
}

fn q3_k(block: &[f32], out: &mut [u8]) {
    let mut scales = [0f32; 16];
    for (scale, some) in scales.iter_mut().zip(block.chunks_exact(16)) {
        *scale = signed(some, 4.0);
    }
    let most = largest(&scales);
    let scale = to_half((most / -32.0).clamp(-65504.0, 65504.0));
    out[108..].copy_from_slice(&scale);
    let scale = half(scale);
    let fine = scales.map(|fine| (fine * inverse(scale)).round().clamp(-32.0, 31.0) + 32.0);
    let packed = fine.map(|fine| fine as u8);
    for i in 0..4 {
        out[96 + i] = packed[i] & 15 | (packed[i + 8] & 15) << 4;
        out[100 + i] = packed[i + 4] & 15 | (packed[i + 12] & 15) << 4;
        out[104 + i] = packed[i] >> 4 | packed[i + 4] >> 4 << 2 | packed[i + 8] >> 4 << 4 | packed[i + 12] >> 4 << 6;
    }
    let q = |i: usize| {
        let scale = scale * (fine[i / 16] - 32.0);
        ((block[i] * inverse(scale)).round().clamp(-4.0, 3.0) + 4.0) as u8
    };
    two_bits(|i| q(i) & 3, &mut out[32..96]);
    upper_bits(|i| q(i) >> 2, &mut out[..32]);
}

/// Writes one bit of each of 256 numbers: the first 32 are the lowest bits of 32 bytes.
fn upper_bits(bit: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = (0..8).fold(0, |all, of| all | bit(32 * of + i) << of);
    }
}

fn q4_k(block: &[f32], out: &mut [u8]) {
    let q = of_each_32(block, 15.0, out);
    pairs(|i| q[i], &mut out[16..]);
}

fn q5_k(block: &[f32], out: &mut [u8]) {
    let q = of_each_32(block, 31.0, out);
    upper_bits(|i| q[i] >> 4, &mut out[16..48]);
    pairs(|i| q[i] & 15, &mut out[48..]);
}

/// Writes 256 numbers of four bits.
fn pairs(q: impl Fn(usize) -> u8, out: &mut [u8]) {
    for (i, out) in out.iter_mut().enumerate() {
        let at = i / 32 * 64 + i % 32;
        *out = q(at) | q(at + 32) << 4;
    }
}

/// Writes the scales and offsets of a block of 256; returns the quantized weights, from 0 to `most`.
fn of_each_32(block: &[f32], most: f32, out: &mut [u8]) -> [u8; 256] {
    let mut fits = [(0f32, 0f32); 8];
    for (fit, some) in fits.iter_mut().zip(block.chunks_exact(32)) {
        *fit = with_offset(some, most, true);
    }
    let (coarse, fine) = scales_of_scales(&fits, 63.0);
    out[..2].copy_from_slice(&to_half(coarse.0));
    out[2..4].copy_from_slice(&to_half(coarse.1));
    for i in 0..4 {
        let ((s, m), (upper_s, upper_m)) = (fine[i], fine[i + 4]);
        out[4 + i] = s | upper_s >> 4 << 6;
        out[8 + i] = m | upper_m >> 4 << 6;
        out[12 + i] = upper_s & 15 | (upper_m & 15) << 4;
    }
    std::array::from_fn(|i| {
        let (s, m) = fine[i / 32];
        let (s, m) = (coarse.0 * f32::from(s), coarse.1 * f32::from(m));
        ((block[i] + m) * inverse(s)).round().clamp(0.0, most) as u8
    })
}

/// Quantizes scales and offsets, all non-negative, to integers up to `most`, with a common factor in half precision for
/// the scales and another for the offsets.
fn scales_of_scales<const N: usize>(fits: &[(f32, f32); N], most: f32) -> ((f32, f32), [(u8, u8); N]) {
    let largest = fits.iter().fold((0f32, 0f32), |most, fit| (most.0.max(fit.0), most.1.max(fit.1)));
    let coarse = |x: f32| half(to_half((x / most).min(65504.0)));
    let coarse = (coarse(largest.0), coarse(largest.1));
    let whole = |x: f32, of: f32| (x * inverse(of)).round().clamp(0.0, most) as u8;
    (coarse, fits.map(|fit| (whole(fit.0, coarse.0), whole(fit.1, coarse.1))))
}

fn q6_k(block: &[f32], out: &mut [u8]) {
    let mut scales = [0f32; 16];
    for (scale, some) in scales.iter_mut().zip(block.chunks_exact(16)) {
        *scale = signed(some, 32.0);
    }
    let most = largest(&scales);
    let scale = to_half((most / -128.0).clamp(-65504.0, 65504.0));
    out[208..].copy_from_slice(&scale);
    let scale = half(scale);
    let fine = scales.map(|fine| (fine * inverse(scale)).round().clamp(-128.0, 127.0) as i8);
    let q = |i: usize| {
        let scale = scale * f32::from(fine[i / 16]);
        (block[i] * inverse(scale)).round().clamp(-32.0, 31.0) as i8 as u8 ^ 0x80 ^ 0xa0
    };
    for i in 0..64 {
        let at = i / 32 * 32 + i % 32;
        for n in 0..2 {
            out[64 * n + i] = q(128 * n + at) & 15 | (q(128 * n + at + 64) & 15) << 4;
        }
    }
    for i in 0..32 {
        for n in 0..2 {
            let upper = |quarter: usize| (q(128 * n + 32 * quarter + i) >> 4 & 3) << (2 * quarter);
            out[128 + 32 * n + i] = upper(0) | upper(1) | upper(2) | upper(3);
        }
    }
    out[192..208].iter_mut().zip(fine).for_each(|(out, fine)| *out = fine as u8);
}

fn iq4_nl(block: &[f32], out: &mut [u8]) {
    let scale = to_half(listed(block, &NON_LINEAR).clamp(-65504.0, 65504.0));
    out[..2].copy_from_slice(&scale);
    places(block, &NON_LINEAR, half(scale), &mut out[2..]);
}

fn iq4_xs(block: &[f32], out: &mut [u8]) {
    let mut scales = [0f32; 8];
    for (scale, some) in scales.iter_mut().zip(block.chunks_exact(32)) {
        *scale = listed(some, &NON_LINEAR);
    }
    let most = largest(&scales);
    let scale = to_half((most / -32.0).clamp(-65504.0, 65504.0));
    out[..2].copy_from_slice(&scale);
    let scale = half(scale);
    out[2..8].fill(0);
    for (i, some) in block.chunks_exact(32).enumerate() {
        let fine = (scales[i] * inverse(scale)).round().clamp(-32.0, 31.0);
        let packed = (fine + 32.0) as u8;
        out[2 + i / 4] |= packed >> 4 << (2 * (i % 4));
        out[4 + i / 2] |= (packed & 15) << (4 * (i % 2));
        places(some, &NON_LINEAR, scale * fine, &mut out[8 + 16 * i..24 + 16 * i]);
    }
}

fn mxfp4(block: &[f32], out: &mut [u8]) {
    let most = block.iter().fold(0f32, |most, x| most.max(x.abs())).min(f32::MAX);
    // The largest number of four bits is 6, less than the next power, 8; where it would be clamped, the next exponent
    // may be better.
    let exponent = if most == 0.0 { 0 } else { (most.log2().floor() as i32 - 2 + 127).clamp(0, 253) as u8 };
    let error = |exponent: u8| {
        let scale = half_power(exponent);
        let miss = |&x: &f32| {
            (scale * f32::from(MICRO_FLOATS[usize::from(nearest(&MICRO_FLOATS, x * inverse(scale)))]) - x).powi(2)
        };
        block.iter().map(miss).sum::<f32>()
    };
    out[0] = if error(exponent + 1) < error(exponent) { exponent + 1 } else { exponent };
    places(block, &MICRO_FLOATS, half_power(out[0]), &mut out[1..]);
}

/// Writes the indices of 32 numbers in a list, two per byte.
fn places(block: &[f32], list: &[i8; 16], scale: f32, out: &mut [u8]) {
    let inverse = inverse(scale);
    for (i, out) in out.iter_mut().enumerate() {
        *out = nearest(list, block[i] * inverse) | nearest(list, block[i + 16] * inverse) << 4;
    }
}

/// The index of the nearest number in a list.
fn nearest(list: &[i8; 16], x: f32) -> u8 {
    let mut best = (0, f32::INFINITY);
    for (i, &number) in (0..).zip(list) {
        let away = (f32::from(number) - x).abs();
        if away < best.1 {
            best = (i, away);
        }
    }
    best.0
}

/// The scale of a list of numbers that comes nearest to the numbers `some`, with the better of the two signs.
fn listed(some: &[f32], list: &[i8; 16]) -> f32 {
    let largest = largest(some);
    let ends = [list[0], list[15]].into_iter().flat_map(|end| (-7..=7).map(move |step| (end, step)));
    let inverses = ends.map(|(end, step)| (f32::from(end) + step as f32) / largest);
    nearest_scale(some, inverses, |x| f32::from(list[usize::from(nearest(list, x))]))
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The weight of a number's squared error: large numbers count more, as in GGML.
fn importance(x: f32, mean_square: f32) -> f32 {
    mean_square.sqrt() + x.abs()
}

fn mean_square(some: &[f32]) -> f32 {
    some.iter().map(|x| x * x).sum::<f32>() / some.len() as f32
}

/// The scale of `scale * q`, with `q` from `-most` to `most - 1`, that comes nearest to some numbers. Its sign makes
/// the largest of them a multiple of the lowest `q`.
fn signed(some: &[f32], most: f32) -> f32 {
    let largest = largest(some);
    let inverses = (-9..=9).map(|step| -(most + 0.1 * step as f32) / largest);
    nearest_scale(some, inverses, |x| x.round().clamp(-most, most - 1.0))
}

/// The scale of `scale * q` that comes nearest to some numbers, where `round` converts a number times one of `inverses`
/// to `q`; 0 if all are zero.
fn nearest_scale(some: &[f32], inverses: impl Iterator<Item = f32>, round: impl Fn(f32) -> f32) -> f32 {
    if largest(some) == 0.0 {
        return 0.0;
    }
    let mean_square = mean_square(some);
    let mut best = (0.0, f32::NEG_INFINITY);
    for inverse in inverses {
        let (mut product, mut square) = (0.0, 0.0);
        for &x in some {
            let (q, weight) = (round(x * inverse), importance(x, mean_square));
            product += weight * x * q;
            square += weight * q * q;
        }
        // The best scale for these `q` is product / square; it reduces the error by product^2 / square.
        if square > 0.0 && product * product / square > best.1 {
            best = (product / square, product * product / square);
        }
    }
    best.0
}

/// The number farthest from zero, with its sign.
fn largest(some: &[f32]) -> f32 {
    some.iter().fold(0f32, |largest, &x| if x.abs() > largest.abs() { x } else { largest })
}

/// The scale and offset of `scale * q - offset`, with `q` from 0 to `most`, that come nearest to some numbers. The
/// scale is not negative, and neither is the offset if `is_positive`.
fn with_offset(some: &[f32], most: f32, is_positive: bool) -> (f32, f32) {
    let low = some.iter().copied().fold(if is_positive { 0.0 } else { f32::INFINITY }, f32::min);
    let high = some.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if high <= low {
        return (0.0, -low);
    }
    let mean_square = mean_square(some);
    let mut best = ((high - low) / most, -low, f32::INFINITY);
    for step in 0..=20 {
        let inverse = (most - 1.0 + 0.1 * step as f32) / (high - low);
        let q = |x: f32| ((x - low) * inverse).round().clamp(0.0, most);
        let [mut w, mut wx, mut wq, mut wqq, mut wxq] = [0f32; 5];
        for &x in some {
            let (weight, q) = (importance(x, mean_square), q(x));
            w += weight;
            wx += weight * x;
            wq += weight * q;
            wqq += weight * q * q;
            wxq += weight * x * q;
        }
        let determinant = w * wqq - wq * wq;
        if determinant <= 0.0 {
            continue;
        }
        let (mut scale, mut offset) = ((w * wxq - wx * wq) / determinant, -(wqq * wx - wq * wxq) / determinant);
        if offset < 0.0 && is_positive {
            (scale, offset) = (wxq / wqq, 0.0);
        }
        let error = |x: f32| importance(x, mean_square) * (scale * q(x) - offset - x).powi(2);
        let error = some.iter().map(|&x| error(x)).sum::<f32>();
        if scale > 0.0 && error < best.2 {
            best = (scale, offset, error);
        }
    }
    (best.0, best.1)
}

/// The nearest number in half precision, ties to even.
fn to_half(x: f32) -> [u8; 2] {
    let (sign, magnitude) = ((x.to_bits() >> 16 & 0x8000) as u16, x.abs());
    let bits = if magnitude.is_nan() {
        0x7e00
    } else if magnitude >= 65520.0 {
        0x7c00
    } else if magnitude < 6.103_515_6e-5 {
        // Steps are 2^-24: added to a number whose own steps are that large, `magnitude` is rounded correctly.
        ((magnitude + 0.5).to_bits() - 0.5f32.to_bits()) as u16
    } else {
        let bits = magnitude.to_bits() - (112 << 23);
        ((bits + 0xfff + (bits >> 13 & 1)) >> 13) as u16
    };
    (sign | bits).to_le_bytes()
}

/// The nearest number in bf16, ties to even.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let rounded = if x.is_nan() { bits >> 16 | 0x40 } else { (bits + 0x7fff + (bits >> 16 & 1)) >> 16 };
    (rounded as u16).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weights;
    use verdigris_logits::{Purpose, Random};

    /// Sums of twelve uniform numbers: nearly normal, like weights.
    fn normal(n: usize) -> Vec<f32> {
        let uniform = |i: usize| Random::new(3).uniform(i as u64, Purpose::Token) as f32;
        (0..n).map(|i| 0.02 * ((0..12).map(|j| uniform(12 * i + j)).sum::<f32>() - 6.0)).collect()
    }

    fn there_and_back(format: Format, numbers: &[f32]) -> Vec<f32> {
        let (mut stored, mut back) = (vec![0; format.bytes(numbers.len())], vec![0.0; numbers.len()]);
        format.encode(numbers, &mut stored);
        Weights::new(format, &stored, numbers.len()).decode(0, &mut back);
        back
    }

    /// The error relative to the numbers, as root mean squares. `tests/scripts/quantisation-peers.py` shows those of
    /// llama.cpp.
    #[test]
    fn errors_are_those_of_the_format() {
        let numbers = normal(256 * 200);
        for (format, bound) in [
            (Format::F16, 2.5e-4),
            (Format::Bf16, 2e-3),
            (Format::Q8_0, 5.5e-3),
            (Format::Q6K, 1.9e-2),
            (Format::Q5K, 3.9e-2),
            (Format::Q5_0, 4.9e-2),
            (Format::Q5_1, 4.1e-2),
            (Format::Q4K, 7.6e-2),
            (Format::Q4_0, 9.5e-2),
            (Format::Q4_1, 8.2e-2),
            (Format::Q3K, 1.7e-1),
            (Format::Q2K, 3.2e-1),
            (Format::Iq4Nl, 7.6e-2),
            (Format::Iq4Xs, 8.0e-2),
            (Format::Mxfp4, 1.2e-1),
        ] {
            let back = there_and_back(format, &numbers);
            let errors: f64 = numbers.iter().zip(&back).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            let squares: f64 = numbers.iter().map(|a| f64::from(*a).powi(2)).sum();
            let error = (errors / squares).sqrt();
            println!("{format:?}: {error:.2e}");
            assert!(error < bound && error > bound / 3.0, "{format:?}: {error}");
        }
    }

    /// Zeros come back unchanged and single numbers closely, and extreme numbers do not panic.
    #[test]
    fn blocks_at_the_ends() {
        for format in Format::ALL {
            let zeros = vec![0.0; 256];
            assert_eq!(there_and_back(format, &zeros), zeros, "{format:?}");
            let one = |x: f32| (0..256).map(|i| if i == 77 { x } else { 0.0 }).collect::<Vec<f32>>();
            // Much smaller numbers have scales that are subnormal in half precision.
            for x in [1.0, -1.0, 0.1, 3e4, -3e4] {
                let back = there_and_back(format, &one(x));
                // In Mxfp4, 4 and 6 are neighbours.
                let part = if format == Format::Mxfp4 { 5.0 } else { 50.0 };
                assert!((back[77] - x).abs() <= x.abs() / part, "{format:?} {x}: {}", back[77]);
                assert!(back.iter().enumerate().all(|(i, y)| i == 77 || y.abs() <= x.abs() / 30.0), "{format:?} {x}");
            }
            for hostile in [f32::MAX, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE] {
                there_and_back(format, &one(hostile));
            }
        }
        let steps: Vec<f32> = (0..256).map(|i| 0.5 * (i % 16) as f32 - 2.0).collect();
        let back = there_and_back(Format::Q4K, &steps);
        assert!(steps.iter().zip(&back).all(|(a, b)| (a - b).abs() < 0.04), "{back:?}");
    }

    /// Every number in half precision comes back; numbers in between become the nearer one, or the even one.
    #[test]
    fn halves_are_rounded_to_the_nearest() {
        for bits in 0..0x7c00u16 {
            let (low, high) = (half(bits.to_le_bytes()), half((bits + 1).to_le_bytes()));
            assert_eq!(to_half(low), bits.to_le_bytes());
            assert_eq!(to_half(-low), (bits | 0x8000).to_le_bytes());
            let high = if bits == 0x7bff { 65536.0 } else { high };
            let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            assert_eq!(to_half(middle), even.to_le_bytes(), "{middle}");
            assert_eq!(to_half(middle.next_down()), bits.to_le_bytes(), "{middle}");
            assert_eq!(to_half(middle.next_up()), (bits + 1).to_le_bytes(), "{middle}");
        }
        assert!(half(to_half(f32::NAN)).is_nan() && half(to_half(f32::INFINITY)) == f32::INFINITY);
        let mut stored = [0; 4];
        Format::F16.encode(&[1e9, f32::NEG_INFINITY], &mut stored);
        assert_eq!(stored.as_chunks().0.iter().map(|&bytes| half(bytes)).collect::<Vec<_>>(), [65504.0, -65504.0]);
    }

    #[test]
    fn upper_halves_are_rounded_to_the_nearest() {
        let value = |bytes: [u8; 2]| f32::from_le_bytes([0, 0, bytes[0], bytes[1]]);
        for x in (0..100_000).map(|i| (i as f32 * 0.7).sin() * 10f32.powi(i % 60 - 30)) {
            let got = value(to_bf16(x));
            let (below, above) =
                (f32::from_bits(x.to_bits() & !0xffff), f32::from_bits((x.to_bits() & !0xffff) + 0x1_0000));
            let nearest = (f64::from(below) - f64::from(x)).abs().min((f64::from(above) - f64::from(x)).abs());
            assert_eq!((f64::from(got) - f64::from(x)).abs(), nearest, "{x}");
        }
        assert_eq!(to_bf16(1.0 + 1.0 / 256.0), to_bf16(1.0), "the even one");
        assert!(value(to_bf16(f32::NAN)).is_nan());
    }
}
