//! Speed of lists, memberships and detection: `cargo bench -p verdigris-watermark`.
//!
//! Results, and those of other systems, are in `docs/watermark.md`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use verdigris_logits::random::philox4x32;
use verdigris_logits::{Row, TokenId, TokenSet};
use verdigris_watermark::dialects::hugging_face::{Seeding, hugging_face};
use verdigris_watermark::dialects::kgw::{DEFAULT_HASH_KEY, kgw};
use verdigris_watermark::dialects::native_gumbel::native_gumbel;
use verdigris_watermark::dialects::sbw::{self, sbw};
use verdigris_watermark::dialects::sglang::sglang;
use verdigris_watermark::dialects::synthid::{Bits, Score, SynthId};
use verdigris_watermark::dialects::vllm::vllm;
use verdigris_watermark::windows::passages;
use verdigris_watermark::{Context, ContextFunction, Detector, Gamma, Native, Scheme, Strength};

const VOCABULARIES: [usize; 3] = [32_000, 128_256, 256_000];

fn native(function: ContextFunction, width: usize, vocabulary: usize) -> Native {
    Native::new(&[7; 32], "bench", "", Gamma::new(0.25).unwrap(), Context::new(function, width).unwrap(), vocabulary)
}

fn text(n: u32, vocabulary: usize) -> Vec<TokenId> {
    (0..n).map(|i| philox4x32([i, 0, 0, 0], [1, 0])[0] % vocabulary as u32).collect()
}

fn simple_1(vocabulary: usize) -> impl Scheme {
    kgw(DEFAULT_HASH_KEY, "simple_1".parse().unwrap(), 0.25, vocabulary).unwrap()
}

fn synthid(bits: Bits, vocabulary: usize) -> SynthId {
    let keys: [i64; 30] = std::array::from_fn(|i| 7 + i as i64);
    SynthId::new(&keys, bits, 5, Score::Mean, vocabulary).unwrap()
}

fn gumbel(vocabulary: usize) -> impl Scheme {
    native_gumbel(&[1; 32], "", "", Context::new(ContextFunction::All, 4).unwrap(), vocabulary).unwrap()
}

fn flips(seeding: sbw::Seeding, vocabulary: usize) -> impl Scheme {
    sbw(DEFAULT_HASH_KEY, seeding, 0.25, vocabulary).unwrap()
}

fn masks(c: &mut Criterion) {
    let mut group = c.benchmark_group("mask");
    for vocabulary in VOCABULARIES {
        let mut green = TokenSet::new(vocabulary);
        let context = [17, 18, 19, 20];
        for (name, function, width) in [
            ("all-1", ContextFunction::All, 1),
            ("min-4", ContextFunction::Min, 4),
            ("self-salted-4", ContextFunction::SelfSalted, 4),
        ] {
            let scheme = native(function, width, vocabulary);
            group.bench_function(format!("native-{name}/{vocabulary}"), |b| {
                b.iter(|| scheme.green_list(black_box(&context[..width]), &mut green));
            });
        }
    }
    group.finish();
}

/// A whole step on a row of logits: the cost per token for a writer. `support` of the tokens are allowed.
fn marks(c: &mut Criterion) {
    let mut group = c.benchmark_group("mark");
    let context = [17, 18, 19, 20];
    for vocabulary in VOCABULARIES {
        let mut bench = |name: &str, scheme: &dyn Scheme, support: usize| {
            let logits: Vec<f32> = text(vocabulary as u32, 1 << 20).iter().map(|&x| x as f32 / 1e5).collect();
            let mut row = Row::from(logits);
            row.with_best(support, |_, _| ());
            let allowed: Vec<f32> = row.with_best(support, |best, logits| {
                let mut allowed = vec![f32::NEG_INFINITY; logits.len()];
                best.iter().for_each(|&t| allowed[t as usize] = logits[t as usize]);
                allowed
            });
            let context = &context[..scheme.context_width()];
            group.bench_function(format!("{name}/{vocabulary}"), |b| {
                b.iter(|| {
                    row.load(&allowed);
                    scheme.mark(black_box(context), Strength::default(), &mut row);
                });
            });
        };
        bench("load-the-row-alone", &gumbel(vocabulary), 1);
        bench("native-min-4", &native(ContextFunction::Min, 4, vocabulary), vocabulary);
        bench("kgw-simple-1", &simple_1(vocabulary), vocabulary);
        bench(
            "kgw-selfhash-41",
            &kgw(DEFAULT_HASH_KEY, "selfhash".parse().unwrap(), 0.25, vocabulary).unwrap(),
            vocabulary,
        );
        bench(
            "hugging-face-selfhash-40",
            &hugging_face(DEFAULT_HASH_KEY, Seeding::SelfHash, 4, 0.25, vocabulary).unwrap(),
            vocabulary,
        );
        bench("sbw-simple-4-all", &flips(sbw::Seeding::Simple4, vocabulary), vocabulary);
        bench("synthid-table-30-on-40", &synthid(Bits::Table, vocabulary), 40);
        bench("synthid-hash-30-on-40", &synthid(Bits::Hash, vocabulary), 40);
        bench("native-gumbel-on-64", &gumbel(vocabulary), 64);
        bench("vllm-on-64", &vllm(42, 4, vocabulary), 64);
    }
    group.finish();
}

