//! Tests of the GPU kernels against those of the CPU and against f64: emulated, or on the GPU whose number is in
//! `VERDIGRIS_GPU`.
#![cfg(feature = "emulated-cuda")]

use std::sync::Arc;

use verdigris_kernels::cuda::activations::{Activations, Kinds, Precision};
use verdigris_kernels::cuda::attention::{Attention, Splits, attend};
use verdigris_kernels::cuda::draw::{DrawItem, Drawer};
use verdigris_kernels::cuda::elements::{self, Norm, Rotation};
use verdigris_kernels::cuda::inputs::{Bounds, Inputs, Pages, Slice};
use verdigris_kernels::cuda::linear::{MatrixProduct, activated_linear, linear};
use verdigris_kernels::cuda::{Buffer, Gpu, Matrix};
use verdigris_kernels::{Activation, AttentionMask, Cached, Format, Heads, Pairs, Weights};
use verdigris_logits::transform::ChainState;
use verdigris_logits::warp::{EpsilonCutoff, EtaCutoff, MinP, Temperature, TopA, TopK, TopP, TypicalP, Xtc};
use verdigris_logits::{
    Chain, CountPenalty, Purpose, Random, RepetitionPenalty, Row, Sampler, Steps, TokenSet, Transform,
};

#[allow(dead_code, reason = "only the seed is used here")]
#[path = "../../../tests/src/sampled.rs"]
mod sampled;

fn gpu() -> Gpu {
    #[cfg(feature = "cuda")]
    if let Ok(number) = std::env::var("VERDIGRIS_GPU") {
        return Gpu::open(number.parse().expect("a number")).expect("a GPU");
    }
    Gpu::emulated()
}

/// GPUs whose kernels for many rows of activations differ.
fn gpus() -> Vec<Gpu> {
    #[cfg(feature = "cuda")]
    if std::env::var("VERDIGRIS_GPU").is_ok() {
        return vec![gpu()];
    }
    vec![gpu(), Gpu::emulated_8()]
}

fn noise(n: usize, seed: u64) -> Vec<f32> {
    (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 4.0 - 2.0).collect()
}

fn numbers(buffer: &Buffer, count: usize) -> Vec<f32> {
    let mut numbers = vec![0.0; count];
    buffer.read_numbers(0, &mut numbers).unwrap();
    numbers
}

/// Rows of activations of both kinds.
fn activations(gpu: &Gpu, x: &[f32], columns: usize, precision: Precision) -> Activations {
    let both = Kinds { numbers: true, pieces: true };
    let rows = x.len() / columns;
    let out = Activations::new(gpu, rows, columns, both, precision).unwrap();
    elements::activate(gpu, None, &gpu.upload_numbers(x).unwrap(), None, rows, &out).unwrap();
    out
}

fn close(got: &[f32], expected: &[f32], bound: f32) {
    assert_eq!(got.len(), expected.len());
    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
        let most = bound * expected.abs().max(1.0);
        assert!((got - expected).abs() <= most, "number {i}: {got}, but expected {expected}");
    }
}

fn stored(format: Format, numbers: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; format.bytes(numbers.len())];
    format.encode(numbers, &mut bytes);
    bytes
}

/// A matrix on the CPU and on the GPU, with a bias.
struct OnBoth {
    numbers: Vec<f32>,
    bias: Vec<f32>,
    matrix: Matrix,
    bias_there: Buffer,
}

impl OnBoth {
    fn new(gpu: &Gpu, format: Format, n: usize, k: usize, seed: u64) -> Self {
        let bytes = stored(format, &noise(n * k, seed));
        let (matrix, bias) = (Matrix::new(gpu, format, &bytes, k).unwrap(), noise(n, seed + 1));
        let mut numbers = vec![0.0; n * k];
        let weights = Weights::new(format, &bytes, k);
        numbers.chunks_mut(k).enumerate().for_each(|(row, numbers)| weights.decode(row, numbers));
        Self { numbers, bias_there: gpu.upload_numbers(&bias).unwrap(), bias, matrix }
    }

    /// The product of a row, and the error that it may have if the relative error of each number of the row is `each`.
    fn product(&self, x: &[f32], row: usize, each: f64) -> (f64, f64) {
        let k = x.len();
        let both = || x.iter().zip(&self.numbers[row * k..]).map(|(x, w)| f64::from(*x) * f64::from(*w));
        (both().sum::<f64>() + f64::from(self.bias[row]), each * both().map(f64::abs).sum::<f64>() + 1e-6)
    }
}

/// The relative error of a number in each precision, and of the sums.
fn error_of(matrix: &Matrix, precision: Precision) -> f64 {
    let pieces = match precision {
        Precision::Two => 1.0 / f64::from(1 << 17),
        Precision::One => 1.0 / f64::from(1 << 9),
    };
    1e-6 + if matrix.is_for_tensor_cores() { pieces } else { 0.0 }
}

