//! Several drafts of one token, tried in the order in which they were sampled. Each is judged against what the rejected
//! drafts before it left of `p`, so that the result has the distribution `p` whatever the drafts are.
//!
//! - Sampled from one distribution with replacement: all are judged by the same `q`, and a token sampled twice is tried
//!   twice (Miao et al., *SpecInfer*, arXiv:2305.09781, algorithm 2, multi-step speculative sampling). Siblings with
//!   different distributions are each judged by their own.
//! - Without replacement: `q` is the distribution without the earlier samples (Jeon et al., *Recursive Speculative
//!   Decoding*, arXiv:2402.14160, algorithm 2; Yang et al., *Multi-Candidate Speculative Decoding*, arXiv:2401.06706).
//! - A guess counts as sampled from a distribution that is certain of it: it is accepted with probability `p(x)`, and
//!   its rejection removes `x` from `p`.

use verdigris_logits::TokenId;

use crate::distribution;
use crate::rules::rejection::{acceptance, subtract};
use crate::tree::{DraftTree, Origin};

/// Returns the child of `parent` that is accepted as a token from `p`. If there is none, `p` becomes the distribution
/// of the token that replaces them. `accept` decides events by their probability and a number for each; `rest` is
/// scratch space.
pub fn judge(
    p: &mut [f64],
    tree: &DraftTree,
    parent: Option<usize>,
    rest: &mut Vec<f64>,
    mut accept: impl FnMut(f64, usize) -> bool,
) -> Option<usize> {
    for (which, (child, node)) in tree.children(parent).enumerate() {
        let q = match node.origin {
            Origin::Guess => {
                if accept(p.get(node.token as usize).map_or(0.0, |p| p.min(1.0)), which) {
                    return Some(child);
                }
                remove(p, node.token);
                continue;
            }
            Origin::Drawn(distribution) => tree.distribution_of(distribution),
            Origin::DrawnWithout(distribution) => {
                tree.rest_of(distribution, parent, child, rest);
                &*rest
            }
        };
        if accept(acceptance(p, q, node.token), which) {
            return Some(child);
        }
        subtract(p, q);
    }
    None
}

/// Removes a token from a distribution.
fn remove(p: &mut [f64], token: TokenId) {
    let Some(own) = p.get_mut(token as usize) else { return };
    let before = std::mem::take(own);
    let total = distribution::total(p);
    match total > 0.0 {
        true => distribution::divide(p, total),
        // A certain token is rejected only through rounding.
        false => p[token as usize] = before,
    }
}
