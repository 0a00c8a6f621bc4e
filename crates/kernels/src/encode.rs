//! Encoding of numbers into storage formats, the inverse of [`decode`](crate::decode).

use crate::decode::half_power;
use crate::dispatch::dispatch;
use crate::format::{Bits, Blocks as _, Format, Layout, Numbers, Scales, bits, bytes, with_blocks};
use crate::half::{half, to_bf16, to_half_finite};
use crate::simd::{LANES, Simd};

impl Format {
    /// Encodes numbers as closely as the format allows: each is rounded to the nearest, and scales and offsets of
    /// blocks are chosen for the least squared error. Numbers beyond half precision become its largest number.
    ///
    /// # Panics
    /// If the numbers are not whole blocks, or `out` does not have the length of their encoding.
    pub fn encode(self, numbers: &[f32], out: &mut [u8]) {
        assert!(numbers.len().is_multiple_of(self.block()), "whole blocks");
        assert_eq!(out.len(), self.bytes(numbers.len()), "the bytes of {} numbers in {self:?}", numbers.len());
        match self {
            Self::F32 => out.copy_from_slice(bytes(numbers)),
            Self::F16 => f16(numbers, out.as_chunks_mut().0),
            Self::Bf16 => out.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(out, &x)| *out = to_bf16(x)),
            Self::Q8_0 => {
                out.as_chunks_mut().0.iter_mut().zip(numbers.as_chunks().0).for_each(|(out, x)| q8_0(x, out));
            }
            _ => blocks(with_blocks!(self, F => F::LAYOUT), numbers, out),
        }
    }
}

/// Encodes a block in one pass, since caches are written in this format. Numbers are divided by the scale before it is
/// rounded, as in ggml, which makes a difference where half precision has few digits: below 1e-3.
fn q8_0(block: &[f32; 32], out: &mut [u8; 34]) {
    let most = block.iter().fold(0f32, |most, x| most.max(x.abs()));
    let scale = most / 127.0;
    out[..2].copy_from_slice(&to_half_finite(scale));
    let inverse = inverse(scale);
    for (out, x) in out[2..].iter_mut().zip(block) {
        *out = (x * inverse).round() as i8 as u8;
    }
}

fn blocks(layout: Layout, numbers: &[f32], out: &mut [u8]) {
    let Layout { block, bytes, low, high, .. } = layout;
    let list = Sorted::new(if let Numbers::Listed(list) = layout.numbers { list } else { &[0; 16] });
    let mut q = [0; 256];
    for (out, numbers) in out.chunks_exact_mut(bytes).zip(numbers.chunks_exact(block)) {
        // Bits are added.
        out.fill(0);
        quantize(layout, &list, numbers, out, &mut q);
        for (i, q) in q[..block].iter().enumerate() {
            low.add(i, *q, out);
            if let Some(high) = high {
                high.add(i, q >> low.count, out);
            }
        }
    }
}

impl Bits {
    /// Writes the lowest bits of the `q` of weight `i`, where there are only zeros.
    fn add(self, i: usize, q: u8, out: &mut [u8]) {
        let (at, shift) = self.find(i);
        let others = 8 - self.count;
        out[at] |= q << others >> others << shift;
    }
}

