use super::*;
use crate::format::{self, Format};
use crate::weights::Weights;
use std::sync::Arc;
use verdigris_logits::{Purpose, Random};

fn noise(n: usize, seed: u64) -> Vec<f32> {
    (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 4.0 - 2.0).collect()
}

/// Numbers in a format.
fn stored(format: Format, numbers: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; format.bytes(numbers.len())];
    format.encode(numbers, &mut bytes);
    bytes
}

fn attended(q: &[f32], [k, v]: [Cached<'_>; 2], shape: Heads, mask: AttentionMask<'_>, scale: f32) -> Vec<f32> {
    let mut out = vec![f32::NAN; q.len()];
    attend(q, k, v, shape, mask, scale, &mut out);
    out
}

fn exact(q: &[f32], k: &[f32], v: &[f32], shape: Heads, sees: impl Fn(usize, usize) -> bool, scale: f32) -> Vec<f64> {
    let Heads { heads, kv_heads, head_dim } = shape;
    let (m, t) = (q.len() / heads / head_dim, k.len() / kv_heads / head_dim);
    let mut out = vec![0.0; q.len()];
    for r in 0..m {
        for h in 0..heads {
            let kv = |j: usize, d: usize| (j * kv_heads + h * kv_heads / heads) * head_dim + d;
            let weight: Vec<f64> = (0..t)
                .map(|j| {
                    let dot: f64 = (0..head_dim)
                        .map(|d| f64::from(q[(r * heads + h) * head_dim + d]) * f64::from(k[kv(j, d)]))
                        .sum();
                    if sees(r, j) { (dot * f64::from(scale)).exp() } else { 0.0 }
                })
                .collect();
            let total: f64 = weight.iter().sum();
            for d in 0..head_dim {
                out[(r * heads + h) * head_dim + d] = (0..t).map(|j| weight[j] / total * f64::from(v[kv(j, d)])).sum();
            }
        }
    }
    out
}

fn close(got: &[f32], expected: &[f64]) {
    for (got, expected) in got.iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 2e-6, "{got} {expected}");
    }
}

/// Small enough for Miri: a chain and a tree in pages, on several threads.
#[test]
fn in_small() {
    let (shape, m, t) = (Heads { heads: 4, kv_heads: 2, head_dim: 5 }, 3, 7);
    let (q, k, v) = (noise(m * 20, 1), noise(t * 10, 2), noise(t * 10, 3));
    let pages = |x: &[f32]| -> Vec<Arc<Vec<u8>>> {
        let mut bytes = format::bytes(x).to_vec();
        bytes.resize(8 * 40, 0);
        bytes.chunks(2 * 40).map(|page| Arc::new(page.to_vec())).collect()
    };
    let [keys, values] = [pages(&k), pages(&v)];
    let tree = [true, false, false, true, true, false, true, false, true];
    for visible in [None, Some(&tree[..])] {
        let cached = [&keys, &values].map(|pages| Cached::paged(Format::F32, t * 40, pages, 0, 80));
        let out = attended(&q, cached, shape, AttentionMask { visible, ..AttentionMask::default() }, 0.3);
        let sees =
            |r: usize, j: usize| j < t - m || visible.map_or(j <= t - m + r, |visible| visible[r * m + j - (t - m)]);
        close(&out, &exact(&q, &k, &v, shape, sees, 0.3));
    }
}

#[test]
fn equals_the_definition_in_f64() {
    for shape in [
        Heads { heads: 4, kv_heads: 2, head_dim: 32 },
        Heads { heads: 3, kv_heads: 3, head_dim: 5 },
        Heads { heads: 4, kv_heads: 1, head_dim: 20 },
    ] {
        for (m, t) in [(1, 1), (1, 40), (5, 5), (5, 33), (1, BLOCK), (3, 2 * BLOCK + 1), (70, BLOCK + 70)] {
            let q = noise(m * shape.heads * shape.head_dim, 1);
            let k = noise(t * shape.kv_heads * shape.head_dim, 2);
            let v = noise(k.len(), 3);
            let cached = [&k, &v].map(|numbers| Cached::of(numbers));
            let out = attended(&q, cached, shape, AttentionMask::default(), 0.3);
            close(&out, &exact(&q, &k, &v, shape, |r, j| j <= t - m + r, 0.3));
            let visible: Vec<bool> = (0..m * m).map(|i| i / m == i % m || (i * 7) % 3 == 0).collect();
            let mask = AttentionMask { visible: Some(&visible), ..AttentionMask::default() };
            let sees = |r: usize, j: usize| j < t - m || visible[r * m + j - (t - m)];
            close(&attended(&q, cached, shape, mask, 0.3), &exact(&q, &k, &v, shape, sees, 0.3));
        }
    }
}

