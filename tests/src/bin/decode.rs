//! Measures how fast models read and generate on this CPU: `decode FILE...` (folders or GGUF files).
//!
//! 512 tokens are read at once, and 2,048; then 32 are generated one by one after 128 and after 2,048; the best of
//! three runs each (`RUNS` in the environment). With `SHORT=1` only 512 tokens are read, and generated only after 128.
//! With `BATCHES=1` in the environment it also measures, after 128, the cost of calls with more rows relative to one,
//! and the throughput of several texts together.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use verdigris::models::{Batch, BatchItem, Device, LanguageModel, ModelFolder, Rows, Sequence, Wanted};

fn tokens(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i * 37 % 40_000 + 1).collect()
}

fn best(mut f: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    let runs = std::env::var("RUNS").map_or(3, |runs| runs.parse().expect("RUNS is a number"));
    (0..runs).map(time).fold(f64::INFINITY, f64::min)
}

/// Measures calls with more rows, relative to one.
fn rows_beside_one(sequence: &mut dyn Sequence) {
    let (mut rows, mut one) = (Rows::default(), None);
    for m in [1, 2, 4, 8, 16] {
        let some = tokens(m);
        let seconds = best(|| {
            for _ in 0..8 {
                sequence.forward(&Batch::chain(&some, Wanted::All), &mut rows).expect("there is room");
                sequence.truncate(128);
            }
        }) / 8.0;
        let one = *one.get_or_insert(seconds);
        println!("    {m} rows of a text: {:.1} ms, {:.2} of one", seconds * 1e3, seconds / one);
    }
}

/// Measures the throughput of several texts together, relative to one.
fn sequences_beside_one(model: &Arc<dyn LanguageModel>, beginning: &dyn Sequence) {
    let mut one = None;
    for n in [1, 2, 4, 8, 16] {
        let mut texts: Vec<_> = (0..n).map(|_| (beginning.fork().expect("there is room"), Rows::default())).collect();
        let token = tokens(1);
        let seconds = best(|| {
            for _ in 0..8 {
                let batch = Batch::chain(&token, Wanted::Last);
                let items = texts.iter_mut().map(|(text, rows)| BatchItem { sequence: &mut **text, batch, rows });
                model.forward_each(&mut items.collect::<Vec<_>>()).expect("there is room");
            }
        }) / 8.0;
        let one = *one.get_or_insert(seconds);
        let (rate, ratio) = (n as f64 / seconds, n as f64 * one / seconds);
        println!("    {n} texts: {rate:.1} tokens/s, {ratio:.2} times one");
    }
}

const HEAD: &str =
    "| verdigris | prompt of 512, tokens/s | of 2,048 | writing at 128 | at 2,048 |\n|---|--:|--:|--:|--:|";
const SHORT: &str = "| verdigris | prompt of 512, tokens/s | writing at 128 |\n|---|--:|--:|";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let is_short = std::env::var_os("SHORT").is_some();
    let (lengths, depths): (&[usize], &[usize]) =
        if is_short { (&[512], &[128]) } else { (&[512, 2048], &[128, 2048]) };
    println!("{}", if is_short { SHORT } else { HEAD });
    let shows_batches = std::env::var_os("BATCHES").is_some();
    for path in std::env::args().skip(1) {
        let model = ModelFolder::at(&path).model(&Device::Cpu)?;
        let (mut sequence, mut rows) = (model.clone().begin(2304)?, Rows::default());
        let mut read = |sequence: &mut dyn Sequence, some: &[u32]| {
            sequence.forward(&Batch::chain(some, Wanted::Last), &mut rows).expect("there is room");
        };
        let mut figures = Vec::new();
        for &length in lengths {
            let prompt = tokens(length);
            let seconds = best(|| {
                sequence.truncate(0);
                read(&mut *sequence, &prompt);
            });
            figures.push(length as f64 / seconds);
        }
        let next = tokens(32);
        for &depth in depths {
            sequence.truncate(0);
            tokens(depth).chunks(512).for_each(|some| read(&mut *sequence, some));
            let seconds = best(|| {
                sequence.truncate(depth);
                next.iter().for_each(|&token| read(&mut *sequence, &[token]));
            });
            figures.push(32.0 / seconds);
        }
        let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
        let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
        println!("| {name} | {} |", figures.join(" | "));
        if shows_batches {
            sequence.truncate(128);
            rows_beside_one(&mut *sequence);
            sequences_beside_one(&model, &*sequence);
        }
    }
    Ok(())
}
