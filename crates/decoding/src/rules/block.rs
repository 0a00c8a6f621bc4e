//! Block verification: judges a chain of drafts as a whole, and accepts at least as many tokens as judging each by
//! itself (Sun et al., *Block Verification Accelerates Speculative Decoding*, arXiv:2403.10444, algorithm 2).
//!
//! With `x_1 ... x_g` sampled from `q_1 ... q_g`, `p_i` the target's distribution after the first `i` of them and `P_0
//! = 1`:
//!
//! ```text
//! P_i = min(1, P_(i-1) * p_(i-1)(x_i) / q_i(x_i))
//! S_i = sum over x of max(P_i * p_i(x) - q_(i+1)(x), 0)
//! h_i = S_i / (S_i + 1 - P_i)  for 0 < i < g,   h_g = P_g
//! ```
//!
//! Coins are tossed independently, coin `i` with probability `h_i`; the last one that succeeds gives the number of
//! accepted drafts (0 if none does). The next token then comes from `p_g`, or from `norm(max(P_i * p_i - q_(i+1), 0))`.

use verdigris_logits::TokenId;

use crate::distribution;

/// A draft of a chain, with the distribution that it was sampled from. `None` means that it was certain.
#[derive(Clone, Copy, Debug)]
pub struct Drawn<'a> {
    /// The token.
    pub token: TokenId,
    /// The distribution.
    pub distribution: Option<&'a [f64]>,
}

impl Drawn<'_> {
    fn q(&self, token: usize) -> f64 {
        match self.distribution {
            Some(distribution) => distribution.get(token).copied().unwrap_or(0.0),
            None => f64::from(u8::from(token == self.token as usize)),
        }
    }
}

/// The weight and coin of the first drafts of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefix {
    /// `P_i`.
    pub weight: f64,
    /// `h_i`: the probability that the coin of these drafts succeeds.
    pub stands: f64,
}

/// The prefixes of one draft, of two, ..., of all. `p` holds the target's distributions after none of the drafts, after
/// one, ..., after all. A distribution of zeros allows no token, and reaching it counts as an extra token.
///
/// # Panics
/// If `p` does not have exactly one distribution more than there are drafts.
pub fn prefixes(p: &[Vec<f64>], drafts: &[Drawn<'_>]) -> Vec<Prefix> {
    assert_eq!(p.len(), drafts.len() + 1, "a distribution after each prefix");
    let mut weight = 1.0f64;
    let mut prefixes = Vec::with_capacity(drafts.len());
    for (i, draft) in drafts.iter().enumerate() {
        let of_target = p[i].get(draft.token as usize).copied().unwrap_or(0.0);
        weight = if of_target == 0.0 { 0.0 } else { (weight * of_target / draft.q(draft.token as usize)).min(1.0) };
        let stands = match drafts.get(i + 1) {
            None => weight,
            Some(next) => {
                let excess: f64 = excess(&p[i + 1], next, weight).sum();
                // A distribution that allows nothing is all excess.
                let excess = if distribution::is_dead(&p[i + 1]) { weight } else { excess };
                let either = excess + 1.0 - weight;
                if either > 0.0 { (excess / either).min(1.0) } else { 1.0 }
            }
        };
        prefixes.push(Prefix { weight, stands });
    }
    prefixes
}

/// Makes `p` the distribution of the token after the accepted drafts, where `next` is the draft after them.
pub fn residual(p: &mut [f64], next: &Drawn<'_>, weight: f64) {
    let total: f64 = excess(p, next, weight).sum();
    // The total is 0 only through rounding.
    if total > 0.0 {
        for (first, block) in distribution::blocks_mut(p) {
            (first..).zip(block).for_each(|(token, p)| *p = (weight * *p - next.q(token)).max(0.0) / total);
        }
    }
}

fn excess<'a>(p: &'a [f64], next: &'a Drawn<'_>, weight: f64) -> impl Iterator<Item = f64> + 'a {
    distribution::tokens(p).map(move |(token, p)| (weight * p - next.q(token)).max(0.0))
}