/// Values that are the beginnings of keys: those of the definition, in every cache format, in pages, and with the bits
/// of values that are stored by themselves.
#[test]
fn values_may_be_the_first_elements_of_keys() {
    for (heads, kv_heads, head_dim, first) in
        [(6usize, 1usize, 96usize, 64usize), (8, 1, 24, 16), (4, 2, 45, 7), (20, 1, 40, 40)]
    {
        let shape = Heads { heads, kv_heads, head_dim };
        for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0] {
            if !(head_dim.is_multiple_of(format.block()) && first.is_multiple_of(format.block())) {
                continue;
            }
            for (m, t) in [(1, 1), (1, 70), (5, 33), (40, BLOCK + 70)] {
                let (q, of_key) = (noise(m * heads * head_dim, 1), kv_heads * head_dim);
                let keys = stored(format, &noise(t * of_key, 2));
                let mut numbers = vec![0.0; t * of_key];
                Weights::new(format, &keys, t * of_key).decode(0, &mut numbers);
                // Whole values: what is behind the first elements changes nothing in them.
                let mut values = numbers.clone();
                values.chunks_mut(head_dim).for_each(|head| head[first..].fill(9.0));
                let sees = |r: usize, j: usize| j <= t - m + r;
                let whole = exact(&q, &numbers, &values, shape, sees, 0.1);
                let part = |all: &[f64]| all.chunks(head_dim).flat_map(|head| &head[..first]).copied().collect();
                let expected: Vec<f64> = part(&whole);
                let page = 7 * format.bytes(of_key);
                let page_of = |some: &[u8]| Arc::new([some, &vec![0xFF; page - some.len()]].concat());
                let pages: Vec<_> = keys.chunks(page).map(page_of).collect();
                let paged = Cached::paged(format, keys.len(), &pages, 0, page);
                for cached in [Cached::new(format, &keys), paged] {
                    let mut out = vec![f32::NAN; m * heads * first];
                    attend(&q, cached, cached.first(first), shape, AttentionMask::default(), 0.1, &mut out);
                    close(&out, &expected);
                    let mut alone = vec![f32::NAN; heads * first];
                    let last = &q[(m - 1) * heads * head_dim..];
                    attend(last, cached, cached.first(first), shape, AttentionMask::default(), 0.1, &mut alone);
                    assert_eq!(alone, out[(m - 1) * heads * first..], "{shape:?} {format:?} {m} of {t}");
                }
            }
        }
    }
}

/// Every cache format gives the result of its decoded numbers.
#[test]
fn caches_are_read_as_they_are_stored() {
    let shape = Heads { heads: 4, kv_heads: 2, head_dim: 64 };
    let (m, t) = (3, 50);
    let (q, k, v) = (noise(m * 256, 1), noise(t * 128, 2), noise(t * 128, 3));
    let all = |format, stored: [&[u8]; 2]| {
        attended(&q, stored.map(|bytes| Cached::new(format, bytes)), shape, AttentionMask::default(), 0.1)
    };
    for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0] {
        let stored = [&k, &v].map(|numbers| stored(format, numbers));
        let numbers = [&stored[0], &stored[1]].map(|bytes| {
            let mut numbers = vec![0.0; k.len()];
            Weights::new(format, bytes, k.len()).decode(0, &mut numbers);
            numbers
        });
        let got = all(format, [&stored[0], &stored[1]]);
        close(&got, &exact(&q, &numbers[0], &numbers[1], shape, |r, j| j <= t - m + r, 0.1));
        let as_numbers = all(Format::F32, [format::bytes(&numbers[0]), format::bytes(&numbers[1])]);
        assert_eq!(got, as_numbers, "{format:?}");
    }
}

#[test]
fn windows_slopes_and_caps_are_those_of_the_definition() {
    for t in [21, 2 * BLOCK + 2, 3 * BLOCK + 9] {
        windows_slopes_and_caps(t);
    }
}

