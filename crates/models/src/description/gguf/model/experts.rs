//! The fields of mixtures of experts.

use super::values::{Described, Values};

/// The weights of experts before some are chosen, as ggml numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gating {
    Softmax = 1,
    Sigmoid = 2,
    SoftmaxOfChosen = 3,
}

/// The routers of a family.
pub(super) struct Routers {
    pub(super) gating: Gating,
    /// Whether the weights of the chosen experts are divided by their sum, if the file does not say so; `None` if the
    /// family always does so, or if it makes no difference.
    pub(super) normalized: Option<bool>,
    /// Whether weights can have a factor, and experts be chosen from some groups only.
    pub(super) scaled_and_grouped: bool,
}

impl Routers {
    /// Softmax over all experts.
    pub(super) const fn softmax(normalized: Option<bool>) -> Self {
        Self { gating: Gating::Softmax, normalized, scaled_and_grouped: false }
    }

    /// Those of DeepSeek-V3.
    pub(super) const SIGMOID: Self =
        Self { gating: Gating::Sigmoid, normalized: Some(false), scaled_and_grouped: true };
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
    let scale = of.number("expert_weights_scale")?.filter(|&scale| scale != 0.0);
    let groups = of.size_or("expert_group_count")?.unwrap_or(0);
    if routers.scaled_and_grouped {
        to.put("routed_scaling_factor", scale.unwrap_or(1.0));
        to.put("n_group", groups.max(1));
        to.put("topk_group", of.size_or("expert_group_used_count")?.unwrap_or(0).max(1));
        return Ok(());
    }
    if scale.is_some() {
        of.refuse("expert_weights_scale", 1.0)?;
    }
    if groups > 1 {
        of.refuse("expert_group_count", 1.0)?;
    }
    Ok(())
}

/// Describes the width of an expert, where the family has another name for that of other networks.
pub(super) fn width_of_experts(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    let width = match of.size_or("expert_feed_forward_length")? {
        Some(width) => width,
        // Older files say what all experts of a token have together.
        None => of.size("feed_forward_length")?.checked_div(of.size("expert_used_count")?).unwrap_or(0),
    };
    to.put("moe_intermediate_size", width);
    Ok(())
}