/// Writes the scales of a block, and sets the `q` of each weight. `list` is that of listed numbers.
fn quantize(layout: Layout, list: &Sorted, block: &[f32], out: &mut [u8], q: &mut [u8; 256]) {
    let Layout { scales, coarse: at, numbers, low, high, .. } = layout;
    // The largest `q`.
    let most = ((1u32 << (low.count + high.map_or(0, |high| high.count))) - 1) as f32;
    let all = q.iter_mut().zip(block);
    match (scales, numbers) {
        (Scales::One, Numbers::Excess(excess)) => {
            let excess = f32::from(excess);
            let inverse = inverse(write(to_half_finite(signed(block, excess)), &mut out[at..]));
            all.for_each(|(q, x)| *q = (x * inverse + excess).round().clamp(0.0, most) as u8);
        }
        (Scales::One, Numbers::Least) => {
            let (scale, offset) = with_offset(block, most, false);
            let inverse = inverse(write(to_half_finite(scale), &mut out[at..]));
            let least = write(to_half_finite(-offset), &mut out[at + 2..]);
            all.for_each(|(q, x)| *q = ((x - least) * inverse).round().clamp(0.0, most) as u8);
        }
        (Scales::One, Numbers::Listed(_)) => {
            let inverse = inverse(write(to_half_finite(listed(block, list)), &mut out[at..]));
            all.for_each(|(q, x)| *q = list.index(x * inverse));
        }
        (Scales::Power, Numbers::Listed(_)) => {
            out[at] = power(block, list);
            let inverse = inverse(half_power(out[at]));
            all.for_each(|(q, x)| *q = list.index(x * inverse));
        }
        (Scales::Q2K, _) => {
            let (coarse, fine) = with_offsets::<16>(block, most, 15.0, &mut out[at..]);
            out.iter_mut().zip(&fine).for_each(|(out, (s, m))| *out = s | m << 4);
            all.enumerate().for_each(|(i, (q, x))| *q = above(*x, coarse, fine[i / 16], most));
        }
        (Scales::Q4K, _) => {
            let (coarse, fine) = with_offsets::<8>(block, most, 63.0, &mut out[at..]);
            for i in 0..4 {
                let ((s, m), (upper_s, upper_m)) = (fine[i], fine[i + 4]);
                out[4 + i] = s | upper_s >> 4 << 6;
                out[8 + i] = m | upper_m >> 4 << 6;
                out[12 + i] = upper_s & 15 | (upper_m & 15) << 4;
            }
            all.enumerate().for_each(|(i, (q, x))| *q = above(*x, coarse, fine[i / 32], most));
        }
        (Scales::Q3K, _) => {
            let (coarse, fine) = of_scales::<16>(block, 32.0, |some| signed(some, 4.0), &mut out[at..]);
            six_bits(&fine, bits(4, 96, 8), bits(2, 104, 4), out);
            all.enumerate().for_each(|(i, (q, x))| {
                *q = ((x * inverse(coarse * fine[i / 16])).round().clamp(-4.0, 3.0) + 4.0) as u8;
            });
        }
        (Scales::Q6K, _) => {
            let (coarse, fine) = of_scales::<16>(block, 128.0, |some| signed(some, 32.0), &mut out[at..]);
            let fine = fine.map(|fine| fine as i8);
            out[192..208].iter_mut().zip(fine).for_each(|(out, fine)| *out = fine as u8);
            all.enumerate().for_each(|(i, (q, x))| {
                let inverse = inverse(coarse * f32::from(fine[i / 16]));
                *q = ((x * inverse).round().clamp(-32.0, 31.0) as i8 + 32) as u8;
            });
        }
        (Scales::Iq4Xs, Numbers::Listed(_)) => {
            let (coarse, fine) = of_scales::<8>(block, 32.0, |some| listed(some, list), &mut out[at..]);
            six_bits(&fine, bits(4, 4, 1), bits(2, 2, 1), out);
            all.enumerate().for_each(|(i, (q, x))| *q = list.index(x * inverse(coarse * fine[i / 32])));
        }
        _ => unreachable!("a block without a way to choose its scales"),
    }
}

/// Writes a number in half precision; returns it.
fn write(number: [u8; 2], out: &mut [u8]) -> f32 {
    out[..2].copy_from_slice(&number);
    half(number)
}

/// The scales and offsets of `N` parts of a block, as integers up to `most_fine`, with two common factors, which are
/// written. `most` is the largest `q`.
fn with_offsets<const N: usize>(
    block: &[f32],
    most: f32,
    most_fine: f32,
    out: &mut [u8],
) -> ((f32, f32), [(u8, u8); N]) {
    let mut fits = [(0f32, 0f32); N];
    for (fit, some) in fits.iter_mut().zip(block.chunks_exact(block.len() / N)) {
        *fit = with_offset(some, most, true);
    }
    let largest = fits.iter().fold((0f32, 0f32), |most, fit| (most.0.max(fit.0), most.1.max(fit.1)));
    let scale = write(to_half_finite(largest.0 / most_fine), out);
    let offset = write(to_half_finite(largest.1 / most_fine), &mut out[2..]);
    let whole = |x: f32, of: f32| (x * inverse(of)).round().clamp(0.0, most_fine) as u8;
    ((scale, offset), fits.map(|fit| (whole(fit.0, scale), whole(fit.1, offset))))
}