fn windows_slopes_and_caps(t: usize) {
    let shape = Heads { heads: 4, kv_heads: 2, head_dim: 32 };
    let m = 4;
    let (q, k, v) = (noise(m * 128, 1), noise(t * 64, 2), noise(t * 64, 3));
    let held = t - m;
    // A tree: the last two are siblings.
    let positions = [0, 1, 2, 2].map(|depth| (held + depth) as u32);
    let visible: Vec<bool> = (0..16).map(|i| i % 4 <= i / 4 && i != 14).collect();
    let position = |j: usize| if j < held { j as f64 } else { f64::from(positions[j - held]) };
    // The last is far above all scores, and overflows: nothing is left of the values.
    let sinks = [0.5f32, -3.0, 4.0, 200.0];
    for (window, slopes, cap, sinks) in [
        (Some(5), None, None, None),
        (Some(BLOCK), None, None, None),
        (None, Some([0.5f32, 0.25, 0.125, 1.0]), None, None),
        (None, None, Some(0.4f32), None),
        (Some(7), Some([0.1, 0.2, 0.3, 0.4]), Some(1.5), None),
        (None, None, None, Some(&sinks[..])),
        (Some(5), None, None, Some(&sinks[..])),
    ] {
        let mask = AttentionMask {
            visible: Some(&visible),
            positions: &positions,
            window,
            slopes: slopes.as_ref().map(|s| &s[..]),
            cap,
            sinks,
        };
        let out = attended(&q, [&k, &v].map(|numbers| Cached::of(numbers)), shape, mask, 0.3);
        for r in 0..m {
            for h in 0..4 {
                let weight = |j: usize| {
                    let back = position(held + r) - position(j);
                    let sees = j < held || visible[r * m + j - held];
                    if !sees || window.is_some_and(|window| back >= window as f64) {
                        return 0.0;
                    }
                    let dot: f64 = (0..32)
                        .map(|d| f64::from(q[(r * 4 + h) * 32 + d]) * f64::from(k[(j * 2 + h / 2) * 32 + d]))
                        .sum();
                    let score = dot * f64::from(0.3f32);
                    let score = cap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
                    (score - slopes.map_or(0.0, |slopes| f64::from(slopes[h]) * back)).exp()
                };
                let of_sink = sinks.map_or(0.0, |sinks| f64::from(sinks[h]).exp());
                let total: f64 = (0..t).map(weight).sum::<f64>() + of_sink;
                for d in 0..32 {
                    let mixed: f64 = (0..t).map(|j| weight(j) / total * f64::from(v[(j * 2 + h / 2) * 32 + d])).sum();
                    assert!(
                        (f64::from(out[(r * 4 + h) * 32 + d]) - mixed).abs() < 2e-6,
                        "{window:?} {slopes:?} {cap:?} {sinks:?}"
                    );
                }
            }
        }
    }
}

/// Hidden keys change no bit of a row: within one block of keys, and where a branch has its keys in other blocks than
/// when computed alone.
#[test]
fn a_branch_has_the_bits_that_it_has_alone() {
    let shape = Heads { heads: 4, kv_heads: 2, head_dim: 32 };
    for held in [0, 37, BLOCK - 5, BLOCK - 4, BLOCK - 2, BLOCK - 1, BLOCK, 2 * BLOCK - 3] {
        let (q, k, v) = (noise(5 * 128, 1), noise((held + 5) * 64, 2), noise((held + 5) * 64, 3));
        // Two tokens of one branch, then three of another.
        let visible: Vec<bool> = (0..25).map(|i| (i / 5 < 2) == (i % 5 < 2) && i % 5 <= i / 5).collect();
        let positions: Vec<u32> = [0, 1, 0, 1, 2].map(|depth| (held + depth) as u32).to_vec();
        for (window, slopes) in [(None, None), (Some(3), None), (Some(100), Some(&[0.5f32, 0.25, 0.125, 1.0][..]))] {
            let mask = AttentionMask {
                visible: Some(&visible),
                positions: &positions,
                window,
                slopes,
                ..AttentionMask::default()
            };
            let tree = attended(&q, [&k, &v].map(|numbers| Cached::of(numbers)), shape, mask, 0.2);
            let without = |all: &[f32]| [&all[..held * 64], &all[(held + 2) * 64..]].concat();
            let mask = AttentionMask { visible: None, positions: &positions[2..], ..mask };
            let (k, v) = (without(&k), without(&v));
            let branch = attended(&q[256..], [Cached::of(&k), Cached::of(&v)], shape, mask, 0.2);
            assert_eq!(tree[256..], branch, "after {held}, {window:?} {slopes:?}");
        }
    }
}

