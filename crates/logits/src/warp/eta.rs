//! Eta sampling: a bound on probabilities that falls with the entropy.

use crate::Row;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, stateless};

/// Eta sampling (Hewitt, Manning and Liang 2022, section 4.3): keeps the tokens whose probability is at least the
/// smaller of `epsilon` and `sqrt(epsilon) * exp(-entropy)`, with the entropy in nats. The most probable token, with
/// its ties, is always kept.
#[doc(alias = "EtaLogitsWarper")]
#[doc(alias = "eta_cutoff")]
#[derive(Clone, Copy, Debug)]
pub struct EtaCutoff(f64);

impl EtaCutoff {
    /// `epsilon` in `[0, 1)`; 0 keeps everything. Usual values are 0.0003 to 0.004.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(epsilon: f64) -> Result<Self, OutOfRange> {
        check("eta cutoff", epsilon, (0.0..1.0).contains(&epsilon), "at least 0 and below 1")?;
        Ok(Self(epsilon))
    }
}

stateless!(EtaCutoff, |warper, row| row.eta_cutoff(warper.0));

impl Row {
    pub(crate) fn eta_cutoff(&mut self, epsilon: f64) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::EtaCutoff(epsilon));
        }
        let Some(entropy) = self.entropy() else { return };
        let epsilon = epsilon.ln();
        self.forbid_less_probable(epsilon.min(epsilon / 2.0 - entropy));
    }
}
