//! The cost of a product with few rows: the share of the memory's bandwidth with one row, the cost of more rows
//! relative to one, the speed with the 512 rows of a prompt, the same without tiles on CPUs that have them (AMX), and
//! candle's products in the same run. `cargo bench -p verdigris-train --bench linear -- [MEGABYTES] [FORMAT]`; with a
//! format, candle is not measured.
//!
//! A matrix has 4,096 columns and the given size (128 MB by default), so that no second-level cache holds it; for
//! prompts it is an eighth of that. Each time is the best of seven.

use std::hint::black_box;
use std::time::Instant;

use candle_core::quantized::{GgmlDType, QMatMul, QTensor};
use candle_core::{DType, Device, Module, Tensor};
use rayon::prelude::*;
use verdigris_kernels::{Format, Weights, allow_tiles, linear, threads};

const K: usize = 4096;
const ROWS: [usize; 7] = [1, 2, 3, 4, 5, 8, 16];
const PROMPT: usize = 512;

fn best(mut f: impl FnMut()) -> f64 {
    f();
    let time = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..7).map(time).fold(f64::INFINITY, f64::min)
}

/// Bytes that are valid weights in every format, without denormal or infinite numbers.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| 0x20 + (i % 29) as u8).collect()
}

/// Prints a row of the table; `prompt` is in GFLOP/s.
fn row(name: &str, gigabytes: Option<f64>, share: Option<f64>, times: &[f64], prompt: f64) {
    let number = |x: Option<f64>, unit: &str| x.map_or("".to_owned(), |x| format!("{x:.1}{unit}"));
    print!("| {name} | {} | {} |", number(gigabytes, ""), number(share.map(|share| 100.0 * share), " %"));
    times.iter().for_each(|time| print!(" {:.2} |", time * 1e3));
    times[1..].iter().for_each(|time| print!(" {:.2} |", time / times[0]));
    println!(" {prompt:.0} |");
}

/// The operations of a prompt's product with `n` columns, in thousands of millions.
fn flops(n: usize) -> f64 {
    2.0 * (PROMPT * n * K) as f64 / 1e9
}

fn main() -> candle_core::Result<()> {
    let megabytes = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(128);
    let size = megabytes << 20;
    let memory = bytes(size);
    let sum = |chunk: &[u8]| {
        let mut sums = [0u64; 64];
        for words in chunk.as_chunks::<512>().0 {
            let words = words.as_chunks::<8>().0;
            sums.iter_mut().zip(words).for_each(|(sum, &word)| *sum = sum.wrapping_add(u64::from_le_bytes(word)));
        }
        sums.into_iter().fold(0, u64::wrapping_add)
    };
    let read = best(|| {
        black_box(memory.par_chunks(1 << 20).map(sum).reduce(|| 0, u64::wrapping_add));
    });
    let bandwidth = size as f64 / read / 1e9;
    println!("{} threads read {megabytes} MB at {bandwidth:.1} GB/s\n", threads());
    print!("| weights | GB/s | of reading |");
    ROWS.iter().for_each(|m| print!(" ms, m = {m} |"));
    ROWS[1..].iter().for_each(|m| print!(" v({m}) |"));
    println!(" GFLOP/s, m = {PROMPT} |\n|---|{}", "--:|".repeat(2 * ROWS.len() + 2));
    let only = std::env::args().skip(1).find(|name| Format::ALL.iter().any(|format| format!("{format:?}") == *name));
    for format in Format::ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{format:?}")) {
            continue;
        }
        let n = size / format.bytes(K);
        let w = Weights::new(format, &memory[..n * format.bytes(K)], K);
        let x: Vec<f32> = (0..PROMPT * K).map(|i| (i as f32).sin()).collect();
        let some = Weights::new(format, &memory[..n / 8 * format.bytes(K)], K);
        let mut out = vec![0.0; (16 * n).max(PROMPT * some.rows())];
        let has_tiles = allow_tiles(true);
        let uses_tiles = format == Format::Bf16 || format.block() > 1;
        for tiles in [true, false].into_iter().filter(|tiles| *tiles || has_tiles && uses_tiles) {
            allow_tiles(tiles);
            let times = ROWS.map(|m| best(|| linear(&x[..m * K], w, &mut out[..m * n])));
            let speed = (n * format.bytes(K)) as f64 / times[0] / 1e9;
            let prompt = best(|| linear(&x, some, &mut out[..PROMPT * some.rows()]));
            let name = format!("{format:?}{}", if tiles { "" } else { " without tiles" });
            row(&name, Some(speed), Some(speed / bandwidth), &times, flops(some.rows()) / prompt);
        }
        allow_tiles(true);
    }
    if only.is_some() {
        return Ok(());
    }
    let x = Tensor::randn(0f32, 1.0, (PROMPT, K), &Device::Cpu)?;
    for kind in [DType::F32, DType::F16, DType::BF16] {
        let n = size / 8 / (kind.size_in_bytes() * K);
        let w = Tensor::randn(0f32, 1.0, (n, K), &Device::Cpu)?.to_dtype(kind)?.t()?;
        let x = x.to_dtype(kind)?;
        let time = |m| best(|| drop(black_box(x.narrow(0, 0, m).and_then(|x| x.matmul(&w)))));
        row(&format!("candle {kind:?}, of an eighth"), None, None, &ROWS.map(time), flops(n) / time(PROMPT));
    }
    for kind in [GgmlDType::Q8_0, GgmlDType::Q4_0, GgmlDType::Q4K, GgmlDType::Q6K] {
        let n = size / 8 / (kind.type_size() * K / kind.block_size());
        let w = QTensor::quantize(&Tensor::randn(0f32, 1.0, (n, K), &Device::Cpu)?, kind)?;
        let w = QMatMul::from_qtensor(w)?;
        let time = |m| best(|| drop(black_box(x.narrow(0, 0, m).and_then(|x| w.forward(&x)))));
        row(&format!("candle {kind:?}, of an eighth"), None, None, &ROWS.map(time), flops(n) / time(PROMPT));
    }
    Ok(())
}
