//! Mirostat 2: a text whose tokens are about equally surprising.

use std::f64::consts::LN_2;

use crate::row::descending;
use crate::warp::{OutOfRange, check};
use crate::{Row, TokenId, Transform};

/// Excludes tokens whose surprise, `-log2 p`, is above a bound that follows the text (Basu et al., *Mirostat: A Neural
/// Text Decoding Algorithm that Directly Controls Perplexity*, ICLR 2021; this is version 2, as in llama.cpp): after
/// each token the bound changes by `eta * (tau - surprise)`. It starts at `2 tau`, and the most probable token is
/// always kept.
///
/// A token's surprise refers to the distribution that it was sampled from, so this must be the last step before
/// sampling: later steps would be counted too. The prompt does not count, and a token that is written without a row has
/// no surprise.
#[derive(Clone, Copy, Debug)]
pub struct Mirostat {
    tau: f64,
    eta: f64,
}

impl Mirostat {
    /// Aims at `tau` bits per token, above 0, and corrects the bound by the share `eta` of the difference, 0 or more.
    ///
    /// # Errors
    /// [`OutOfRange`] for other numbers.
    pub fn new(tau: f64, eta: f64) -> Result<Self, OutOfRange> {
        check("mirostat tau", tau, tau > 0.0 && tau.is_finite(), "above 0")?;
        check("mirostat eta", eta, eta >= 0.0 && eta.is_finite(), "0 or more")?;
        Ok(Self { tau, eta })
    }

    fn moved(&self, bound: &mut f64, surprise: f64) {
        *bound -= self.eta * (surprise - self.tau);
    }
}

impl Transform for Mirostat {
    /// The largest surprise that a token may have, in bits.
    type State = f64;

    fn start(&self, _: &[TokenId]) -> f64 {
        2.0 * self.tau
    }

    fn apply(&self, bound: &f64, row: &mut Row) {
        let Some(normalizer) = row.log_sum_exp() else { return };
        let least = normalizer - bound * LN_2;
        row.with_best(1, |best, logits| {
            let &[best] = best else { return };
            // With a bound below 0, only this token is left.
            debug_assert!((0..).zip(&*logits).all(|(token, _)| descending(logits, best, token).is_le()));
            for (token, z) in (0..).zip(logits) {
                if token != best && f64::from(*z) < least {
                    *z = f32::NEG_INFINITY;
                }
            }
        });
    }

    fn advance(&self, bound: &mut f64, _: TokenId) {
        self.moved(bound, 0.0);
    }

    fn advance_from(&self, bound: &mut f64, row: &Row, token: TokenId) {
        // An impossible token says nothing about the distribution.
        if let Some(surprise) = row.surprise(token) {
            self.moved(bound, surprise / LN_2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_follows_the_text() {
        let step = Mirostat::new(1.5, 0.5).unwrap();
        let distribution = |row: &[f64]| Row::from(row.iter().map(|p| p.ln() as f32).collect::<Vec<f32>>());
        let mut bound = step.start(&[0, 1, 2]);
        assert_eq!(bound, 3.0, "the prompt does not count");
        // Surprises of 1, 2, 3 and 4 bits, of which three are within the bound; the first token has 8/14 of what is
        // left.
        let mut row = distribution(&[0.5, 0.25, 0.12501, 0.12499]);
        step.apply(&bound, &mut row);
        assert_eq!(row.logits().iter().map(|z| z.is_finite()).collect::<Vec<_>>(), [true, true, true, false]);
        let mut other = bound;
        step.advance_from(&mut bound, &row, 0);
        let surprise = -(0.5f64 / 0.87501).log2();
        assert!((bound - (3.0 - 0.5 * (surprise - 1.5))).abs() < 1e-6, "{bound}");
        step.advance(&mut other, 0);
        assert_eq!(other, 3.75, "a token without a row was certain");
        // If no token is within the bound, the most probable one is kept; among equals the first.
        let mut row = distribution(&[0.25, 0.375, 0.375]);
        step.apply(&-1.0, &mut row);
        assert_eq!(row.logits().iter().map(|z| z.is_finite()).collect::<Vec<_>>(), [false, true, false]);
        // An impossible token leaves the bound unchanged.
        step.advance_from(&mut bound, &row, 2);
        assert!((bound - (3.0 - 0.5 * (surprise - 1.5))).abs() < 1e-6, "{bound}");
    }

    #[test]
    fn only_numbers_that_mean_something_are_taken() {
        for (tau, eta) in [(0.0, 0.1), (-1.0, 0.1), (f64::NAN, 0.1), (f64::INFINITY, 0.1), (5.0, -0.1), (5.0, f64::NAN)]
        {
            assert!(Mirostat::new(tau, eta).is_err(), "{tau} {eta}");
        }
        let message = Mirostat::new(0.0, 0.1).unwrap_err().to_string();
        assert_eq!(message, "mirostat tau is 0, but must be above 0");
    }
}
