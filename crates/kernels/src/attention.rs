//! Attention of a few new tokens over a cache of keys and values.

use rayon::prelude::*;

use crate::dispatch::dispatch;
use crate::simd::Simd;

/// Multiplications below which one thread is faster than waking another.
const PARALLEL: usize = 1 << 19;

/// The heads of an attention layer. `heads / kv_heads` query heads share one head of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
}

/// Attends: `out[r][h] = sum over visible j of softmax_j(scale * q[r][h] . k[j][h']) * v[j][h']`.
///
/// Shapes, row by row: `q` and `out` are `m x heads x head_dim`; `k` and `v` are `t x kv_heads x head_dim` with
/// the `m` new tokens last. Every row sees the `t - m` tokens before the new ones. Among the new ones row `r`
/// sees `j` where `visible[r * m + j]`, or, without `visible`, where `j <= r`.
///
/// Sums run over visible keys in order, so hidden ones change no bit.
///
/// # Panics
/// If the lengths do not fit together.
pub fn attend(q: &[f32], k: &[f32], v: &[f32], shape: Heads, visible: Option<&[bool]>, scale: f32, out: &mut [f32]) {
    let Heads { heads, kv_heads, head_dim } = shape;
    assert!(kv_heads > 0 && heads.is_multiple_of(kv_heads) && head_dim > 0, "{shape:?}");
    let (m, t) = (q.len() / (heads * head_dim), k.len() / (kv_heads * head_dim));
    assert_eq!((q.len(), k.len()), (m * heads * head_dim, t * kv_heads * head_dim), "whole tokens");
    assert_eq!((v.len(), out.len()), (k.len(), q.len()), "values as keys, results as queries");
    assert!(m <= t, "{m} new tokens among {t}");
    assert!(visible.is_none_or(|visible| visible.len() == m * m), "a mask over the new tokens");
    let row = |(r, out): (usize, &mut [f32])| {
        let q = &q[r * heads * head_dim..(r + 1) * heads * head_dim];
        let mask = visible.map(|visible| &visible[r * m..(r + 1) * m]);
        let new = t - m;
        let seen = if mask.is_some() { t } else { new + r + 1 };
        with_scores(|scores| one_row(q, k, v, shape, new, seen, mask, scale, scores, out));
    };
    if m * t * heads * head_dim < PARALLEL {
        out.chunks_mut(heads * head_dim).enumerate().for_each(row);
    } else {
        out.par_chunks_mut(heads * head_dim).enumerate().for_each(row);
    }
}

/// Working space that stays with the thread.
fn with_scores(f: impl FnOnce(&mut Vec<f32>)) {
    thread_local!(static SCORES: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(Vec::new()) });
    SCORES.with_borrow_mut(f);
}

dispatch! {
    /// All heads of one row: keys `0..seen`, of which those from `new` on are subject to the mask.
    fn one_row(
        q: &[f32], k: &[f32], v: &[f32], shape: Heads, new: usize, seen: usize,
        mask: Option<&[bool]>, scale: f32, scores: &mut Vec<f32>, out: &mut [f32],
    ) = one_row_body
}

#[allow(clippy::too_many_arguments)]
#[inline(always)]
fn one_row_body<S: Simd>(
    unit: S,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    shape: Heads,
    new: usize,
    seen: usize,
    mask: Option<&[bool]>,
    scale: f32,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let Heads { heads, kv_heads, head_dim } = shape;
    let hidden = |j: usize| j >= new && mask.is_some_and(|mask| !mask[j - new]);
    for h in 0..heads {
        let kv = h / (heads / kv_heads) * head_dim;
        let at = |j: usize| j * kv_heads * head_dim + kv..j * kv_heads * head_dim + kv + head_dim;
        let q = &q[h * head_dim..(h + 1) * head_dim];
        let out = &mut out[h * head_dim..(h + 1) * head_dim];
        let mut max = f32::NEG_INFINITY;
        scores.clear();
        for j in 0..seen {
            let score = if hidden(j) { f32::NEG_INFINITY } else { unit.dot(q, &k[at(j)]) * scale };
            max = max.max(score);
            scores.push(score);
        }
        let mut total = 0.0;
        out.fill(0.0);
        for (j, &score) in scores.iter().enumerate() {
            if hidden(j) {
                continue;
            }
            let weight = (score - max).exp();
            total += weight;
            for (out, &v) in out.iter_mut().zip(&v[at(j)]) {
                *out = weight.mul_add(v, *out);
            }
        }
        out.iter_mut().for_each(|out| *out /= total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random};

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 4.0 - 2.0).collect()
    }

    fn exact(
        q: &[f32],
        k: &[f32],
        v: &[f32],
        shape: Heads,
        sees: impl Fn(usize, usize) -> bool,
        scale: f32,
    ) -> Vec<f64> {
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
                    out[(r * heads + h) * head_dim + d] =
                        (0..t).map(|j| weight[j] / total * f64::from(v[kv(j, d)])).sum();
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

    #[test]
    fn equals_the_definition_in_f64() {
        for shape in [
            Heads { heads: 4, kv_heads: 2, head_dim: 32 },
            Heads { heads: 3, kv_heads: 3, head_dim: 5 },
            Heads { heads: 4, kv_heads: 1, head_dim: 20 },
        ] {
            for (m, t) in [(1, 1), (1, 40), (5, 5), (5, 33)] {
                let q = noise(m * shape.heads * shape.head_dim, 1);
                let k = noise(t * shape.kv_heads * shape.head_dim, 2);
                let v = noise(k.len(), 3);
                let mut out = vec![f32::NAN; q.len()];
                attend(&q, &k, &v, shape, None, 0.3, &mut out);
                close(&out, &exact(&q, &k, &v, shape, |r, j| j <= t - m + r, 0.3));
                let visible: Vec<bool> = (0..m * m).map(|i| i / m == i % m || (i * 7) % 3 == 0).collect();
                attend(&q, &k, &v, shape, Some(&visible), 0.3, &mut out);
                let sees = |r: usize, j: usize| j < t - m || visible[r * m + j - (t - m)];
                close(&out, &exact(&q, &k, &v, shape, sees, 0.3));
            }
        }
    }

    /// Row by row, all at once, with a causal mask spelled out, and large enough for threads.
    #[test]
    fn rows_have_the_same_bits_together_and_alone() {
        let shape = Heads { heads: 8, kv_heads: 4, head_dim: 32 };
        let (m, t) = (9, 300);
        let (q, k) = (noise(m * 256, 1), noise(t * 128, 2));
        let v = noise(k.len(), 3);
        let mut together = vec![0.0; q.len()];
        attend(&q, &k, &v, shape, None, 0.2, &mut together);
        let causal: Vec<bool> = (0..m * m).map(|i| i % m <= i / m).collect();
        let mut masked = vec![0.0; q.len()];
        attend(&q, &k, &v, shape, Some(&causal), 0.2, &mut masked);
        assert_eq!(together, masked);
        for r in 0..m {
            let seen = (t - m + r + 1) * 128;
            let mut alone = vec![0.0; 256];
            attend(&q[r * 256..(r + 1) * 256], &k[..seen], &v[..seen], shape, None, 0.2, &mut alone);
            assert_eq!(alone, together[r * 256..(r + 1) * 256]);
        }
        let mut plain = vec![0.0; 256];
        one_row_body(
            crate::simd::Portable,
            &q[..256],
            &k,
            &v,
            shape,
            t - m,
            t - m + 1,
            None,
            0.2,
            &mut Vec::new(),
            &mut plain,
        );
        assert_eq!(plain, together[..256]);
    }
}
