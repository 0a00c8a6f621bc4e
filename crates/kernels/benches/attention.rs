//! Measures attention over a cache: `cargo bench -p verdigris-kernels --bench attention -- [HEADS/KV_HEADS/HEAD_DIM]
//! [FORMAT] [near] [ROWS@TOKENS]`; the heads are those of SmolLM2-135M, 9/3/64, by default.
//!
//! For each format, number of rows and number of tokens (including those of the rows): milliseconds per call, GFLOP/s
//! (four operations for each element of a key that a row sees), and GB/s (keys and values, once per call). Calls
//! alternate between enough caches that no processor cache holds them, unless `near` is given. Each time is that of the
//! fastest call in a second, since other work on the machine makes calls slower.

use std::time::Instant;

use verdigris_kernels::{AttentionMask, Cached, Format, Heads, attend, threads};

/// The bytes of all caches that calls alternate between, if [`MOST`] are enough for that.
const FAR: usize = 1 << 26;

/// The most caches that calls alternate between.
const MOST: usize = 32;

/// Numbers of rows, and of the tokens that they attend to.
const SIZES: [(usize, usize); 13] = [
    (1, 128),
    (1, 512),
    (1, 2048),
    (1, 8192),
    (1, 32768),
    (4, 2048),
    (8, 2048),
    (16, 2048),
    (16, 32768),
    (64, 2048),
    (512, 512),
    (512, 2048),
    (512, 32768),
];

fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed) % 1009) as f32 / 504.5 - 1.0).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let heads = arguments.iter().find(|argument| argument.contains('/')).map_or("9/3/64", |heads| heads);
    let heads: Vec<usize> = heads.split('/').map(|n| n.parse().expect("heads/kv_heads/head_dim")).collect();
    let [heads, kv_heads, head_dim] = heads[..] else { panic!("heads/kv_heads/head_dim") };
    let shape = Heads { heads, kv_heads, head_dim };
    println!("{shape:?} on {} threads\n", threads());
    println!("| cache | rows | tokens | ms | GFLOP/s | GB/s |\n|---|--:|--:|--:|--:|--:|");
    let formats = [Format::F32, Format::F16, Format::Bf16, Format::Q8_0];
    let named = |format: &Format| arguments.iter().any(|name| *name == format!("{format:?}"));
    let chosen = formats.iter().any(named);
    for format in formats.into_iter().filter(|format| !chosen || named(format)) {
        let only = |(m, t): &(usize, usize)| arguments.contains(&format!("{m}@{t}"));
        let some = SIZES.iter().any(only);
        for (m, t) in SIZES.into_iter().filter(|size| !some || only(size)) {
            let count = t * kv_heads * head_dim;
            let mut bytes = vec![0; format.bytes(count)];
            format.encode(&noise(count, 1), &mut bytes);
            let is_near = arguments.iter().any(|argument| argument == "near");
            let copies = if is_near { 1 } else { (FAR / (2 * bytes.len())).clamp(1, MOST) };
            let caches: Vec<[Vec<u8>; 2]> = (0..copies).map(|_| [bytes.clone(), bytes.clone()]).collect();
            let q = noise(m * heads * head_dim, 2);
            let mut out = vec![0.0; q.len()];
            let scale = 1.0 / (head_dim as f32).sqrt();
            let (begun, mut seconds) = (Instant::now(), f64::INFINITY);
            while begun.elapsed().as_secs_f64() < 1.0 {
                for [k, v] in &caches {
                    let [k, v] = [k, v].map(|bytes| Cached::new(format, bytes));
                    let start = Instant::now();
                    attend(&q, k, v, shape, AttentionMask::default(), scale, &mut out);
                    seconds = start.elapsed().as_secs_f64().min(seconds);
                }
            }
            let seen: usize = (t - m + 1..=t).sum();
            let operations = 4 * heads * head_dim * seen;
            println!(
                "| {format:?} | {m} | {t} | {:.3} | {:.1} | {:.1} |",
                seconds * 1e3,
                operations as f64 / seconds / 1e9,
                (2 * bytes.len()) as f64 / seconds / 1e9
            );
        }
    }
}