/// The `q` of a number, up to `most`, with the scale and offset that [`with_offsets`] chose.
fn above(x: f32, coarse: (f32, f32), (s, m): (u8, u8), most: f32) -> u8 {
    let (scale, offset) = (coarse.0 * f32::from(s), coarse.1 * f32::from(m));
    ((x + offset) * inverse(scale)).round().clamp(0.0, most) as u8
}

/// The scales of `N` parts of a block, as integers from `-most` to `most - 1`, with a common factor, which is written.
fn of_scales<const N: usize>(
    block: &[f32],
    most: f32,
    scale: impl Fn(&[f32]) -> f32,
    out: &mut [u8],
) -> (f32, [f32; N]) {
    let mut scales = [0f32; N];
    for (to, some) in scales.iter_mut().zip(block.chunks_exact(block.len() / N)) {
        *to = scale(some);
    }
    let coarse = write(to_half_finite(largest(&scales) / -most), out);
    (coarse, scales.map(|scale| (scale * inverse(coarse)).round().clamp(-most, most - 1.0)))
}

/// Writes scales from -32 to 31.
fn six_bits(fine: &[f32], low: Bits, high: Bits, out: &mut [u8]) {
    for (i, fine) in fine.iter().enumerate() {
        let six = (fine + 32.0) as u8;
        low.add(i, six, out);
        high.add(i, six >> 4, out);
    }
}

/// The exponent of a block of [`Format::Mxfp4`].
fn power(block: &[f32], list: &Sorted) -> u8 {
    let most = block.iter().fold(0f32, |most, x| most.max(x.abs())).min(f32::MAX);
    // The largest number of four bits is 6, less than the next power, 8; where it would be clamped, the next exponent
    // may be better.
    let exponent = if most == 0.0 { 0 } else { (most.log2().floor() as i32 - 2 + 127).clamp(0, 253) as u8 };
    let error = |exponent: u8| {
        let scale = half_power(exponent);
        let miss = |&x: &f32| (scale * list.number(x * inverse(scale)) - x).powi(2);
        block.iter().map(miss).sum::<f32>()
    };
    if error(exponent + 1) < error(exponent) { exponent + 1 } else { exponent }
}

/// The numbers of a list in ascending order, each once.
struct Sorted {
    numbers: [f32; 16],
    /// Their indices in the list.
    indices: [u8; 16],
    /// The middles between neighbours; infinity after the last.
    middles: [f32; 16],
    /// The position of the first number in the list.
    first: usize,
}

impl Sorted {
    fn new(list: &[i8; 16]) -> Self {
        let mut order: Vec<u8> = (0..16).collect();
        order.sort_by_key(|&i| list[usize::from(i)]);
        order.dedup_by_key(|&mut i| list[usize::from(i)]);
        let mut sorted = Self { numbers: [0.0; 16], indices: [0; 16], middles: [f32::INFINITY; 16], first: 0 };
        for (at, &i) in order.iter().enumerate() {
            (sorted.numbers[at], sorted.indices[at]) = (f32::from(list[usize::from(i)]), i);
        }
        sorted.first = order.iter().position(|&i| i == 0).unwrap_or_default();
        for (at, pair) in order.windows(2).enumerate() {
            let middle = (sorted.numbers[at] + sorted.numbers[at + 1]) / 2.0;
            // Of two numbers that are equally near, the first in the list.
            sorted.middles[at] = if pair[0] < pair[1] { middle } else { middle.next_down() };
        }
        sorted
    }

    /// The position of the number that is nearest to `x`; of the first in the list if `x` is not a finite number.
    #[inline(always)]
    fn nearest(&self, x: f32) -> usize {
        if !x.is_finite() {
            return self.first;
        }
        usize::from(self.middles.iter().map(|&middle| u8::from(x > middle)).sum::<u8>() & 15)
    }

    /// The index in the list of the number that is nearest to `x`.
    #[inline(always)]
    fn index(&self, x: f32) -> u8 {
        self.indices[self.nearest(x)]
    }