#[test]
fn products_with_numbers_are_those_of_the_definition_whatever_goes_with_a_row() {
    products(1, &[(1, 1), (5, 24), (9, 37), (33, 544), (140, 32)]);
}

#[test]
fn products_with_blocks_are_those_of_the_definition_whatever_goes_with_a_row() {
    products(32, &[(5, 32), (9, 1184), (140, 160)]);
}

#[test]
fn products_with_large_blocks_are_those_of_the_definition_whatever_goes_with_a_row() {
    products(256, &[(5, 256), (9, 1280), (140, 256)]);
}

/// Compares products with matrices of these shapes, in the formats whose blocks have this size.
fn products(block: usize, shapes: &[(usize, usize)]) {
    assert!(Format::ALL.iter().all(|format| [1, 32, 256].contains(&format.block())));
    let formats: Vec<Format> = Format::ALL.into_iter().filter(|format| format.block() == block).collect();
    let gpus = gpus();
    let cases = gpus.iter().enumerate().flat_map(|(i, gpu)| formats.iter().zip(i..).map(move |(&of, i)| (gpu, of, i)));
    // In CI each format is multiplied on one of the two: on which one, the commit decides.
    let is_due = |i: usize| gpus.len() == 1 || sampled::seed().is_none_or(|seed| (seed + i).is_multiple_of(2));
    for (gpu, format, _) in cases.filter(|&(.., i)| is_due(i)) {
        // One piece is the same code without the second products.
        let each = shapes.iter().map(|shape| (shape, Precision::Two)).chain([(&shapes[1], Precision::One)]);
        for (&(n, k), precision) in each {
            let weights = OnBoth::new(gpu, format, n, k, 1);
            let (x, most) = (noise(140 * k, 3), error_of(&weights.matrix, precision));
            let mut alone: Vec<f32> = Vec::new();
            for (from, m) in [(0, 1), (7, 1), (0, 8), (6, 3), (0, 13), (5, 30), (0, 40), (3, 64), (0, 70), (1, 139)] {
                let (rows, out) = (&x[from * k..(from + m) * k], gpu.allocate(m * n * 4).unwrap());
                let rows_there = activations(gpu, rows, k, precision);
                let (matrix, bias) = (&weights.matrix, Some(&weights.bias_there));
                linear(gpu, &rows_there, m, &[MatrixProduct { matrix, bias, out: &out }], false).unwrap();
                let got = numbers(&out, m * n);
                for (r, row) in rows.chunks(k).enumerate().filter(|(r, _)| *r < 2 || *r + 2 > m) {
                    for j in 0..n {
                        let (exact, most) = weights.product(row, j, most);
                        let got = f64::from(got[r * n + j]);
                        assert!((got - exact).abs() < most, "{format:?} {n}x{k} {m} {r} {j}: {got}, {exact}");
                    }
                }
                if m == 1 {
                    alone.extend(got);
                    continue;
                }
                for (row, expected) in [0, 7].into_iter().zip(alone.chunks(n)) {
                    if let Some(at) = usize::checked_sub(row, from).filter(|at| *at < m) {
                        assert_eq!(got[at * n..(at + 1) * n], *expected, "{format:?} {n}x{k}: row {row} of {m}");
                    }
                }
            }
        }
    }
}

/// Activated results are the activations of the results, with the same bits in every kernel.
#[test]
fn activated_products_are_activations_of_products() {
    gpus().iter().for_each(activated_products);
}

fn activated_products(gpu: &Gpu) {
    let (n, k) = (70, 256);
    for (format, other) in [
        (Format::Bf16, Format::Bf16),
        (Format::Q4K, Format::Q4K),
        (Format::F32, Format::F32),
        (Format::Q8_0, Format::Bf16),
    ] {
        let weights = [OnBoth::new(gpu, format, n, k, 1), OnBoth::new(gpu, other, n, k, 7)];
        let x = noise(70 * k, 3);
        let mut first: Vec<Vec<f32>> = vec![Vec::new(); 2];
        for m in [1, 12, 33, 70] {
            let rows = activations(gpu, &x[..m * k], k, Precision::Two);
            let projections: Vec<_> = weights.iter().map(|of| (&of.matrix, Some(&of.bias_there))).collect();
            let both = Kinds { numbers: true, pieces: true };
            for (count, first) in [1, 2].into_iter().zip(&mut first) {
                let out = Activations::new(gpu, m, n, both, Precision::Two).unwrap();
                let activation = Activation::Silu;
                let done = activated_linear(gpu, &rows, m, &projections[..count], activation, &out).unwrap();
                let can = count == 1 || (format == other && weights[0].matrix.is_for_tensor_cores());
                assert_eq!(done, can, "{format:?} {count}");
                if !done {
                    continue;
                }
                let got = numbers(out.numbers().unwrap(), m * n);
                for (r, row) in x.chunks(k).take(m).enumerate().filter(|(r, _)| *r == 0 || *r + 1 == m) {
                    for j in 0..n {
                        let [gate, up] = [&weights[0], &weights[1]].map(|of| of.product(row, j, 0.0).0);
                        let exact = gate / (1.0 + (-gate).exp()) * if count == 2 { up } else { 1.0 };
                        let got = f64::from(got[r * n + j]);
                        assert!(
                            (got - exact).abs() < 2e-3 * exact.abs().max(1.0),
                            "{format:?} {count} {m} {r} {j}: {got}, {exact}"
                        );
                    }
                }
                if m == 1 {
                    *first = got[..n].to_vec();
                }
                assert_eq!(got[..n], *first, "{format:?} {count} {m}");
            }
        }
    }
}

