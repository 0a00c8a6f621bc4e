//! The fields of mixtures of experts.

use super::values::{Described, Values};

/// The weights of experts, as ggml numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gating {
    Softmax = 1,
    SoftmaxOfChosen = 3,
}

/// The settings of a family's routers, where a file does not say otherwise.
pub(super) struct Routers {
    pub(super) gating: Gating,
    /// Whether the weights of the chosen experts are divided by their sum; `None` if the family always does so, or if
    /// it makes no difference.
    pub(super) normalized: Option<bool>,
}

/// Describes the experts of a file, and their routers.
pub(super) fn experts(of: &Values<'_>, to: &mut Described, routers: &Routers) -> Result<(), String> {
    let (experts, chosen) = (of.size("expert_count")?, of.size("expert_used_count")?);
    to.put("num_experts", experts);
    to.put("num_experts_per_tok", chosen);
    if experts == 0 {
        return Err(format!("{} is 0, but {} has experts", of.name("expert_count"), of.architecture));
    }
    let gating = of.size_or("expert_gating_func")?.unwrap_or(0);
    if gating != 0 && gating != routers.gating as usize {
        return Err(format!("{} = {gating} is not supported", of.name("expert_gating_func")));
    }
    match routers.normalized {
        Some(usual) => to.put("norm_topk_prob", of.truth("expert_weights_norm")?.unwrap_or(usual)),
        None => of.refuse("expert_weights_norm", 1.0)?,
    }
    // Files without a factor say 0 or 1.
    if of.number("expert_weights_scale")? != Some(0.0) {
        of.refuse("expert_weights_scale", 1.0)?;
    }
    if of.size_or("expert_group_count")?.unwrap_or(0) > 1 {
        of.refuse("expert_group_count", 1.0)?;
    }
    Ok(())
}
