//! Layers with a state of fixed size: each head has a matrix that every token decays and adds to.
//!
//! The gated delta rule (Yang, Kautz and Hatamizadeh, *Gated Delta Networks*, 2024) and Mamba-2 (Dao and Gu,
//! *Transformers are SSMs*, 2024) are the same recurrence but for what is added. With the state `S` of a head
//! (`key_dim x value_dim`), a token's decay `d`, strength `b`, key `k`, value `v` and query `q`:
//!
//! ```text
//! added = b (v - d S^T k)     the delta rule
//! added = b v                 Mamba-2
//! S <- d S + k added^T
//! out = S^T q
//! ```
//!
//! A token is computed in the same order of operations wherever it is in a batch, so its bits do not depend on how a
//! text is split. What was added suffices to take the state to any later token again, with the same bits and without
//! queries: [`Step::Replay`].

use crate::dispatch::dispatch;
use crate::pool;
use crate::simd::Simd;

/// The heads of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecurrentHeads {
    /// The number of heads with a state.
    pub heads: usize,
    /// The number of heads of queries and keys; divides `heads`.
    pub key_heads: usize,
    /// Rows of a state.
    pub key_dim: usize,
    /// Columns of a state.
    pub value_dim: usize,
    /// Whether head `h` uses the key head `h % key_heads`, instead of `h * key_heads / heads`.
    pub strided: bool,
}

impl RecurrentHeads {
    /// The numbers of a layer's state.
    pub fn state(&self) -> usize {
        self.heads * self.key_dim * self.value_dim
    }

    fn key_head(&self, head: usize) -> usize {
        if self.strided { head % self.key_heads } else { head * self.key_heads / self.heads }
    }
}

/// The inputs of `m` tokens.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence<'a> {
    /// The heads.
    pub heads: RecurrentHeads,
    /// Whether the state's own value of a key is subtracted before a value is added.
    pub is_delta: bool,
    /// Keys: `m x key_heads x key_dim`.
    pub key: &'a [f32],
    /// The factors of the state: `m x heads`.
    pub decay: &'a [f32],
}

/// The further inputs of tokens that have outputs.
#[derive(Clone, Copy, Debug)]
pub struct Readout<'a> {
    /// Queries: `m x key_heads x key_dim`.
    pub query: &'a [f32],
    /// Values: `m x heads x value_dim`.
    pub value: &'a [f32],
    /// Strengths: `m x heads`.
    pub strength: &'a [f32],
}

/// A step of a recurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The state becomes the base.
    Restart,
    /// The state takes a token whose addition is known.
    Replay(usize),
    /// The state takes a token, whose addition and output are written.
    Run(usize),
}

/// Takes the steps with the state of each head, heads at the same time.
///
/// Shapes: `base` and `state` are `heads x key_dim x value_dim`; `added` and `out` are `heads x m x value_dim`. Without
/// [`Step::Restart`] there need be no base, and without [`Step::Run`] neither `readout` nor `out`.
///
/// # Panics
/// If the lengths do not fit together.
pub fn recur(
    of: &Recurrence<'_>,
    readout: Option<&Readout<'_>>,
    steps: &[Step],
    base: &[f32],
    state: &mut [f32],
    added: &mut [f32],
    out: &mut [f32],
) {
    let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = of.heads;
    assert!(heads > 0 && key_heads > 0 && heads.is_multiple_of(key_heads), "{:?}", of.heads);
    let (m, size) = (of.decay.len() / heads, key_dim * value_dim);
    let own = m * value_dim;
    assert_eq!((of.decay.len(), of.key.len()), (m * heads, m * key_heads * key_dim), "{m} tokens");
    assert_eq!((state.len(), added.len()), (heads * size, heads * own), "a state and additions of each head");
    assert!(base.is_empty() || base.len() == state.len(), "a base like the state");
    if let Some(Readout { query, value, strength }) = readout {
        assert_eq!((query.len(), value.len()), (of.key.len(), m * heads * value_dim), "{m} queries and values");
        assert_eq!((strength.len(), out.len()), (m * heads, added.len()), "{m} strengths and outputs");
    }
    if size == 0 || own == 0 {
        return;
    }
    struct Head<'a>(usize, &'a mut [f32], &'a mut [f32], &'a mut [f32]);
    let mut outs = out.chunks_mut(own);
    let each = state.chunks_mut(size).zip(added.chunks_mut(own)).enumerate();
    let mut all: Vec<Head<'_>> =
        each.map(|(head, (state, added))| Head(head, state, added, outs.next().unwrap_or_default())).collect();
    pool::each(&mut all, |Head(head, state, added, out)| {
        let base = base.get(*head * size..(*head + 1) * size).unwrap_or_default();
        of_head(of, readout, *head, steps, base, state, added, out);
    });
}