#[test]
fn several_matrices_and_sums_are_one_call() {
    let gpu = gpu();
    let (m, k) = (3, 40);
    let x = noise(m * k, 1);
    let x_there = activations(&gpu, &x, k, Precision::Two);
    let sizes = [(7, Format::F32), (20, Format::F32), (1, Format::Bf16)];
    let weights: Vec<Vec<u8>> = sizes.iter().map(|&(n, format)| stored(format, &noise(n * k, n as u64))).collect();
    let matrices: Vec<Matrix> = (sizes.iter().zip(&weights))
        .map(|(&(_, format), bytes)| Matrix::new(&gpu, format, bytes, k).unwrap())
        .collect();
    let outs: Vec<Buffer> = sizes.iter().map(|&(n, _)| gpu.upload_numbers(&vec![1.0; m * n]).unwrap()).collect();
    let products: Vec<MatrixProduct<'_>> =
        matrices.iter().zip(&outs).map(|(matrix, out)| MatrixProduct { matrix, bias: None, out }).collect();
    for calls in 1..=2 {
        linear(&gpu, &x_there, m, &products, true).unwrap();
        for (((n, format), bytes), out) in sizes.iter().zip(&weights).zip(&outs) {
            let mut expected = vec![0.0; m * n];
            verdigris_kernels::linear(&x, Weights::new(*format, bytes, k), &mut expected);
            expected.iter_mut().for_each(|y| *y = *y * calls as f32 + 1.0);
            close(&numbers(out, m * n), &expected, 1e-4);
        }
    }
}

#[test]
fn a_panic_in_a_recording_leaves_nothing_behind() {
    let gpu = gpu();
    let [x, y] = [1.0, 2.0].map(|number| gpu.upload_numbers(&[number; 4]).unwrap());
    let panics = || gpu.record(|| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    elements::add(&gpu, &x, &y, 4).unwrap();
    assert_eq!(numbers(&x, 4), [3.0; 4], "it is done, and not recorded");
    let graph = gpu.record(|| elements::add(&gpu, &x, &y, 4)).unwrap();
    graph.replay().unwrap();
    assert_eq!(numbers(&x, 4), [5.0; 4]);
}

/// A sequence for both the GPU and the CPU.
struct Text {
    pages: Vec<Arc<Buffer>>,
    angles: Buffer,
    keys: Vec<f32>,
    values: Vec<f32>,
    held: usize,
}

const PAIRS: usize = 8;
const MAGNITUDE: f32 = 1.5;

/// The mask of three tokens that form a fork.
const TREE: [bool; 9] = [true, false, false, true, true, false, true, false, true];

/// Several sequences, in chains and trees, of several lengths, in four passes, give the results of the CPU.
#[test]
fn attention_is_that_of_the_cpu() {
    let gpu = gpu();
    for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0] {
        attend_as(&gpu, (8, 32), format, Pairs::Halves, None, false, None);
        attend_as(&gpu, (8, 32), format, Pairs::Neighbours, Some(5), false, Some(3.0));
        attend_as(&gpu, (8, 32), format, Pairs::Halves, None, true, None);
        // More keys than are processed together, in one split.
        attend_as(&gpu, (200, 96), format, Pairs::Halves, None, false, None);
        attend_as(&gpu, (8, 160), format, Pairs::Halves, None, false, None);
    }
    // Heads that are not read eight elements at a time.
    attend_as(&gpu, (8, 20), Format::F16, Pairs::Halves, None, false, None);
}

