//! Speed of lists, memberships and detection: `cargo bench -p verdigris-watermark`.
//!
//! Figures, and those of other systems beside them, are in `docs/watermark.md`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use verdigris_logits::random::philox4x32;
use verdigris_logits::{TokenId, TokenSet};
use verdigris_watermark::{Context, ContextFunction, Detector, Gamma, KgwSimple1, Native, Scheme};

const VOCABULARIES: [usize; 3] = [32_000, 128_256, 256_000];

fn native(function: ContextFunction, width: usize, vocabulary: usize) -> Native {
    Native::new(&[7; 32], "bench", "", Gamma::new(0.25).unwrap(), Context { function, width }, vocabulary).unwrap()
}

fn text(n: u32, vocabulary: usize) -> Vec<TokenId> {
    (0..n).map(|i| philox4x32([i, 0, 0, 0], [1, 0])[0] % vocabulary as u32).collect()
}

fn masks(c: &mut Criterion) {
    let mut group = c.benchmark_group("mask");
    for vocabulary in VOCABULARIES {
        let mut green = TokenSet::new(vocabulary);
        let context = [17, 18, 19, 20];
        let mut bench = |name: &str, scheme: &dyn Scheme| {
            let context = &context[..scheme.context_width()];
            group.bench_function(format!("{name}/{vocabulary}"), |b| {
                b.iter(|| scheme.green_list(black_box(context), &mut green));
            });
        };
        bench("native-all-1", &native(ContextFunction::All, 1, vocabulary));
        bench("native-min-4", &native(ContextFunction::Min, 4, vocabulary));
        bench("native-self-salted-4", &native(ContextFunction::SelfSalted, 4, vocabulary));
        bench("kgw-simple-1", &KgwSimple1::new(15_485_863, 0.25, vocabulary).unwrap());
    }
    group.finish();
}

/// One token at a time, as a server would ask.
fn memberships(c: &mut Criterion) {
    let mut group = c.benchmark_group("membership");
    let vocabulary = 128_256;
    let tokens = text(5, vocabulary);
    let mut bench = |name: &str, scheme: &dyn Scheme| {
        let window = &tokens[..=scheme.context_width()];
        let mut draws = Vec::with_capacity(1);
        group.bench_function(name, |b| {
            b.iter(|| {
                draws.clear();
                scheme.draws(black_box(window), &mut draws);
                draws[0]
            });
        });
    };
    bench("native-all-1", &native(ContextFunction::All, 1, vocabulary));
    bench("native-min-4", &native(ContextFunction::Min, 4, vocabulary));
    bench("kgw-simple-1", &KgwSimple1::new(15_485_863, 0.25, vocabulary).unwrap());
    group.finish();
}

/// Tokens to evidence on one core.
fn detection(c: &mut Criterion) {
    let mut group = c.benchmark_group("detect");
    group.sample_size(10);
    let mut bench = |name: &str, scheme: Arc<dyn Scheme>, n: u32| {
        let tokens = text(n, scheme.vocabulary_size());
        group.throughput(Throughput::Elements(u64::from(n)));
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut detector = Detector::new(scheme.clone());
                tokens.chunks(4096).for_each(|piece| _ = detector.push(black_box(piece)));
                detector.evidence()
            });
        });
    };
    bench("native-all-1/10k", Arc::new(native(ContextFunction::All, 1, 128_256)), 10_000);
    bench("native-all-1/1M", Arc::new(native(ContextFunction::All, 1, 128_256)), 1_000_000);
    bench("native-min-4/1M", Arc::new(native(ContextFunction::Min, 4, 128_256)), 1_000_000);
    bench("native-self-salted-4/1M", Arc::new(native(ContextFunction::SelfSalted, 4, 128_256)), 1_000_000);
    bench("kgw-simple-1/32k-vocabulary", Arc::new(KgwSimple1::new(15_485_863, 0.25, 32_000).unwrap()), 10_000);
    bench("kgw-simple-1/128k-vocabulary", Arc::new(KgwSimple1::new(15_485_863, 0.25, 128_256).unwrap()), 2_000);
    group.finish();
}

criterion_group!(benches, masks, memberships, detection);
criterion_main!(benches);