/// The step of a Gumbel scheme without the cost of a large row: the candidates are the whole vocabulary.
fn candidates(c: &mut Criterion) {
    let mut group = c.benchmark_group("candidates");
    let mut bench = |name: &str, scheme: &dyn Scheme| {
        let vocabulary = scheme.vocabulary_size();
        let logits: Vec<f32> = text(vocabulary as u32, 1 << 20).iter().map(|&x| x as f32 / 1e5).collect();
        let context: Vec<TokenId> = (0..scheme.context_width() as TokenId).collect();
        let mut row = Row::default();
        group.bench_function(name, |b| {
            b.iter(|| {
                row.load(&logits);
                scheme.mark(black_box(&context), Strength::default(), &mut row);
            });
        });
    };
    bench("synthid-table-30/40", &synthid(Bits::Table, 40));
    bench("synthid-hash-30/40", &synthid(Bits::Hash, 40));
    bench("native-gumbel/64", &gumbel(64));
    bench("native-gumbel/128256", &gumbel(128_256));
    bench("vllm/64", &vllm(42, 4, 64));
    bench("sglang/64", &sglang(42, 4, 64));
    group.finish();
}

/// One token at a time, as in a server.
fn memberships(c: &mut Criterion) {
    let mut group = c.benchmark_group("membership");
    let vocabulary = 128_256;
    let tokens = text(5, vocabulary);
    let mut bench = |name: &str, scheme: &dyn Scheme| {
        let window = &tokens[..=scheme.context_width()];
        let mut observations = Vec::with_capacity(1);
        group.bench_function(name, |b| {
            b.iter(|| {
                observations.clear();
                scheme.observe(black_box(window), &mut observations);
                observations[0]
            });
        });
    };
    bench("native-all-1", &native(ContextFunction::All, 1, vocabulary));
    bench("native-min-4", &native(ContextFunction::Min, 4, vocabulary));
    bench("kgw-simple-1", &simple_1(vocabulary));
    group.finish();
}

/// Computing the evidence of tokens on one core.
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
    bench("native-min-4/10k", Arc::new(native(ContextFunction::Min, 4, 128_256)), 10_000);
    bench("vllm/10k", Arc::new(vllm(42, 4, 128_256)), 10_000);
    bench("sglang/10k", Arc::new(sglang(42, 4, 128_256)), 10_000);
    bench("sbw-simple-4/10k", Arc::new(flips(sbw::Seeding::Simple4, 128_256)), 10_000);
    bench("native-min-4/1M", Arc::new(native(ContextFunction::Min, 4, 128_256)), 1_000_000);
    bench("native-self-salted-4/1M", Arc::new(native(ContextFunction::SelfSalted, 4, 128_256)), 1_000_000);
    bench("native-gumbel-4/1M", Arc::new(gumbel(128_256)), 1_000_000);
    bench("vllm/1M", Arc::new(vllm(42, 4, 128_256)), 1_000_000);
    bench("sglang/1M", Arc::new(sglang(42, 4, 128_256)), 1_000_000);
    bench("sbw-simple-4/1M", Arc::new(flips(sbw::Seeding::Simple4, 128_256)), 1_000_000);
    bench("sbw-selfhash/1M", Arc::new(flips(sbw::Seeding::SelfHash, 128_256)), 1_000_000);
    bench("synthid-table-30/100k", Arc::new(synthid(Bits::Table, 128_256)), 100_000);
    bench("kgw-simple-1/32k-vocabulary", Arc::new(simple_1(32_000)), 10_000);
    bench("kgw-simple-1/128k-vocabulary", Arc::new(simple_1(128_256)), 2_000);
    group.finish();
}

/// Finding passages in a document of a million tokens whose observations are known.
fn windows(c: &mut Criterion) {
    let scheme: Arc<dyn Scheme> = Arc::new(native(ContextFunction::All, 1, 128_256));
    let mut detector = Detector::new(scheme).recording();
    detector.push(&text(1_000_000, 128_256));
    let mut group = c.benchmark_group("windows");
    group.sample_size(10).throughput(Throughput::Elements(1_000_000));
    group.bench_function("passages/1M", |b| {
        b.iter(|| passages(detector.distribution(), black_box(detector.record()), 1e-5));
    });
    group.finish();
}

criterion_group!(benches, masks, marks, candidates, memberships, detection, windows);
criterion_main!(benches);
