//! What is left of the base before it is steered.

use verdigris_logits::warp::{MinP, OutOfRange, TopK, TopP};
use verdigris_logits::{Row, Transform};

/// Leaves out what the base finds improbable before experts are added, so that they cannot bring it back: DExperts (Liu
/// et al., *DExperts: Decoding-Time Controlled Text Generation with Experts and Anti-Experts*, ACL 2021), whose
/// authors' program has `filter_p` 0.9 for it, and with min-p the plausibility constraint of contrastive decoding (Li
/// et al., ACL 2023).
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "filter_p")]
#[doc(alias = "plausibility")]
pub struct BaseFilter {
    top_k: Option<TopK>,
    top_p: Option<TopP>,
    min_p: Option<MinP>,
}

impl BaseFilter {
    /// Leaves so many of the most probable tokens; of those the smallest set that reaches a mass; of those the ones
    /// with at least a share of the probability of the best. `None` leaves all.
    ///
    /// # Errors
    /// [`OutOfRange`] as of [`TopK`], [`TopP`] and [`MinP`].
    pub fn new(top_k: Option<usize>, top_p: Option<f64>, min_p: Option<f64>) -> Result<Self, OutOfRange> {
        Ok(Self {
            top_k: top_k.map(TopK::new).transpose()?,
            top_p: top_p.map(TopP::new).transpose()?,
            min_p: min_p.map(MinP::new).transpose()?,
        })
    }

    /// Whether it leaves all.
    pub fn is_none(&self) -> bool {
        self.top_k.is_none() && self.top_p.is_none() && self.min_p.is_none()
    }

    /// Forbids in a row what it leaves out. `space` is one to work in.
    pub(super) fn apply(&self, logits: &mut [f32], space: &mut Row) {
        if self.is_none() {
            return;
        }
        space.load(logits);
        self.top_k.iter().for_each(|step| step.apply(&(), space));
        self.top_p.iter().for_each(|step| step.apply(&(), space));
        self.min_p.iter().for_each(|step| step.apply(&(), space));
        logits.copy_from_slice(space.logits());
    }
}
