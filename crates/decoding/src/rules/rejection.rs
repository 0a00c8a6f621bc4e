//! Rejection of one draft: with `x` sampled from `q`, accept it with probability `min(1, p(x) / q(x))`, else sample
//! from `norm(max(p - q, 0))`. The result has the distribution `p` (Leviathan, Kalman and Matias, *Fast Inference from
//! Transformers via Speculative Decoding*, ICML 2023, algorithm 1; Chen et al., arXiv:2302.01318, algorithm 2).

use verdigris_logits::TokenId;

use crate::distribution;

/// The probability that a token sampled from `q` is accepted as one from `p`. A token beyond the end of a distribution
/// has probability 0 in it.
pub fn acceptance(p: &[f64], q: &[f64], token: TokenId) -> f64 {
    let of = |distribution: &[f64]| distribution.get(token as usize).copied().unwrap_or(0.0);
    let (p, q) = (of(p), of(q));
    // A token that was sampled has q > 0.
    if p == 0.0 { 0.0 } else { (p / q).min(1.0) }
}

/// Makes `p` the distribution of the token that replaces a rejected draft: `norm(max(p - q, 0))`.
pub fn subtract(p: &mut [f64], q: &[f64]) {
    let excess = |p: f64, q: f64| (p - q).max(0.0);
    let of = |token: usize| q.get(token).copied().unwrap_or(0.0);
    let total: f64 = distribution::tokens(p).map(|(token, p)| excess(p, of(token))).sum();
    // A rejection without excess happens only through rounding.
    if total > 0.0 {
        for (first, block) in distribution::blocks_mut(p) {
            (first..).zip(block).for_each(|(token, p)| *p = excess(*p, of(token)) / total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filtered_residual_is_wrong() {
        let (p, q) = ([0.5, 0.3, 0.2], [0.1, 0.1, 0.8]);
        let mut residual = p;
        subtract(&mut residual, &q);
        let distribution =
            |residual: &[f64]| -> Vec<f64> { (0..3).map(|v| q[v].min(p[v]) + (q[2] - p[2]) * residual[v]).collect() };
        assert!((acceptance(&p, &q, 2) - 0.25).abs() < 1e-15);
        assert!(distribution(&residual).iter().zip(p).all(|(got, p)| (got - p).abs() < 1e-15));
        let best = residual.iter().copied().fold(0.0, f64::max);
        let filtered: Vec<f64> = residual.iter().map(|&r| if r == best { 1.0 } else { 0.0 }).collect();
        assert!(distribution(&filtered).iter().zip(p).any(|(got, p)| (got - p).abs() > 0.1));
    }

    /// The padding of vocabularies differs between models of one tokenizer.
    #[test]
    fn laws_may_be_of_different_lengths() {
        assert_eq!(acceptance(&[1.0], &[0.5, 0.5], 1), 0.0);
        let mut longer = [0.25, 0.75];
        subtract(&mut longer, &[0.5]);
        assert_eq!(longer, [0.0, 1.0]);
        let mut shorter = [1.0];
        subtract(&mut shorter, &[0.5, 0.5]);
        assert_eq!(shorter, [1.0]);
    }
}
