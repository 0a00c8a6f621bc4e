//! Block verification: a chain of drafts is judged as a whole, and at least as many of its tokens stand as when each is
//! judged by itself (Sun et al., *Block Verification Accelerates Speculative Decoding*, arXiv:2403.10444, algorithm 2).
//!
//! With `x_1 ... x_g` drawn from `q_1 ... q_g`, `p_i` the target's law after the first `i` of them and `P_0 = 1`:
//!
//! ```text
//! P_i = min(1, P_(i-1) * p_(i-1)(x_i) / q_i(x_i))
//! S_i = sum over x of max(P_i * p_i(x) - q_(i+1)(x), 0)
//! h_i = S_i / (S_i + 1 - P_i)  for 0 < i < g,   h_g = P_g
//! ```
//!
//! Of independent coins, coin `i` with probability `h_i`, the last that falls well says how many drafts stand (none
//! where none does). The next token then comes from `p_g`, or from `norm(max(P_i * p_i - q_(i+1), 0))`.

use verdigris_logits::TokenId;

use crate::law;

/// A draft of a chain, with the law that it was drawn from: `None` is certain of it.
#[derive(Clone, Copy, Debug)]
pub struct Drawn<'a> {
    /// The token.
    pub token: TokenId,
    /// The law.
    pub law: Option<&'a [f64]>,
}

impl Drawn<'_> {
    fn q(&self, token: usize) -> f64 {
        match self.law {
            Some(law) => law.get(token).copied().unwrap_or(0.0),
            None => f64::from(u8::from(token == self.token as usize)),
        }
    }
}

/// What is known of the first drafts of a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefix {
    /// `P_i`.
    pub weight: f64,
    /// `h_i`: the probability of the coin that lets just these drafts stand.
    pub stands: f64,
}

/// The prefixes of one draft, of two, ..., of all. `p` are the target's laws after none of the drafts, after one, ...,
/// after all: one more than drafts. A law of zeros allows no token; that it is met counts as a token of its own.
///
/// # Panics
/// If there is not one law more than drafts.
pub fn prefixes(p: &[Vec<f64>], drafts: &[Drawn<'_>]) -> Vec<Prefix> {
    assert_eq!(p.len(), drafts.len() + 1, "laws after each prefix");
    let mut weight = 1.0f64;
    let mut prefixes = Vec::with_capacity(drafts.len());
    for (i, draft) in drafts.iter().enumerate() {
        let of_target = p[i].get(draft.token as usize).copied().unwrap_or(0.0);
        weight = if of_target == 0.0 { 0.0 } else { (weight * of_target / draft.q(draft.token as usize)).min(1.0) };
        let stands = match drafts.get(i + 1) {
            None => weight,
            Some(next) => {
                let excess: f64 = excess(&p[i + 1], next, weight).sum();
                // A law that allows nothing is all in excess.
                let excess = if law::is_dead(&p[i + 1]) { weight } else { excess };
                let either = excess + 1.0 - weight;
                if either > 0.0 { (excess / either).min(1.0) } else { 1.0 }
            }
        };
        prefixes.push(Prefix { weight, stands });
    }
    prefixes
}

/// Makes `p` the law of the token after the drafts that stand, of which there is a next one that does not.
pub fn residual(p: &mut [f64], next: &Drawn<'_>, weight: f64) {
    let total: f64 = excess(p, next, weight).sum();
    // Only rounding leaves nothing.
    if total > 0.0 {
        for (first, block) in law::blocks_mut(p) {
            (first..).zip(block).for_each(|(token, p)| *p = (weight * *p - next.q(token)).max(0.0) / total);
        }
    }
}

fn excess<'a>(p: &'a [f64], next: &'a Drawn<'_>, weight: f64) -> impl Iterator<Item = f64> + 'a {
    law::tokens(p).map(move |(token, p)| (weight * p - next.q(token)).max(0.0))
}
