//! Warpers: steps that reshape a row independently of the text before it.
//!
//! All but [`Mirostat`] depend only on the row. Each keeps at least the most probable token, except [`TypicalP`] and
//! [`Xtc`], which may keep another one instead. They follow Hugging Face `transformers` 5
//! (`generation/logits_process.py`) where it has them, so a pipeline can be compared with it row by row.

mod dynamic_temperature;
mod epsilon;
mod eta;
mod min_p;
mod mirostat;
mod temperature;
mod top_a;
mod top_k;
mod top_p;
mod typical;
mod xtc;

use std::cmp::Ordering;

use crate::blocks::ForbidBelow;
use crate::dispatch::dispatch;
use crate::{Row, TokenId};

pub use dynamic_temperature::DynamicTemperature;
pub use epsilon::EpsilonCutoff;
pub use eta::EtaCutoff;
pub use min_p::MinP;
pub use mirostat::Mirostat;
pub use temperature::Temperature;
pub use top_a::TopA;
pub use top_k::TopK;
pub use top_p::TopP;
pub use typical::TypicalP;
pub use xtc::Xtc;

/// A parameter out of the range that its transform can use.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{name} is {value}, but must be {range}")]
pub struct OutOfRange {
    name: &'static str,
    value: f64,
    range: &'static str,
}

/// Rejects a parameter that is not `ok`, with its name and the allowed range.
///
/// # Errors
/// [`OutOfRange`] if `ok` is false.
pub fn check(name: &'static str, value: f64, ok: bool, range: &'static str) -> Result<(), OutOfRange> {
    if ok { Ok(()) } else { Err(OutOfRange { name, value, range }) }
}

/// Implements a transform without state.
macro_rules! stateless {
    ($warper:ty, $apply:expr) => {
        impl $crate::Transform for $warper {
            type State = ();
            fn start(&self, _: &[$crate::TokenId]) {}
            fn apply(&self, _: &(), row: &mut $crate::Row) {
                let apply: fn(&$warper, &mut $crate::Row) = $apply;
                apply(self, row)
            }
            fn advance(&self, _: &mut (), _: $crate::TokenId) {}
        }
    };
}
pub(crate) use stateless;

/// The index at which the tokens, in the order of `compare`, reach this share of the total weight. Tokens before that
/// index in `order` are the smaller ones, tokens after it the larger ones.
///
/// This is quickselect on weights: each round halves the range of candidates and settles the other half.
fn first_to_reach(
    order: &mut [TokenId],
    share: f64,
    weight: impl Fn(TokenId) -> f64,
    compare: impl Fn(TokenId, TokenId) -> Ordering,
) -> usize {
    let total: f64 = order.iter().map(|&token| weight(token)).sum();
    let (mut open, mut need) = (0..order.len(), share * total);
    while open.len() > 1 {
        let part = &mut order[open.clone()];
        let middle = part.len() / 2;
        part.select_nth_unstable_by(middle, |&a, &b| compare(a, b));
        let upper: f64 = part[..middle].iter().map(|&token| weight(token)).sum();
        if upper >= need {
            open.end = open.start + middle;
        } else {
            need -= upper;
            open.start += middle;
        }
    }
    open.start
}

impl Row {
    /// Forbids tokens with logits below `bound`.
    fn forbid_below(&mut self, bound: f64) {
        let near = bound as f32;
        // The smallest `f32` that is not below the bound.
        let least = if f64::from(near) < bound { near.next_up() } else { near };
        dispatch(ForbidBelow(self.logits_mut(), least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Random, Transform};

    pub(super) const NO: f32 = f32::NEG_INFINITY;

    pub(super) fn apply(step: impl Transform<State = ()>, logits: &[f32]) -> Vec<f32> {
        let mut row = Row::from(logits.to_vec());
        step.apply(&(), &mut row);
        row.logits().to_vec()
    }

    pub(super) fn rows() -> impl Iterator<Item = Vec<f32>> {
        let random = Random::new(1);
        (1..60usize).map(move |n| {
            (0..n)
                .map(|i| {
                    let u = random.uniform((n * 1000 + i) as u64, Purpose::Token);
                    if u < 0.15 && i > 0 { NO } else { (u * 16.0).floor() as f32 / 2.0 }
                })
                .collect()
        })
    }

    #[test]
    fn the_best_token_is_kept_and_nothing_is_allowed_again() {
        for logits in rows() {
            let best = Row::from(logits.clone()).max().unwrap();
            for got in [
                apply(Temperature::new(0.7).unwrap(), &logits),
                apply(DynamicTemperature::new(0.7, 0.6, 1.0).unwrap(), &logits),
                apply(TopK::new(1).unwrap(), &logits),
                apply(TopP::new(1e-6).unwrap(), &logits),
                apply(MinP::new(1.0).unwrap(), &logits),
                apply(TopA::new(1.0).unwrap(), &logits),
                apply(EpsilonCutoff::new(0.999).unwrap(), &logits),
                apply(EtaCutoff::new(0.999).unwrap(), &logits),
            ] {
                assert!(got.iter().zip(&logits).any(|(z, &raw)| *z > NO && raw == best));
                assert!(got.iter().zip(&logits).all(|(z, &raw)| raw > NO || *z == NO));
            }
        }
    }

    #[test]
    fn impossible_rows_pass_through() {
        for got in [
            apply(TopK::new(1).unwrap(), &[NO, NO]),
            apply(TopP::new(0.5).unwrap(), &[NO, NO]),
            apply(MinP::new(0.5).unwrap(), &[NO, NO]),
            apply(TopA::new(0.5).unwrap(), &[NO, NO]),
            apply(TypicalP::new(0.5).unwrap(), &[NO, NO]),
            apply(EpsilonCutoff::new(0.5).unwrap(), &[NO, NO]),
            apply(EtaCutoff::new(0.5).unwrap(), &[NO, NO]),
        ] {
            assert_eq!(got, [NO, NO]);
        }
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-60] {
            assert!(Temperature::new(bad).is_err(), "{bad}");
        }
        assert_eq!(TopP::new(1.5).unwrap_err().to_string(), "top-p is 1.5, but must be above 0 and at most 1");
        for bad in [-0.1, 1.1, f64::NAN] {
            assert!(TopP::new(bad).is_err() && MinP::new(bad).is_err() && TopA::new(bad).is_err(), "{bad}");
            assert!(TypicalP::new(bad).is_err() && EpsilonCutoff::new(bad).is_err() && EtaCutoff::new(bad).is_err());
        }
        assert!(TopK::new(0).is_err() && TypicalP::new(0.0).is_err());
        assert!(EpsilonCutoff::new(1.0).is_err() && EtaCutoff::new(1.0).is_err());
    }
}
