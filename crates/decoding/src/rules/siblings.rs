//! Several drafts of one token, tried in the order in which they were drawn. What a rejected draft leaves of `p` is
//! what the next one is judged by, so that what comes out has the law `p` whatever the drafts are.
//!
//! - Drawn from one law with replacement: each is judged by the same `q`, a token that was drawn twice is tried twice
//!   (Miao et al., *SpecInfer*, arXiv:2305.09781, algorithm 2, multi-step speculative sampling). Siblings with laws of
//!   their own are each judged by their own.
//! - Without replacement: `q` is the law without what was drawn before (Jeon et al., *Recursive Speculative
//!   Decoding*, arXiv:2402.14160, algorithm 2; Yang et al., *Multi-Candidate Speculative Decoding*, arXiv:2401.06706).
//! - A guess among them was drawn from the law that is certain of it: it is accepted with probability `p(x)`, and its
//!   rejection takes `x` out of `p`.

use verdigris_logits::TokenId;

use crate::law;
use crate::rules::rejection::{acceptance, subtract};
use crate::tree::{DraftTree, Origin};

/// Which child of `parent` is accepted as a token from `p`; `None`, and `p` is the law of what takes their place.
/// `accept` decides events by their probability and a number for each; `rest` is space to work in.
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
            Origin::Drawn(law) => tree.law_of(law),
            Origin::DrawnWithout(law) => {
                tree.rest_of(law, parent, child, rest);
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

/// Takes a token out of a law.
fn remove(p: &mut [f64], token: TokenId) {
    let Some(own) = p.get_mut(token as usize) else { return };
    let before = std::mem::take(own);
    let total = law::total(p);
    match total > 0.0 {
        true => law::divide(p, total),
        // A certain token that was rejected: only rounding can do that.
        false => p[token as usize] = before,
    }
}