    /// The number that is nearest to `x`.
    #[inline(always)]
    fn number(&self, x: f32) -> f32 {
        self.numbers[self.nearest(x)]
    }
}

// Compiled for each kind of CPU: rounding is a call where the compiler cannot assume an instruction for it.
dispatch! {
    /// The scale of a list of numbers that comes nearest to the numbers `some`, with the better of the two signs.
    fn listed(some: &[f32], list: &Sorted) -> f32 = listed_body
}

dispatch! {
    /// The scale of `scale * q`, with `q` from `-most` to `most - 1`, that comes nearest to some numbers. Its sign
    /// makes the largest of them a multiple of the lowest `q`.
    fn signed(some: &[f32], most: f32) -> f32 = signed_body
}

dispatch! {
    /// The scale and offset of `scale * q - offset`, with `q` from 0 to `most`, that come nearest to some numbers. The
    /// scale is not negative, and neither is the offset if `is_positive`.
    fn with_offset(some: &[f32], most: f32, is_positive: bool) -> (f32, f32) = with_offset_body
}

#[inline(always)]
fn listed_body<S>(_: S, some: &[f32], list: &Sorted) -> f32 {
    let largest = largest(some);
    let ends = [list.numbers[0], list.numbers[15]].into_iter().flat_map(|end| (-7..=7).map(move |step| (end, step)));
    let inverses = ends.map(|(end, step)| (end + step as f32) / largest);
    nearest_scale(some, inverses, |x| list.number(x))
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

#[inline(always)]
fn signed_body<S>(_: S, some: &[f32], most: f32) -> f32 {
    let largest = largest(some);
    let inverses = (-9..=9).map(|step| -(most + 0.1 * step as f32) / largest);
    nearest_scale(some, inverses, |x| x.round().clamp(-most, most - 1.0))
}

/// The scale of `scale * q` that comes nearest to some numbers, where `round` converts a number times one of `inverses`
/// to `q`; 0 if all are zero.
#[inline(always)]
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

#[inline(always)]
fn with_offset_body<S>(_: S, some: &[f32], most: f32, is_positive: bool) -> (f32, f32) {
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

dispatch! {
    /// Rounds to half precision; caches are written in this format.
    fn f16(numbers: &[f32], out: &mut [[u8; 2]]) = f16_body
}

#[inline(always)]
fn f16_body<S: Simd>(unit: S, numbers: &[f32], out: &mut [[u8; 2]]) {
    let (lanes, rest) = numbers.as_chunks::<LANES>();
    let (of_lanes, of_rest) = out.split_at_mut(lanes.len() * LANES);
    for (out, lanes) in of_lanes.as_chunks_mut::<LANES>().0.iter_mut().zip(lanes) {
        *out = unit.to_half_finite(unit.load(lanes));
    }
    of_rest.iter_mut().zip(rest).for_each(|(out, &x)| *out = to_half_finite(x));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weights;
    use crate::half::to_half;
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

    /// The nearest number, the first in the list of two that are equally near; the first in the list if there is none.
    #[test]
    fn the_nearest_of_a_list_is_found() {
        for format in [Format::Iq4Nl, Format::Mxfp4] {
            let Numbers::Listed(list) = with_blocks!(format, F => F::LAYOUT).numbers else { unreachable!() };
            let sorted = Sorted::new(list);
            let quarters = (-600..600).map(|x| 0.25 * x as f32);
            for x in quarters.chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]) {
                let away = |&i: &usize| (f32::from(list[i]) - x).abs();
                let nearest = (0..16)
                    .filter(|i| away(i) < f32::INFINITY)
                    .min_by(|a, b| away(a).total_cmp(&away(b)).then(a.cmp(b)));
                let index = usize::from(sorted.index(x));
                assert_eq!(index, nearest.unwrap_or(0), "{format:?} {x}");
                assert_eq!(sorted.number(x), f32::from(list[index]), "{format:?} {x}");
            }
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
            for hostile in [6e5, -1e7, f32::MIN_POSITIVE] {
                let back = there_and_back(format, &one(hostile));
                assert!(back.iter().all(|x| x.is_finite()), "{format:?} {hostile}");
            }
            for hostile in [f32::MAX, f32::INFINITY, f32::NAN] {
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
