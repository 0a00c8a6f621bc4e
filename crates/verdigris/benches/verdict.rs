//! Benchmarks of detection and generation: `cargo bench -p verdigris-engine`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use verdigris::{Engine, Key, Marking};

fn model(name: &str) -> Engine {
    Engine::load(format!("{}/../../fixtures/models/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Detection on one core, in bytes of text, with and without scoring after tokenization.
fn verdict(c: &mut Criterion) {
    let engine = model("tale-small");
    let text: String = (0..30)
        .map(|seed| engine.request("").max_tokens(1000).through_end().temperature(0.8).top_p(1.0).seed(seed))
        .map(|request| request.text().unwrap().text)
        .collect();
    let key = Key::generate(Marking::lists(), engine.reader().vocabulary());
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut group = c.benchmark_group("verdict");
    group.sample_size(20).throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("text-to-verdict", |b| {
        b.iter(|| one.install(|| engine.reader().detect(&key, black_box(text.as_bytes())).unwrap()));
    });
    group.bench_function("text-to-tokens", |b| {
        b.iter(|| one.install(|| engine.reader().tokenizer().encode(black_box(&text)).unwrap()));
    });
    group.finish();
}

/// Generation of 100 tokens after a short prompt, plain and marked.
fn generation(c: &mut Criterion) {
    let mut group = c.benchmark_group("generate");
    group.sample_size(10);
    for name in ["tale-small", "tale"] {
        let engine = model(name);
        let key = Key::generate(Marking::lists(), engine.reader().vocabulary());
        let request =
            || engine.request("The captain").max_tokens(100).through_end().temperature(1.0).top_p(1.0).seed(1);
        group.throughput(Throughput::Elements(100));
        group.bench_function(format!("{name}/plain"), |b| b.iter(|| request().text().unwrap()));
        group.bench_function(format!("{name}/marked"), |b| b.iter(|| request().watermark(&key).text().unwrap()));
    }
    group.finish();
}

criterion_group!(benches, verdict, generation);
criterion_main!(benches);
