//! Eta sampling: a bound on probabilities that falls with the entropy.

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

stateless!(EtaCutoff, |warper, row| {
    let Some(entropy) = row.entropy() else { return };
    let epsilon = warper.0.ln();
    row.forbid_less_probable(epsilon.min(epsilon / 2.0 - entropy));
});
