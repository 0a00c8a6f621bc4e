use super::columns::{of_columns, of_columns_body};
use super::prepared::{Input, Prepared};
use super::{Product, linear, linear_all};
use crate::bytewise::Bytewise;
use crate::format::Format;
use crate::out::Out;
use crate::simd::{Portable, Simd};
use crate::weights::{Weights, decode_any};
use verdigris_logits::{Purpose, Random};

fn noise(n: usize, seed: u64) -> Vec<f32> {
    (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 2.0 - 1.0).collect()
}

/// Random bytes as weights, with scales in a reasonable range.
fn stored(format: Format, rows: usize, k: usize) -> Vec<u8> {
    let random = Random::new(7);
    stored_as(format, rows, k, |i| (random.uniform(i as u64, Purpose::Token) * 256.0) as u8)
}

/// These bytes as weights, but for scales in a reasonable range.
fn stored_as(format: Format, rows: usize, k: usize, byte: impl FnMut(usize) -> u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..rows * format.bytes(k)).map(byte).collect();
    // Scales of about 1/16: 0x2c00 in half precision, 0x3d80 as the upper half of an `f32`.
    let scales: &[usize] = match format {
        Format::F32 => &[2],
        Format::F16 | Format::Bf16 | Format::Q8_0 | Format::Q4_0 | Format::Q5_0 => &[0],
        Format::Iq4Nl | Format::Iq4Xs => &[0],
        Format::Mxfp4 => &[],
        Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
        Format::Q2K => &[80, 82],
        Format::Q3K => &[108],
        Format::Q6K => &[208],
    };
    for block in bytes.chunks_mut(format.block_bytes()) {
        if format == Format::Mxfp4 {
            // From 2^-10 to 1/8.
            block[0] = 117 + block[0] % 8;
        }
        for &at in scales {
            let exponent = if matches!(format, Format::F32 | Format::Bf16) { 0x3d } else { 0x2c };
            block[at + 1] = exponent | block[at + 1] & 0x80;
        }
    }
    bytes
}

/// Small enough for Miri: every format, one row and several, on several threads.
#[test]
fn in_small() {
    for format in Format::ALL {
        let (n, k) = (9, if format.block() == 1 { 20 } else { format.block() });
        let bytes = stored(format, n, k);
        let (x, w) = (noise(3 * k, 2), Weights::new(format, &bytes, k));
        let (mut alone, mut together) = (vec![f32::NAN; 3 * n], vec![f32::NAN; 3 * n]);
        x.chunks(k).zip(alone.chunks_mut(n)).for_each(|(x, out)| linear(x, w, out));
        linear(&x, w, &mut together);
        assert_eq!(together, alone, "{format:?}");
    }
}

/// Sums of the largest products do not overflow.
#[test]
fn the_largest_weights_and_numbers() {
    for format in Format::ALL.into_iter().filter(|format| format.block() > 1) {
        for bits in [0xff, 0x77, 0x88, 0x80, 0x00] {
            let (n, k) = (16, format.block());
            let bytes = stored_as(format, n, k, |_| bits);
            let x: Vec<f32> = [1.0, -1.0, 1.0, 1.0].into_iter().flat_map(|x| vec![x; k]).collect();
            let w = Weights::new(format, &bytes, k);
            let expected = on_unit(Portable, &x, w);
            for rows in 1..=4 {
                let mut out = vec![f32::NAN; rows * n];
                linear(&x[..rows * k], w, &mut out);
                assert_eq!(out, expected[..rows * n], "{format:?} {bits:#x}, {rows} rows");
            }
        }
    }
}

/// Many rows of many columns, which are multiplied part by part.
#[test]
#[cfg_attr(miri, ignore = "too slow; `in_small` covers all code with `unsafe`")]
fn parts_of_a_prompt_are_those_of_its_rows() {
    for format in Format::ALL.into_iter().filter(|&format| format == Format::Bf16 || format.block() > 1) {
        // In bf16, 48 rows are more than a part; of blocks, each column has several parts.
        let (n, k, m) = (150, if format == Format::Bf16 { 8192 + 20 } else { 768 }, 75);
        let bytes = stored(format, n, k);
        let (x, w) = (noise(m * k, 2), Weights::new(format, &bytes, k));
        let (mut alone, mut together) = (vec![f32::NAN; m * n], vec![f32::NAN; m * n]);
        x.chunks(k).zip(alone.chunks_mut(n)).for_each(|(x, out)| linear(x, w, out));
        linear(&x, w, &mut together);
        assert!(together == alone, "{format:?}");
    }
}

