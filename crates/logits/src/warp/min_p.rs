//! Min-p: a bound relative to the most probable token.

use crate::Row;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, stateless};

/// Keeps the tokens whose probability is at least `p` times that of the most probable one (Nguyen et al. 2024).
#[doc(alias = "MinPLogitsWarper")]
#[doc(alias = "min_p")]
#[derive(Clone, Copy, Debug)]
pub struct MinP(f64);

impl MinP {
    /// A share in `[0, 1]`.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(p: f64) -> Result<Self, OutOfRange> {
        check("min-p", p, (0.0..=1.0).contains(&p), "at least 0 and at most 1")?;
        Ok(Self(p))
    }
}

stateless!(MinP, |warper, row| row.min_p(warper.0));

impl Row {
    pub(crate) fn min_p(&mut self, p: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::MinP(p));
        }
        let Some(max) = self.max() else { return };
        // p >= min_p * p_max  <=>  z >= z_max + ln(min_p)
        self.forbid_below(f64::from(max) + p.ln());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::tests::{NO, apply};

    #[test]
    fn tokens_are_compared_with_the_best() {
        let logits = [0.0, -0.5f32.ln().abs() + 0.01, -1.0, NO];
        assert_eq!(apply(MinP::new(0.5).unwrap(), &logits), [0.0, logits[1], NO, NO]);
        assert_eq!(apply(MinP::new(0.0).unwrap(), &logits), logits);
        assert_eq!(apply(MinP::new(1.0).unwrap(), &[1.0, 2.0, 2.0]), [NO, 2.0, 2.0]);
    }
}