fn attend_as(
    gpu: &Gpu,
    (page, dim): (usize, usize),
    format: Format,
    pairs: Pairs,
    window: Option<usize>,
    with_slopes: bool,
    cap: Option<f32>,
) {
    let (heads, kv_heads, total) = (6, 2, 64);
    let layout = Pages { tokens: page, layers: 2, kv_heads, head_dim: dim, format };
    let inverse: Vec<f32> = (0..PAIRS).map(|i| 1.0 / 100f32.powf(i as f32 / 8.0)).collect();
    // The angles of another embedding come first.
    let angles = [vec![7.0; 3], inverse.clone()].concat();
    let rotation = Rotation { pairs: PAIRS, which: pairs, angles: 3, magnitude: MAGNITUDE };
    let bounds = Bounds { rows: total, pages: 64, group: heads / kv_heads, vocabulary: 10, angles: angles.len() };
    let mut rows = Inputs::new(gpu, layout, bounds).unwrap();
    let splits = Splits::new(gpu, total, heads, dim, 512).unwrap();
    let slopes: Vec<f32> = (0..heads).map(|head| 0.1 * head as f32).collect();
    let slopes_there = gpu.upload_numbers(&slopes).unwrap();
    let mut texts: Vec<Text> = (0..3)
        .map(|_| Text {
            pages: (0..64 / page + 1).map(|_| gpu.zeroed(layout.page_bytes()).unwrap().into()).collect(),
            angles: gpu.upload_numbers(&angles).unwrap(),
            keys: Vec::new(),
            values: Vec::new(),
            held: 0,
        })
        .collect();
    for (pass, lengths) in [[9, 1, 36], [1, 3, 0], [1, 10, 3], [1, 1, 20]].into_iter().enumerate() {
        rows.clear();
        let mut places = Vec::new();
        for (text, &m) in texts.iter().zip(&lengths) {
            let tree = (m == 3 && pass == 2).then_some(&TREE[..]);
            let after = |i: usize| if tree.is_some() { i.min(1) } else { i };
            let positions: Vec<u32> = (0..m).map(|i| (text.held + after(i)) as u32).collect();
            let (tokens, pages, angles) = (vec![3; m], &text.pages, &text.angles);
            rows.push(Slice { held: text.held, tokens: &tokens, positions: &positions, visible: tree, pages, angles });
            places.push((positions, tree));
        }
        rows.finish().unwrap();
        let of = |heads: usize, seed: u64| noise(total * heads * dim, 10 * pass as u64 + seed);
        let (query, key, value) = (of(heads, 1), of(kv_heads, 2), of(kv_heads, 3));
        let there = [&query, &key, &value].map(|x| gpu.upload_numbers(x).unwrap());
        let numbers_only = Kinds { numbers: true, pieces: false };
        let out = Activations::new(gpu, total, heads * dim, numbers_only, Precision::Two).unwrap();
        elements::into_pages(gpu, &rows, 1, heads, [&there[0], &there[1], &there[2]], Some(rotation)).unwrap();
        let slopes_there = with_slopes.then_some(&slopes_there);
        let attention = Attention { layer: 1, heads, window, slopes: slopes_there, scale: 0.3, cap };
        attend(gpu, &rows, &there[0], attention, &splits, &out).unwrap();
        let got = numbers(out.numbers().unwrap(), total * heads * dim);
        let mut at = 0;
        for ((text, (positions, tree)), &m) in texts.iter_mut().zip(&places).zip(&lengths) {
            let part = |x: &[f32], heads: usize| x[at * heads * dim..(at + m) * heads * dim].to_vec();
            let table = |f: fn(f32) -> f32| -> Vec<f32> {
                let of = |&p: &u32| inverse.iter().map(move |angle| MAGNITUDE * f(p as f32 * angle));
                positions.iter().flat_map(of).collect()
            };
            let (cos, sin) = (table(f32::cos), table(f32::sin));
            let (mut q, mut k) = (part(&query, heads), part(&key, kv_heads));
            verdigris_kernels::rotate(&mut q, heads, dim, &cos, &sin, pairs);
            verdigris_kernels::rotate(&mut k, kv_heads, dim, &cos, &sin, pairs);
            text.keys.extend(k);
            text.values.extend(part(&value, kv_heads));
            let [keys, values] = [&text.keys, &text.values].map(|x| stored(format, x));
            let mask = AttentionMask {
                visible: *tree,
                positions,
                window,
                slopes: with_slopes.then_some(&slopes),
                cap,
                sinks: None,
            };
            let mut expected = vec![0.0; m * heads * dim];
            let (keys, values) = (Cached::new(format, &keys), Cached::new(format, &values));
            let shape = Heads { heads, kv_heads, head_dim: dim };
            verdigris_kernels::attend(&q, keys, values, shape, mask, 0.3, &mut expected);
            // A rotated key between two numbers of its format may be rounded to the other one.
            let bound = if format == Format::F32 { 2e-5 } else { 2e-3 };
            close(&part(&got, heads), &expected, bound);
            at += m;
            text.held += m;
        }
    }
}

