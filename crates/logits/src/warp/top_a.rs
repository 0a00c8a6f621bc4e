//! Top-a: a bound that grows with the square of the highest probability.

use crate::Row;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, stateless};

/// Keeps the tokens whose probability is at least `a` times the square of the highest one, as in KoboldAI: the more
/// certain the model, the fewer.
#[doc(alias = "top_a")]
#[derive(Clone, Copy, Debug)]
pub struct TopA(f64);

impl TopA {
    /// A factor in `[0, 1]`; 0 keeps everything.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(a: f64) -> Result<Self, OutOfRange> {
        check("top-a", a, (0.0..=1.0).contains(&a), "at least 0 and at most 1")?;
        Ok(Self(a))
    }
}

stateless!(TopA, |warper, row| row.top_a(warper.0));

impl Row {
    pub(crate) fn top_a(&mut self, factor: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::TopA(factor));
        }
        let (Some(max), Some(normalizer)) = (self.max(), self.log_sum_exp()) else { return };
        // p >= a p_max^2  <=>  z >= ln(a) + 2 z_max - ln(sum of all exp(z))
        self.forbid_below(factor.ln() + 2.0 * f64::from(max) - normalizer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::tests::{NO, apply, rows};

    #[test]
    fn the_bound_is_that_of_the_definition() {
        for logits in rows() {
            for a in [0.0, 0.05, 0.3, 1.0] {
                let distribution = Row::from(logits.clone()).distribution();
                let bound = a * distribution.iter().copied().fold(0.0, f64::max).powi(2);
                let got = apply(TopA::new(a).unwrap(), &logits);
                for (token, (&z, p)) in got.iter().zip(&distribution).enumerate() {
                    // Tokens on the bound may be rounded either way.
                    if (p - bound).abs() > 1e-12 {
                        assert_eq!(z, if *p < bound { NO } else { logits[token] }, "{logits:?} at {a}");
                    }
                }
            }
        }
        // Two tokens of one half each: the bound is a quarter of a.
        assert_eq!(apply(TopA::new(1.0).unwrap(), &[2.0, 2.0, NO]), [2.0, 2.0, NO]);
    }
}
