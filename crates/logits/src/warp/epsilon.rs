//! Epsilon sampling: a bound on probabilities.

use crate::Row;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, stateless};

/// Epsilon sampling (Hewitt, Manning and Liang 2022, section 4.2): keeps the tokens whose probability is at least
/// `epsilon`. The most probable token, with its ties, is always kept.
#[doc(alias = "EpsilonLogitsWarper")]
#[doc(alias = "epsilon_cutoff")]
#[derive(Clone, Copy, Debug)]
pub struct EpsilonCutoff(f64);

impl EpsilonCutoff {
    /// A probability in `[0, 1)`; 0 keeps everything. Usual values are 0.0003 to 0.0009.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(epsilon: f64) -> Result<Self, OutOfRange> {
        check("epsilon cutoff", epsilon, (0.0..1.0).contains(&epsilon), "at least 0 and below 1")?;
        Ok(Self(epsilon))
    }
}

stateless!(EpsilonCutoff, |warper, row| row.epsilon_cutoff(warper.0));

impl Row {
    pub(crate) fn epsilon_cutoff(&mut self, epsilon: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::EpsilonCutoff(epsilon));
        }
        self.forbid_less_probable(epsilon.ln());
    }

    /// Forbids the tokens whose log-probability is below `bound`, but never the most probable.
    pub(crate) fn forbid_less_probable(&mut self, bound: f64) {
        let (Some(max), Some(normalizer)) = (self.max(), self.log_sum_exp()) else { return };
        self.forbid_below((bound + normalizer).min(f64::from(max)));
    }
}