#[test]
fn norms_and_activations_are_those_of_the_cpu() {
    let gpu = gpu();
    for (rows, width) in [(1, 1), (3, 7), (4, 300)] {
        let count = rows * width;
        let (x, weight, bias) = (noise(count, 1), noise(width, 2), noise(width, 3));
        let there = [&x, &weight, &bias].map(|x| gpu.upload_numbers(x).unwrap());
        let out = gpu.allocate(count * 4).unwrap();
        let mut expected = vec![0.0; count];
        let there_as_rows = Activations::of_numbers(&out, rows, width);
        let norm = Norm { weight: &there[1], bias: None, width, epsilon: 1e-5 };
        elements::normalize(&gpu, &there[0], rows, norm, &there_as_rows).unwrap();
        verdigris_kernels::rms_norm(&x, &weight, 1e-5, &mut expected);
        close(&numbers(&out, count), &expected, 1e-5);
        let with_bias = Norm { bias: Some(&there[2]), ..norm };
        elements::normalize(&gpu, &there[0], rows, with_bias, &there_as_rows).unwrap();
        verdigris_kernels::layer_norm(&x, &weight, &bias, 1e-5, &mut expected);
        let up = numbers(&out, count);
        close(&up, &expected, 2e-5);
        let all = [Activation::Silu, Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::SquaredRelu];
        for activation in all {
            for with_up in [false, true] {
                let y = gpu.upload_numbers(&x).unwrap();
                let mut expected = x.clone();
                let to = Activations::of_numbers(&y, rows, width);
                elements::activate(&gpu, Some(activation), &y, with_up.then_some(&out), rows, &to).unwrap();
                verdigris_kernels::activate(activation, &mut expected, with_up.then_some(&up));
                close(&numbers(&y, count), &expected, 1e-5);
            }
        }
        elements::add(&gpu, &there[0], &out, count).unwrap();
        let sums: Vec<f32> = x.iter().zip(&up).map(|(x, y)| x + y).collect();
        assert_eq!(numbers(&there[0], count), sums);
        elements::cap(&gpu, &out, count, 0.5).unwrap();
        let capped: Vec<f32> = up.iter().map(|y| 0.5 * (y / 0.5).tanh()).collect();
        close(&numbers(&out, count), &capped, 1e-6);
    }
}

#[test]
fn embeddings_are_rows_and_positions_are_added() {
    let gpu = gpu();
    let layout = Pages { tokens: 4, layers: 1, kv_heads: 1, head_dim: 4, format: Format::F32 };
    let bounds = Bounds { rows: 4, pages: 8, group: 1, vocabulary: 6, angles: 0 };
    let mut rows = Inputs::new(&gpu, layout, bounds).unwrap();
    let pages: Vec<Arc<Buffer>> = (0..3).map(|_| gpu.zeroed(layout.page_bytes()).unwrap().into()).collect();
    let (angles, positions) = (gpu.allocate(0).unwrap(), [5, 6, 7]);
    rows.push(Slice {
        held: 5,
        tokens: &[5, 0, 3],
        positions: &positions,
        visible: None,
        pages: &pages,
        angles: &angles,
    });
    rows.want(2);
    rows.finish().unwrap();
    for format in Format::ALL {
        let width = 256;
        let [tokens, places] = [6, 12].map(|n| stored(format, &noise(n * width, n as u64)));
        let [there, places_there] = [&tokens, &places].map(|bytes| Matrix::new(&gpu, format, bytes, width).unwrap());
        let out = gpu.allocate(4 * width * 4).unwrap();
        elements::embed(&gpu, &rows, &there, 2.0, &out).unwrap();
        elements::add_positions(&gpu, &rows, &places_there, 2, &out).unwrap();
        let got = numbers(&out, 3 * width);
        let (tokens, places) = (Weights::new(format, &tokens, width), Weights::new(format, &places, width));
        let (mut row, mut place) = (vec![0.0; width], vec![0.0; width]);
        for (i, (token, position)) in [(5, 5), (0, 6), (3, 7)].into_iter().enumerate() {
            tokens.decode(token, &mut row);
            places.decode(position + 2, &mut place);
            let expected: Vec<f32> = row.iter().zip(&place).map(|(x, y)| x * 2.0 + y).collect();
            close(&got[i * width..(i + 1) * width], &expected, 1e-6);
        }
        // The wanted row comes first.
        let (ones, wanted) = (gpu.upload_numbers(&vec![1.0; width]).unwrap(), gpu.allocate(width * 4).unwrap());
        let norm = Norm { weight: &ones, bias: None, width, epsilon: 0.0 };
        let to = Activations::of_numbers(&wanted, 1, width);
        elements::normalize_wanted(&gpu, &out, &rows, 1, norm, &to).unwrap();
        let mut expected = vec![0.0; width];
        verdigris_kernels::rms_norm(&got[2 * width..], &vec![1.0; width], 0.0, &mut expected);
        close(&numbers(&wanted, width), &expected, 1e-5);
    }
}

