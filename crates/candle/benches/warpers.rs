//! The time of the usual warpers per token with 128,256 tokens, compared with candle's `LogitsProcessor`: `cargo bench
//! -p verdigris-candle --bench warpers`. `tests/scripts/warpers-peers.py` runs it, and then measures transformers'
//! processors on the same rows.
//!
//! Rows are like those of a model: most logits are around a mean, some are higher. Each time is for one row on one
//! thread, including sampling and a copy of the row as the model returns it; it is the median of many rows.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use candle_core::{Device, Tensor};
use candle_transformers::generation::{LogitsProcessor, Sampling};
use candle_transformers::utils::apply_repeat_penalty;
use verdigris_logits::warp::{MinP, Temperature, TopK, TopP};
use verdigris_logits::{Chain, Forbid, Purpose, Random, RepetitionPenalty, Row, Sampler, TokenId, TokenSet, Transform};
use verdigris_watermark::{Context, ContextFunction, Embed, Gamma, Native, Strength};

const VOCABULARY: usize = 128_256;
const ROWS: usize = 16;

/// Row number `i`: normal noise with deviation 2.2, and 200 tokens above it. `warpers-peers.py` makes rows of the same
/// kind.
fn row(i: u64) -> Vec<f32> {
    let random = Random::new(i);
    let uniform = |token: usize, purpose| random.uniform(token as u64, purpose);
    let noise = |token: usize| {
        let (a, b) = (1.0 - uniform(token, Purpose::Token), uniform(token, Purpose::Draft));
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    };
    let mut row: Vec<f32> = (0..VOCABULARY).map(|token| 2.2 * noise(token) as f32).collect();
    for rank in 0..200 {
        let token = (uniform(rank, Purpose::Weight) * VOCABULARY as f64) as usize;
        row[token] = 20.0 - 2.0 * (1.0 + rank as f32).ln() + noise(rank) as f32;
    }
    row
}

/// Milliseconds per row.
fn time(rows: &[Vec<f32>], mut work: impl FnMut(&[f32])) -> f64 {
    let mut times: Vec<f64> = (0..40)
        .flat_map(|_| rows)
        .map(|row| {
            let start = Instant::now();
            work(row);
            1e3 * start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> candle_core::Result<()> {
    let rows: Vec<Vec<f32>> = (0..ROWS as u64).map(row).collect();
    let text: Vec<TokenId> = (0..256).map(|i| i * 397 % VOCABULARY as TokenId).collect();
    let penalty = || RepetitionPenalty::new(1.1).expect("a penalty");
    let warm = || Temperature::new(0.8).expect("a temperature");
    let (k, p) = (TopK::new(50).expect("a number"), TopP::new(0.95).expect("a mass"));
    let min = MinP::new(0.05).expect("a share");
    let ours = |chain: Chain| {
        let (state, mut row) = (chain.start(&text), Row::default());
        time(&rows, |logits| {
            row.load(logits);
            chain.apply(&state, &mut row);
            black_box(Sampler::Categorical.sample(&row, 0.5));
        })
    };
    let theirs = |sampling: fn() -> Sampling, penalised: bool| -> candle_core::Result<f64> {
        let mut processor = LogitsProcessor::from_sampling(1, sampling());
        let tensors: Vec<Tensor> =
            rows.iter().map(|row| Tensor::new(&row[..], &Device::Cpu)).collect::<candle_core::Result<_>>()?;
        let mut next = tensors.iter().cycle();
        Ok(time(&rows, |_| {
            let logits = next.next().expect("a row");
            let logits = if penalised { apply_repeat_penalty(logits, 1.1, &text) } else { Ok(logits.clone()) };
            black_box(logits.and_then(|logits| processor.sample(&logits)).expect("a token"));
        }))
    };
    println!("| steps | verdigris, ms | candle, ms |\n|---|--:|--:|");
    let line = |name: &str, ours: f64, theirs: Option<f64>| {
        println!("| {name} | {ours:.3} | {} |", theirs.map_or(String::new(), |ms| format!("{ms:.3}")));
    };
    let all = ours(Chain::new().then(penalty()).then(warm()).then(k).then(p).then(min));
    line("repetition penalty 1.1, temperature .8, top-k 50, top-p .95, min-p .05", all, None);
    let both = theirs(|| Sampling::TopKThenTopP { k: 50, p: 0.95, temperature: 0.8 }, true)?;
    line("the same without min-p", ours(Chain::new().then(penalty()).then(warm()).then(k).then(p)), Some(both));
    let nucleus = theirs(|| Sampling::TopP { p: 0.95, temperature: 0.8 }, false)?;
    line("temperature .8, top-p .95", ours(Chain::new().then(warm()).then(p)), Some(nucleus));
    let free = theirs(|| Sampling::All { temperature: 0.8 }, false)?;
    line("temperature .8", ours(Chain::new().then(warm())), Some(free));
    let marked = || {
        let (gamma, context) =
            (Gamma::new(0.25).expect("a share"), Context::new(ContextFunction::Min, 4).expect("four"));
        Embed::new(Arc::new(Native::new(&[7; 32], "bench", "", gamma, context, VOCABULARY)), Strength::default())
    };
    // Like the mask inside a JSON string.
    let mut mask = TokenSet::full(VOCABULARY);
    (0..VOCABULARY as TokenId)
        .filter(|&token| u64::from(token) * 2_654_435_761 % 1_000 < 100)
        .for_each(|token| mask.remove(token));
    let whole = Chain::new().then(penalty()).then(Forbid::from(mask)).then(marked()).then(warm()).then(p);
    line(
        "repetition penalty 1.1, a mask of nine tenths, a green list of a quarter, temperature .8, top-p .95",
        ours(whole),
        None,
    );
    Ok(())
}