dispatch! {
    fn of_head(
        of: &Recurrence<'_>,
        readout: Option<&Readout<'_>>,
        head: usize,
        steps: &[Step],
        base: &[f32],
        state: &mut [f32],
        added: &mut [f32],
        out: &mut [f32],
    ) = of_head_body
}

// Each loop is over independent elements, so that it has the same bits in every unit.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn of_head_body<S: Simd>(
    _unit: S,
    of: &Recurrence<'_>,
    readout: Option<&Readout<'_>>,
    head: usize,
    steps: &[Step],
    base: &[f32],
    state: &mut [f32],
    added: &mut [f32],
    out: &mut [f32],
) {
    let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = of.heads;
    let key_head = of.heads.key_head(head);
    let key_of = |t: usize| (t * key_heads + key_head) * key_dim..(t * key_heads + key_head + 1) * key_dim;
    for step in steps {
        match *step {
            Step::Restart => state.copy_from_slice(base),
            Step::Replay(t) => {
                let (key, decay) = (&of.key[key_of(t)], of.decay[t * heads + head]);
                let added = &added[t * value_dim..(t + 1) * value_dim];
                for (k, row) in key.iter().zip(state.chunks_mut(value_dim)) {
                    for (s, a) in row.iter_mut().zip(added) {
                        *s = k.mul_add(*a, decay * *s);
                    }
                }
            }
            Step::Run(t) => {
                let Readout { query, value, strength } = readout.expect("queries and values of a token that is run");
                let (key, decay, strength) =
                    (&of.key[key_of(t)], of.decay[t * heads + head], strength[t * heads + head]);
                let value = &value[(t * heads + head) * value_dim..][..value_dim];
                let added = &mut added[t * value_dim..(t + 1) * value_dim];
                added.fill(0.0);
                if of.is_delta {
                    for (k, row) in key.iter().zip(state.chunks(value_dim)) {
                        for (a, s) in added.iter_mut().zip(row) {
                            *a = k.mul_add(*s, *a);
                        }
                    }
                }
                for (a, v) in added.iter_mut().zip(value) {
                    *a = strength * (v - decay * *a);
                }
                let out = &mut out[t * value_dim..(t + 1) * value_dim];
                out.fill(0.0);
                for ((k, q), row) in key.iter().zip(&query[key_of(t)]).zip(state.chunks_mut(value_dim)) {
                    for ((s, a), o) in row.iter_mut().zip(&*added).zip(&mut *out) {
                        *s = k.mul_add(*a, decay * *s);
                        *o = q.mul_add(*s, *o);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;
    use verdigris_logits::{Purpose, Random};

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 - 0.5).collect()
    }

    struct Inputs {
        heads: RecurrentHeads,
        key: Vec<f32>,
        decay: Vec<f32>,
        query: Vec<f32>,
        value: Vec<f32>,
        strength: Vec<f32>,
    }

    impl Inputs {
        fn new(heads: RecurrentHeads, m: usize) -> Self {
            let RecurrentHeads { heads: h, key_heads, key_dim, value_dim, .. } = heads;
            let decay = noise(m * h, 2).iter().map(|x| x + 0.5).collect();
            let (key, query) = (noise(m * key_heads * key_dim, 1), noise(m * key_heads * key_dim, 3));
            Self { heads, key, decay, query, value: noise(m * h * value_dim, 4), strength: noise(m * h, 5) }
        }

        fn run(&self, is_delta: bool, steps: &[Step], base: &[f32], state: &mut [f32]) -> (Vec<f32>, Vec<f32>) {
            let of = Recurrence { heads: self.heads, is_delta, key: &self.key, decay: &self.decay };
            let readout = Readout { query: &self.query, value: &self.value, strength: &self.strength };
            let (mut added, mut out) = (vec![0.0; self.value.len()], vec![0.0; self.value.len()]);
            recur(&of, Some(&readout), steps, base, state, &mut added, &mut out);
            (added, out)
        }
    }

    const SHAPES: [RecurrentHeads; 3] = [
        RecurrentHeads { heads: 4, key_heads: 2, key_dim: 5, value_dim: 7, strided: false },
        RecurrentHeads { heads: 4, key_heads: 2, key_dim: 16, value_dim: 16, strided: true },
        RecurrentHeads { heads: 1, key_heads: 1, key_dim: 33, value_dim: 2, strided: false },
    ];

    #[test]
    fn outputs_are_those_of_the_definition_in_f64() {
        for heads in SHAPES {
            for is_delta in [false, true] {
                let (m, of) = (6, Inputs::new(heads, 6));
                let base = noise(heads.state(), 9);
                let mut state = base.clone();
                let steps: Vec<Step> = (0..m).map(Step::Run).collect();
                let (_, out) = of.run(is_delta, &steps, &[], &mut state);
                let RecurrentHeads { heads: h, key_heads, key_dim, value_dim, strided, .. } = heads;
                for head in 0..h {
                    let from = if strided { head % key_heads } else { head / (h / key_heads) };
                    let mut s: Vec<f64> = base[head * key_dim * value_dim..][..key_dim * value_dim]
                        .iter()
                        .map(|x| f64::from(*x))
                        .collect();
                    for t in 0..m {
                        let k = |i: usize| f64::from(of.key[(t * key_heads + from) * key_dim + i]);
                        let q = |i: usize| f64::from(of.query[(t * key_heads + from) * key_dim + i]);
                        let (d, b) = (f64::from(of.decay[t * h + head]), f64::from(of.strength[t * h + head]));
                        for j in 0..value_dim {
                            (0..key_dim).for_each(|i| s[i * value_dim + j] *= d);
                            let held: f64 = (0..key_dim).map(|i| s[i * value_dim + j] * k(i)).sum();
                            let v = f64::from(of.value[(t * h + head) * value_dim + j]);
                            let added = b * (v - if is_delta { held } else { 0.0 });
                            (0..key_dim).for_each(|i| s[i * value_dim + j] += k(i) * added);
                            let exact: f64 = (0..key_dim).map(|i| s[i * value_dim + j] * q(i)).sum();
                            let got = out[(head * m + t) * value_dim + j];
                            assert!((f64::from(got) - exact).abs() < 1e-5, "{heads:?} {is_delta} {t}: {got} {exact}");
                        }
                    }
                }
            }
        }
    }

    /// A branch has the bits of a chain, a replay those of the first run, and every unit the same.
    #[test]
    fn a_state_has_the_same_bits_by_every_way() {
        for heads in SHAPES {
            let (of, base) = (Inputs::new(heads, 4), noise(heads.state(), 9));
            let mut chain = base.clone();
            let (added, out) = of.run(true, &[0, 1, 3].map(Step::Run), &[], &mut chain);
            // Tokens 2 and 3 are siblings.
            let steps = [Step::Restart, Step::Run(0), Step::Run(1), Step::Run(2), Step::Restart];
            let steps = [&steps[..], &[Step::Replay(0), Step::Replay(1), Step::Run(3)]].concat();
            let mut tree = vec![0.0; base.len()];
            let (of_tree, outs) = of.run(true, &steps, &base, &mut tree);
            assert_eq!(tree, chain);
            for head in 0..heads.heads {
                for t in [0, 1, 3] {
                    let own = (head * 4 + t) * heads.value_dim..(head * 4 + t + 1) * heads.value_dim;
                    assert_eq!((&outs[own.clone()], &of_tree[own.clone()]), (&out[own.clone()], &added[own]));
                }
            }
            let inputs = Recurrence { heads, is_delta: true, key: &of.key, decay: &of.decay };
            let mut again = base.clone();
            let steps = [0, 1, 3].map(Step::Replay);
            recur(&inputs, None, &steps, &[], &mut again, &mut added.clone(), &mut []);
            assert_eq!(again, chain);
            let readout = Readout { query: &of.query, value: &of.value, strength: &of.strength };
            let size = heads.key_dim * heads.value_dim;
            for head in 0..heads.heads {
                let mut plain = base[head * size..][..size].to_vec();
                let (mut added, mut out) = (vec![0.0; 4 * heads.value_dim], vec![0.0; 4 * heads.value_dim]);
                let steps = [0, 1, 3].map(Step::Run);
                of_head_body(Portable, &inputs, Some(&readout), head, &steps, &[], &mut plain, &mut added, &mut out);
                assert_eq!(plain, chain[head * size..][..size]);
            }
        }
    }
}