/// A graph repeats the recorded launches on the current contents of its memory, and keeps that memory.
#[test]
fn graphs_do_it_again() {
    let gpu = gpu();
    let (to, from) = (gpu.upload_numbers(&[1.0, 2.0]).unwrap(), gpu.upload_numbers(&[10.0, 20.0]).unwrap());
    let graph = gpu.record(|| elements::add(&gpu, &to, &from, 2)).unwrap();
    assert_eq!(numbers(&to, 2), [1.0, 2.0], "it is not done when it is recorded");
    graph.replay().unwrap();
    from.write(0, &100f32.to_le_bytes()).unwrap();
    drop(from);
    graph.replay().unwrap();
    assert_eq!(numbers(&to, 2), [111.0, 42.0]);
}

#[test]
fn tokens_move_back_in_all_layers() {
    let gpu = gpu();
    let layout = Pages { tokens: 4, layers: 3, kv_heads: 1, head_dim: 2, format: Format::F32 };
    let pages: Vec<Arc<Buffer>> = (0..3).map(|_| gpu.zeroed(layout.page_bytes()).unwrap().into()).collect();
    let token = |half: usize, slot: usize| (half * 100 + slot) as f32;
    for (p, page) in pages.iter().enumerate() {
        let tokens = (0..6).flat_map(|half| (0..4).map(move |i| token(half, 4 * p + i)));
        let bytes: Vec<u8> = tokens.flat_map(|token| [token; 2]).flat_map(f32::to_le_bytes).collect();
        page.write(0, &bytes).unwrap();
    }
    elements::move_back(&gpu, layout, &pages, &[(3, 1), (6, 2), (11, 4)]).unwrap();
    for half in 0..6 {
        for slot in 0..12 {
            let from = [(1, 3), (2, 6), (4, 11)].iter().find(|pair| pair.0 == slot).map_or(slot, |pair| pair.1);
            let mut got = [0.0; 2];
            pages[slot / 4].read_numbers((half * 4 + slot % 4) * 8, &mut got).unwrap();
            assert_eq!(got, [token(half, from); 2], "half {half}, slot {slot}");
        }
    }
}

fn some_set(size: usize, seed: u64) -> TokenSet {
    let mut set = TokenSet::new(size);
    (0..size as u32).filter(|&t| Random::new(seed).uniform(t.into(), Purpose::Token) < 0.4).for_each(|t| set.insert(t));
    set
}

/// The state after some tokens of a prompt and of a text.
fn state(chain: &Chain) -> ChainState {
    let mut state = chain.start(&[4, 5]);
    [5, 9, 5, 60].into_iter().for_each(|token| chain.advance(&mut state, token));
    state
}

/// The steps that a chain applies to a row.
fn recorded(chain: &Chain, size: usize) -> Steps {
    let mut steps = Steps::default();
    assert!(Row::default().record(size, &mut steps, |row| chain.apply(&state(chain), row)));
    steps
}

/// Restricts a row to a set, or biases the set.
struct Marks(TokenSet, Option<f32>);

impl Transform for Marks {
    type State = ();
    fn start(&self, _: &[u32]) {}
    fn apply(&self, (): &(), row: &mut Row) {
        match self.1 {
            Some(delta) => row.bias(&self.0, delta),
            None => row.restrict(&self.0),
        }
    }
    fn advance(&self, (): &mut (), _: u32) {}
}