/// Pages of any length, with other bytes before and after the data in each.
#[test]
fn pages_change_no_bit() {
    let heads_of = |head_dim| Heads { heads: 6, kv_heads: 2, head_dim };
    for (shape, m) in [(heads_of(40), 3), (heads_of(64), 3), (heads_of(64), 1)] {
        in_pages(shape, m);
    }
}

fn in_pages(shape: Heads, m: usize) {
    let (t, of_q, of_k) = (BLOCK + 50, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
    let (q, k, v) = (noise(m * of_q, 1), noise(t * of_k, 2), noise(t * of_k, 3));
    for format in [Format::F32, Format::F16] {
        let stored = [&k, &v].map(|numbers| stored(format, numbers));
        let cached = [0, 1].map(|i: usize| Cached::new(format, &stored[i]));
        let whole = attended(&q, cached, shape, AttentionMask::default(), 0.2);
        for page in [1, 4, 7, 16, 49, 50, 64, BLOCK, t - 1, t, t + 20] {
            let bytes = page * format.bytes(of_k);
            let paged = [0, 1].map(|i: usize| {
                let around = |some: &[u8]| {
                    let mut all = vec![0xA5; 12 + bytes + 8];
                    all[12..12 + some.len()].copy_from_slice(some);
                    Arc::new(all)
                };
                stored[i].chunks(bytes).map(around).collect::<Vec<_>>()
            });
            let cached = [0, 1].map(|i: usize| Cached::paged(format, stored[i].len(), &paged[i], 12, bytes));
            let got = attended(&q, cached, shape, AttentionMask::default(), 0.2);
            assert_eq!(got, whole, "{format:?} in pages of {page}");
        }
    }
}

/// One row at a time, all at once, with an explicit causal mask, with less SIMD or none, and on any number of threads.
#[test]
fn rows_have_the_same_bits_together_and_alone() {
    let shapes = [Heads { heads: 8, kv_heads: 4, head_dim: 32 }, Heads { heads: 8, kv_heads: 1, head_dim: 40 }];
    for (shape, (m, t)) in shapes.into_iter().flat_map(|shape| [(9, 300), (30, 263), (150, 300)].map(|mt| (shape, mt)))
    {
        let (of_q, of_k) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let (q, k, v) = (noise(m * of_q, 1), noise(t * of_k, 2), noise(t * of_k, 3));
        let cached = [&k, &v].map(|numbers| Cached::of(numbers));
        let together = attended(&q, cached, shape, AttentionMask::default(), 0.2);
        let causal: Vec<bool> = (0..m * m).map(|i| i % m <= i / m).collect();
        let mask = AttentionMask { visible: Some(&causal), ..AttentionMask::default() };
        assert!(together == attended(&q, cached, shape, mask, 0.2), "a mask of {m} rows");
        for r in 0..m {
            let seen = (t - m + r + 1) * of_k;
            let own = r * of_q..(r + 1) * of_q;
            let cached = [&k, &v].map(|all| Cached::of(&all[..seen]));
            let alone = attended(&q[own.clone()], cached, shape, AttentionMask::default(), 0.2);
            assert_eq!(alone, together[own], "row {r} of {m}");
        }
        let [k, v] = cached;
        let task = Task { q: &q, k, v, shape, mask: AttentionMask::default(), scale: 0.2, m, t };
        for threads in [1, 2, 3, 64] {
            let mut shared = vec![0.0; q.len()];
            task.run(threads, &mut shared);
            assert!(shared == together, "{m} rows for {threads} threads");
        }
        assert!(on_unit(crate::simd::Portable, &task) == together, "{m} rows without SIMD");
        #[cfg(target_arch = "x86_64")]
        if let Some(unit) = crate::simd::Avx2::detect() {
            assert!(on_unit(unit, &task) == together, "{m} rows with half the SIMD");
        }
    }
}

fn on_unit(unit: impl Bytewise, task: &Task<'_>) -> Vec<f32> {
    let mut out = vec![0.0; task.q.len()];
    let of_row = task.shape.heads * task.shape.head_dim;
    let to = Out::new(&mut out, of_row);
    for head in 0..task.shape.kv_heads {
        let rows = 0..task.m * task.group();
        let share = Share { heads: head..head + 1, blocks: task.blocks(&rows), rows };
        // SAFETY: there is one thread.
        unsafe { some_rows_body(unit, task, &share, To::Whole(&to)) };
    }
    out
}
