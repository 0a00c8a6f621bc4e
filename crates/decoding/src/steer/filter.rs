//! The tokens of the base that are kept before steering.

use verdigris_logits::warp::{MinP, OutOfRange, TopK, TopP};
use verdigris_logits::{Row, Transform};

/// Excludes tokens that the base finds improbable before experts are added, so that they cannot bring them back. This
/// is the filter of DExperts (Liu et al., *DExperts: Decoding-Time Controlled Text Generation with Experts and
/// Anti-Experts*, ACL 2021), whose authors' program has it as `filter_p`, 0.9, and with min-p the plausibility
/// constraint of contrastive decoding (Li et al., ACL 2023).
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "filter_p")]
#[doc(alias = "plausibility")]
pub struct BaseFilter {
    top_k: Option<TopK>,
    top_p: Option<TopP>,
    min_p: Option<MinP>,
}

impl BaseFilter {
    /// Keeps the `top_k` most probable tokens; of those the smallest set that reaches the mass `top_p`; of those the
    /// ones with at least `min_p` times the probability of the best. `None` disables a step.
    ///
    /// # Errors
    /// [`OutOfRange`] under the conditions of [`TopK`], [`TopP`] and [`MinP`].
    pub fn new(top_k: Option<usize>, top_p: Option<f64>, min_p: Option<f64>) -> Result<Self, OutOfRange> {
        Ok(Self {
            top_k: top_k.map(TopK::new).transpose()?,
            top_p: top_p.map(TopP::new).transpose()?,
            min_p: min_p.map(MinP::new).transpose()?,
        })
    }

    /// Whether it keeps all tokens.
    pub fn is_none(&self) -> bool {
        self.top_k.is_none() && self.top_p.is_none() && self.min_p.is_none()
    }

    /// Forbids the excluded tokens in a row. `space` is scratch space.
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