/// Steps of every kind, in several orders, sampled with many numbers, give the tokens of the CPU.
#[test]
fn draws_are_those_of_the_cpu() {
    let gpu = gpu();
    for (size, spread) in [(1, 1.0), (65, 1.0), (700, 0.5), (5000, 3.0)] {
        // Some are equal, and some -infinity.
        let each = |(i, z): (usize, f32)| match i % 11 {
            3 => f32::NEG_INFINITY,
            5 => 0.25,
            _ => z * spread,
        };
        let row = |seed: u64| noise(size, seed + 50).into_iter().enumerate().map(each).collect();
        let mut rows: Vec<Vec<f32>> = (0..3).map(row).collect();
        rows[2].iter_mut().for_each(|z| *z = z.round() / 2.0);
        // One set is shorter than the vocabulary, the other longer.
        let allow = || Marks(some_set(size.max(2) - 1, 8), None);
        let like = || Marks(some_set(size + 70, 9), Some(2.0));
        let temperature = |by| Temperature::new(by).unwrap();
        let (top_k, top_p) = (|k| TopK::new(k).unwrap(), |p| TopP::new(p).unwrap());
        let (typical, xtc) = (|p| TypicalP::new(p).unwrap(), |share| Xtc::new(1.0, share, Random::new(1)).unwrap());
        let penalties = || {
            let chain = Chain::new().then(RepetitionPenalty::new(1.3).unwrap());
            chain.then(CountPenalty::new(0.5, 0.25).unwrap())
        };
        let chains = [
            Chain::new(),
            Chain::new().then(like()),
            Chain::new().then(allow()).then(like()).then(temperature(0.7)),
            penalties().then(top_k(5)),
            Chain::new().then(top_k(50)).then(top_p(0.9)),
            Chain::new().then(top_p(0.5)).then(temperature(1.4)).then(MinP::new(0.02).unwrap()).then(like()),
            Chain::new().then(top_p(1e-9)),
            Chain::new().then(MinP::new(0.3).unwrap()).then(top_k(usize::MAX)).then(allow()),
            Chain::new().then(EpsilonCutoff::new(0.003).unwrap()).then(temperature(1.2)),
            Chain::new().then(top_k(40)).then(EpsilonCutoff::new(0.9).unwrap()),
            Chain::new().then(allow()).then(EtaCutoff::new(0.004).unwrap()).then(top_p(0.9)),
            Chain::new().then(TopA::new(0.4).unwrap()).then(EtaCutoff::new(0.2).unwrap()),
            Chain::new().then(xtc(0.01)).then(TopA::new(0.2).unwrap()),
            Chain::new().then(MinP::new(0.1).unwrap()).then(xtc(0.02)).then(xtc(0.05)).then(temperature(0.8)),
            Chain::new().then(typical(0.3)).then(top_p(0.6)),
            Chain::new().then(like()).then(top_k(30)).then(typical(0.7)).then(typical(1e-9)),
        ];
        same_draws(&gpu, &rows, &chains, if size > 1000 { 4 } else { 40 });
    }
}

/// Samples each row with each chain on the GPU and on the CPU.
fn same_draws(gpu: &Gpu, rows: &[Vec<f32>], chains: &[Chain], draws: usize) {
    let size = rows[0].len();
    let logits = gpu.upload_numbers(&rows.concat()).unwrap();
    let steps: Vec<Steps> = chains.iter().map(|chain| recorded(chain, size)).collect();
    let (mut expected, mut items) = (Vec::new(), Vec::new());
    for (i, (chain, steps)) in chains.iter().zip(&steps).enumerate() {
        for draw in 0..draws {
            let (row, number) = (draw % rows.len(), Random::new(i as u64).uniform(draw as u64, Purpose::Token));
            let sampler = if draw == 3 { Sampler::Greedy } else { Sampler::Categorical };
            let mut here = Row::from(rows[row].clone());
            chain.apply(&state(chain), &mut here);
            expected.push(sampler.sample(&here, number));
            items.push(DrawItem { row, steps, sampler, number });
        }
    }
    let mut drawer = Drawer::new(gpu, size).unwrap();
    let got = drawer.draw(gpu, &logits, &items).unwrap();
    for (i, ((item, got), expected)) in items.iter().zip(&got).zip(&expected).enumerate() {
        let what = format!("{size}: {:?} of row {} by {}", item.steps.steps(), item.row, item.number);
        assert_eq!(got, expected, "{what}");
        // Alone, a row is shared by more blocks.
        if size > 1000 && i % 7 == 0 {
            assert_eq!(drawer.draw(gpu, &logits, &items[i..=i]).unwrap(), [*got], "alone, {what}");
        }
    }
    assert_eq!(numbers(&logits, size), rows[0], "the logits stay");
}