/// The list in `ggml-common.h`.
fn non_linear(q: u8) -> f64 {
    let list = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    f64::from(list[usize::from(q)])
}

/// A weight according to its definition.
fn exact(format: Format, row: &[u8], c: usize) -> f64 {
    let half = |bytes: &[u8]| f64::from(crate::half::half([bytes[0], bytes[1]]));
    let block = &row[c / format.block() * format.block_bytes()..][..format.block_bytes()];
    let i = c % format.block();
    match format {
        Format::F32 => f32::from_le_bytes(block.try_into().unwrap()).into(),
        Format::F16 => half(block),
        Format::Bf16 => f32::from_le_bytes([0, 0, block[0], block[1]]).into(),
        Format::Q8_0 => half(block) * f64::from(block[2 + i] as i8),
        Format::Q4_0 => half(block) * (f64::from(block[2 + i % 16] >> (4 * (i / 16)) & 15) - 8.0),
        Format::Q4_1 => half(block) * f64::from(block[4 + i % 16] >> (4 * (i / 16)) & 15) + half(&block[2..]),
        Format::Q5_0 | Format::Q5_1 => {
            let (least, fifths) =
                if format == Format::Q5_0 { (-16.0 * half(block), 2) } else { (half(&block[2..]), 4) };
            let fifth = block[fifths + i / 8] >> (i % 8) & 1;
            half(block) * f64::from(block[fifths + 4 + i % 16] >> (4 * (i / 16)) & 15 | fifth << 4) + least
        }
        Format::Q2K => {
            let (q, fine) = (block[16 + i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3, block[i / 16]);
            half(&block[80..]) * f64::from(fine & 15) * f64::from(q) - half(&block[82..]) * f64::from(fine >> 4)
        }
        Format::Q3K => {
            let low = block[32 + i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
            let (high, j, packed) = (block[i % 32] >> (i / 32) & 1, i / 16, &block[96..108]);
            let fine = packed[j % 8] >> (4 * (j / 8)) & 15 | (packed[8 + j % 4] >> (2 * (j / 4)) & 3) << 4;
            half(&block[108..]) * (f64::from(fine) - 32.0) * (f64::from(low | high << 2) - 4.0)
        }
        Format::Q4K | Format::Q5K => {
            let is_of_five = format == Format::Q5K;
            let (j, lower) = (i / 32, if is_of_five { 48 } else { 16 });
            let fifth = if is_of_five { block[16 + i % 32] >> j & 1 } else { 0 };
            let q = block[lower + i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15 | fifth << 4;
            let packed = &block[4..16];
            let (s, m) = if j < 4 {
                (packed[j] & 63, packed[j + 4] & 63)
            } else {
                (packed[j + 4] & 15 | packed[j - 4] >> 6 << 4, packed[j + 4] >> 4 | packed[j] >> 6 << 4)
            };
            half(block) * f64::from(s) * f64::from(q) - half(&block[2..]) * f64::from(m)
        }
        Format::Q6K => {
            let (n, l, quarter) = (i / 128, i % 32, i % 128 / 32);
            let low = block[64 * n + l + 32 * (quarter % 2)] >> (4 * (quarter / 2)) & 15;
            let high = block[128 + 32 * n + l] >> (2 * quarter) & 3;
            let scale = f64::from(block[192 + 8 * n + l / 16 + 2 * quarter] as i8);
            half(&block[208..]) * scale * (f64::from(low | high << 4) - 32.0)
        }
        Format::Iq4Nl => half(block) * non_linear(block[2 + i % 16] >> (4 * (i / 16)) & 15),
        Format::Iq4Xs => {
            let (j, upper) = (i / 32, u16::from_le_bytes([block[2], block[3]]));
            let fine = block[4 + j / 2] >> (4 * (j % 2)) & 15 | ((upper >> (2 * j) & 3) as u8) << 4;
            let q = block[8 + 16 * j + i % 16] >> (4 * (i % 32 / 16)) & 15;
            half(block) * (f64::from(fine) - 32.0) * non_linear(q)
        }
        Format::Mxfp4 => {
            let q = block[1 + i % 16] >> (4 * (i / 16)) & 15;
            let (exponent, more) = (i32::from(q >> 1 & 3), f64::from(q & 1));
            let size = if exponent == 0 { more / 2.0 } else { (1.0 + more / 2.0) * 2f64.powi(exponent - 1) };
            2f64.powi(i32::from(block[0]) - 127) * if q >= 8 { -size } else { size }
        }
    }
}

fn sizes(format: Format) -> &'static [usize] {
    match format.block() {
        1 => &[1, 15, 16, 17, 31, 32, 33, 63, 100, 256],
        32 => &[32, 96, 256],
        _ => &[256, 768],
    }
}

#[test]
fn weights_are_those_of_the_definition() {
    for format in Format::ALL {
        for &k in sizes(format) {
            let bytes = stored(format, 3, k);
            let w = Weights::new(format, &bytes, k);
            for j in 0..3 {
                let (mut out, mut plain) = (vec![f32::NAN; k], vec![f32::NAN; k]);
                w.decode(j, &mut out);
                decode_any(Portable, format, w.rows_from(j, 1), &mut plain);
                for (c, &got) in out.iter().enumerate() {
                    assert_eq!(got, exact(format, w.rows_from(j, 1), c) as f32, "{format:?} {k} {j} {c}");
                }
                assert_eq!(out, plain, "{format:?} without SIMD");
            }
        }
    }
}

/// Rows prepared for a format.
fn with_rows<T>(format: Format, x: &[f32], k: usize, f: impl FnOnce(Input<'_>) -> T) -> T {
    let mut prepared = Prepared::default();
    prepared.set(x, k, format);
    f(prepared.input(x, format))
}

/// The product on one unit without tiles, on this thread.
fn on_unit(unit: impl Bytewise, x: &[f32], w: Weights<'_>) -> Vec<f32> {
    let (k, n) = (w.columns(), w.rows());
    let mut out = vec![f32::NAN; x.len() / k * n];
    if !x.is_empty() {
        // SAFETY: there is one thread.
        let mut multiply = |rows: Input<'_>| unsafe { of_columns_body(unit, rows, w, 0..n, &Out::new(&mut out, n)) };
        if w.format().block() == 1 { multiply(Input::Floats(x)) } else { with_rows(w.format(), x, k, multiply) }
    }
    out
}

/// Whether sums run in a different order than without tiles.
fn is_tiled(format: Format) -> bool {
    with_rows(format, &[1.0; 256], 256, |rows| !matches!(rows, Input::Floats(_) | Input::Quantized(_)))
}

/// Every format, tile shape, remainder and unit, with few rows and many, gives the bits of one row alone, and they
/// are within rounding of the sum in f64 over the prepared rows.
#[test]
fn every_path_gives_the_same_bits_and_they_are_right() {
    const ROWS: usize = 19;
    for format in Format::ALL {
        for &k in sizes(format) {
            for n in [1, 3, 8, 37] {
                let bytes = stored(format, n, k);
                let w = Weights::new(format, &bytes, k);
                let mut numbers = vec![0.0; n * k];
                numbers.chunks_mut(k).enumerate().for_each(|(j, row)| w.decode(j, row));
                let x = noise(ROWS * k, 2);
                // Results of single rows, on this CPU and on CPUs without tiles.
                let (mut alone, mut without) = (Vec::new(), Vec::new());
                for row in x.chunks(k) {
                    let mut out = vec![f32::NAN; n];
                    linear(row, w, &mut out);
                    if format.block() == 1 {
                        without.extend(numbers.chunks(k).map(|w| Portable.dot(row, w)));
                    } else {
                        without.extend_from_slice(&out);
                    }
                    alone.extend(out);
                }
                if !is_tiled(format) {
                    assert_eq!(alone, without, "{format:?} n {n} k {k}");
                }
                for m in (0..=10).chain([16, 17, ROWS]) {
                    let mut out = vec![f32::NAN; m * n];
                    linear(&x[..m * k], w, &mut out);
                    assert_eq!(out, alone[..m * n], "{format:?} m {m} n {n} k {k}");
                    let plain = on_unit(Portable, &x[..m * k], w);
                    assert_eq!(plain, without[..m * n], "{format:?} without SIMD: m {m} n {n} k {k}");
                    #[cfg(target_arch = "x86_64")]
                    if let Some(unit) = crate::simd::Avx2::detect() {
                        let narrow = on_unit(unit, &x[..m * k], w);
                        assert_eq!(narrow, plain, "{format:?} with half the SIMD: m {m} n {n} k {k}");
                    }
                    #[cfg(target_arch = "x86_64")]
                    if let Some(unit) = crate::simd::Avx512::detect() {
                        let wide = on_unit(unit, &x[..m * k], w);
                        assert_eq!(wide, plain, "{format:?} in vectors: m {m} n {n} k {k}");
                    }
                }
                for (i, row) in x.chunks(k).enumerate() {
                    let seen = with_rows(format, &x, k, |rows| match rows {
                        Input::Floats(_) => row.iter().map(|&x| f64::from(x)).collect(),
                        Input::Quantized(quantized) => quantized.numbers(i),
                        #[cfg(amx)]
                        Input::Split(split) => split.numbers(i, k),
                    });
                    // Within half of a 127th of the largest element of a block.
                    assert!(row.iter().zip(&seen).all(|(x, seen)| (f64::from(*x) - seen).abs() <= 0.5 / 127.0 + 1e-6));
                    for (j, w) in numbers.chunks(k).enumerate() {
                        let exact: f64 = seen.iter().zip(w).map(|(a, b)| a * f64::from(*b)).sum();
                        // Offsets of weights are added separately.
                        let largest = w.iter().fold(0f32, |most, w| most.max(w.abs()));
                        let scale: f64 = seen.iter().map(|a| a.abs() * f64::from(largest)).sum();
                        let got = f64::from(alone[i * n + j]);
                        assert!((got - exact).abs() <= 1e-6 * scale + 1e-12, "{format:?} {got} {exact}");
                    }
                }
            }
        }
    }
}

/// Rows with NaN or infinity give results that are not finite; very large or small numbers give finite ones.
#[test]
fn strange_rows() {
    for format in Format::ALL {
        let bytes = stored(format, 2, 256);
        let w = Weights::new(format, &bytes, 256);
        for (strange, is_number) in
            [(f32::NAN, false), (f32::INFINITY, false), (1e-45, true), (0.0, true), (1e30, true)]
        {
            let mut x = noise(256, 5);
            x[77] = strange;
            let mut out = vec![0.0; 2];
            linear(&x, w, &mut out);
            assert_eq!(out.iter().all(|y| y.is_finite()), is_number, "{format:?} {strange}: {out:?}");
            x.fill(if is_number { strange } else { 0.0 });
            linear(&x, w, &mut out);
            assert!(out.iter().all(|y| y.is_finite()), "{format:?} {strange}");
        }
    }
}

#[test]
fn several_matrices_on_several_threads() {
    let (m, k) = (3, 512);
    let x = noise(m * k, 3);
    let formats = [(Format::Q8_0, 700), (Format::F32, 1), (Format::Q4K, 333), (Format::Bf16, 64)];
    let stored = formats.map(|(format, n)| stored(format, n, k));
    let weights: [_; 4] = std::array::from_fn(|i| Weights::new(formats[i].0, &stored[i], k));
    let mut alone: [Vec<f32>; 4] = formats.map(|(_, n)| vec![0.0; m * n]);
    for (w, out) in weights.iter().zip(&mut alone) {
        with_rows(w.format(), &x, k, |rows| {
            // SAFETY: there is one thread.
            unsafe { of_columns(rows, *w, 0..w.rows(), &Out::new(out, w.rows())) };
        });
    }
    let mut together: [Vec<f32>; 4] = formats.map(|(_, n)| vec![f32::NAN; m * n]);
    let [a, b, c, d] = &mut together;
    let mut products = [(weights[0], a), (weights[1], b), (weights[2], c), (weights[3], d)].map(|(w, out)| Product {
        x: &x,
        w,
        out: &mut out[..],
    });
    linear_all(k, &mut products);
    assert_eq!(together, alone);
    // More of them than have memory of their own, with other rows and with none.
    let other = noise(2 * k, 4);
    let mut expected = vec![0.0; 2 * weights[0].rows()];
    linear(&other, weights[0], &mut expected);
    let mut many: [Vec<f32>; 6] = [0, 1, 2, 3, 0, 0].map(|i| vec![f32::NAN; m * formats[i].1]);
    many[4] = vec![f32::NAN; expected.len()];
    many[5] = Vec::new();
    let rows: [&[f32]; 6] = [&x, &x, &x, &x, &other, &[]];
    let of = [0, 1, 2, 3, 0, 0].map(|i| weights[i]);
    let mut products: Vec<Product<'_>> =
        many.iter_mut().zip(rows).zip(of).map(|((out, x), w)| Product { x, w, out: &mut out[..] }).collect();
    linear_all(k, &mut products);
    assert_eq!((&many[..4], &many[4]), (&alone[..], &expected));
}

#[test]
#[should_panic(expected = "rows of 100 weights in Q8_0")]
fn rows_are_whole_blocks() {
    Weights::new(Format::Q8_0, &[], 100);
}