/// The vocabulary of a large model: rows with a few probable tokens, flat ones, many equal logits where a cut falls,
/// and few allowed tokens; cuts that leave a few tokens or most of them.
#[test]
fn draws_of_a_large_vocabulary_are_those_of_the_cpu() {
    const SIZE: usize = 128_256;
    let uniform = |token: usize, seed: u64| Random::new(seed).uniform(token as u64, Purpose::Token) as f32;
    let row = |logit: &dyn Fn(usize) -> f32| (0..SIZE).map(logit).collect::<Vec<f32>>();
    let rows = [
        row(&|token| 14.0 * uniform(token, 1).powi(40) + uniform(token, 2)),
        row(&|token| -90.0 - 9.0 * uniform(token, 3).sqrt()),
        row(&|_| 0.7),
        row(&|token| (22.0 * uniform(token, 4).powi(60)).round() / 2.0),
        row(&|token| if token % 100 == 7 { 20.0 * uniform(token, 5).powi(8) } else { f32::NEG_INFINITY }),
        row(&|token| [-7.25, 3.5, 1.25, 1.25][token % 4] * (1 + token / 100_000) as f32),
    ];
    let (top_k, top_p) = (|k| TopK::new(k).unwrap(), |p| TopP::new(p).unwrap());
    let typical = |p| TypicalP::new(p).unwrap();
    let (min_p, temperature) = (|p| MinP::new(p).unwrap(), |by| Temperature::new(by).unwrap());
    let chains = [
        Chain::new(),
        Chain::new().then(temperature(0.6)),
        Chain::new().then(top_k(50)),
        Chain::new().then(top_p(0.9)),
        Chain::new().then(top_k(50)).then(top_p(0.9)).then(min_p(0.05)),
        Chain::new().then(top_k(64)).then(top_p(0.95)).then(min_p(0.02)).then(temperature(1.5)).then(top_p(0.9)),
        Chain::new().then(top_k(60_000)).then(top_p(0.99)),
        // Probable tokens are far from each other.
        Chain::new().then(temperature(0.02)).then(top_k(300)).then(temperature(40.0)).then(top_k(200)),
        Chain::new().then(min_p(1e-4)).then(top_k(20_000)),
        Chain::new().then(temperature(1.7)).then(top_p(0.97)).then(Marks(some_set(SIZE, 9), Some(2.0))),
        Chain::new().then(EpsilonCutoff::new(3e-4).unwrap()),
        Chain::new().then(EtaCutoff::new(2e-3).unwrap()).then(typical(0.5)),
        Chain::new().then(TopA::new(0.1).unwrap()),
        Chain::new().then(typical(0.9)),
        Chain::new().then(Xtc::new(1.0, 0.05, Random::new(1)).unwrap()).then(top_k(50)),
    ];
    same_draws(&gpu(), &rows, &chains, rows.len());
}

/// A hundred thousand tokens, each with a share of 2e-11, decide whether the second token is kept: they add 2e-6 to the
/// normalizer and 5e-5 to the entropy.
#[test]
fn improbable_tokens_count() {
    let row = |second: f32| [vec![0.0, second], vec![-24.5; 128_254]].concat();
    let rows = [row(-0.693_146_2), row(-std::f32::consts::LN_2)];
    let chains = [
        Chain::new().then(EpsilonCutoff::new(1.0 / 3.0).unwrap()),
        Chain::new().then(EtaCutoff::new(0.396_869).unwrap()),
        Chain::new().then(MinP::new(1e-12).unwrap()).then(EtaCutoff::new(0.396_869).unwrap()),
    ];
    let kept = |chain: &Chain, row: &[f32]| {
        let mut row = Row::from(row.to_vec());
        chain.apply(&state(chain), &mut row);
        row.logits()[1].is_finite()
    };
    assert!(!kept(&chains[0], &rows[0]) && kept(&chains[1], &rows[1]));
    same_draws(&gpu(), &rows, &chains, 12);
}

/// Top-k keeps both zeros, which are equal.
#[test]
fn zeros_of_both_signs_are_equal() {
    let rows = [vec![0.0, -0.0, -1.0, 0.0, -0.0, f32::NEG_INFINITY, -2.0], vec![-0.0, 0.0, 5.0, -0.0, 0.0, -1.0, 0.0]];
    let chains = [1, 2, 3].map(|k| Chain::new().then(TopK::new(k).unwrap()));
    same_draws(&gpu(), &rows, &chains, 60);
}

/// Rows without any allowed token, or with a logit that is NaN or infinity, yield no token.
#[test]
fn what_is_impossible_has_no_token() {
    let gpu = gpu();
    let rows = [
        [f32::NEG_INFINITY; 9],
        [1.0, 2.0, f32::NAN, 3.0, f32::NEG_INFINITY, 1.0, 1.0, 1.0, 1.0],
        [1.0, 2.0, 1.0, 3.0, f32::NEG_INFINITY, 1.0, 1.0, 1.0, f32::INFINITY],
        [f32::NAN; 9],
    ];
    let logits = gpu.upload_numbers(&rows.concat()).unwrap();
    let mut drawer = Drawer::new(&gpu, 9).unwrap();
    let cut = Chain::new().then(TopK::new(2).unwrap()).then(TopP::new(0.5).unwrap()).then(MinP::new(0.4).unwrap());
    let others = Chain::new().then(EtaCutoff::new(0.1).unwrap()).then(TypicalP::new(0.5).unwrap());
    let others = others.then(Xtc::new(1.0, 0.1, Random::new(1)).unwrap());
    let plans = [Steps::default(), recorded(&cut, 9), recorded(&others, 9)];
    let samplers = [Sampler::Greedy, Sampler::Categorical];
    let each = |(steps, row)| samplers.map(|sampler| DrawItem { row, steps, sampler, number: 0.5 });
    let all = plans.iter().flat_map(|steps| (0..rows.len()).map(move |row| (steps, row)));
    let items: Vec<DrawItem<'_>> = all.flat_map(each).collect();
    assert_eq!(drawer.draw(&gpu, &logits, &items).unwrap(), [None; 24]);
}
