//! Rotary positions in the configurations of all families.

use serde_json::Value;
use verdigris_text::shown;

use super::Fields;
use crate::description::config::{Pairs, Rotary, Scaling};

/// Values that a family has elsewhere.
pub(super) struct Elsewhere {
    /// The base of the wavelengths.
    pub(super) theta: f64,
    pub(super) head_dim: usize,
    /// The default fraction of a head that is rotated, for a family that can rotate less than all of it.
    pub(super) share: Option<f64>,
    /// The most tokens in one text.
    pub(super) context: usize,
}

/// The object that describes rotary positions: `rope_scaling` in older files, `rope_parameters` in those of
/// transformers 5.
pub(super) fn parameters(fields: &Fields) -> Result<Option<Fields>, String> {
    Ok(fields.inner("rope_scaling")?.or(fields.inner("rope_parameters")?))
}

/// Reads rotary positions from a configuration.
pub(super) fn rotary(fields: &Fields, parameters: Option<&Fields>, of: &Elsewhere) -> Result<Rotary, String> {
    let number = |name: &str| parameters.map_or(Ok(None), |parameters| parameters.number(name));
    let theta = number("rope_theta")?.unwrap_or(of.theta);
    let share = number("partial_rotary_factor")?.or(fields.number("partial_rotary_factor")?);
    let share = match (of.share, share) {
        (Some(usual), share) => share.unwrap_or(usual),
        (None, None | Some(1.0)) => 1.0,
        (None, Some(share)) => {
            return Err(format!("partial_rotary_factor = {share} is not supported for its model_type"));
        }
    };
    if !(0.0..=1.0).contains(&share) {
        return Err(format!("partial_rotary_factor is {share}, but a part of a head is from 0 to 1"));
    }
    let elements = (share < 1.0).then_some((of.head_dim as f64 * share) as usize);
    let kind = match parameters {
        Some(parameters) => parameters.text("rope_type")?.or(parameters.text("type")?),
        None => None,
    };
    let missing = |name: &str| format!("rotary positions of type {:?} have no {name}", shown(kind.unwrap_or_default()));
    let needed = |name: &str| number(name)?.ok_or_else(|| missing(name));
    let scaling = match kind.unwrap_or("default") {
        "default" => Scaling::None,
        "linear" => Scaling::Linear(needed("factor")?),
        "llama3" => Scaling::Llama3 {
            factor: needed("factor")?,
            low_freq_factor: needed("low_freq_factor")?,
            high_freq_factor: needed("high_freq_factor")?,
            context: needed("original_max_position_embeddings")?,
        },
        "yarn" => yarn(fields, parameters, of.context, needed("factor")?)?,
        "longrope" | "su" => long_rope(fields, parameters, of.context)?,
        "dynamic" => Scaling::Dynamic { factor: needed("factor")?, context: of.context },
        other => {
            return Err(format!(
                "rotary positions of type {:?} are not supported; default, linear, llama3, yarn, longrope and dynamic \
                 are",
                shown(other)
            ));
        }
    };
    let pairs = if fields.flag("rope_neighbours", false)? { Pairs::Neighbours } else { Pairs::Halves };
    Ok(Rotary { theta, elements, pairs, scaling })
}

/// The longest texts: with a dynamic base, longer ones than the model was trained on.
pub(super) fn longest(trained: usize, rotary: &[Rotary]) -> usize {
    match rotary {
        [Rotary { scaling: Scaling::Dynamic { factor, .. }, .. }, ..] => (trained as f64 * factor) as usize,
        _ => trained,
    }
}

/// The original context length, and how much longer texts may be now.
pub(super) fn first_context(fields: &Fields, parameters: Option<&Fields>, now: usize) -> Result<(usize, f64), String> {
    let name = ["original_max_position_embeddings"];
    let of = parameters.map_or(Ok(None), |parameters| parameters.size_or(&name))?;
    let outside = fields.size_or(&name)?;
    if let (Some(of), Some(outside)) = (of, outside)
        && of != outside
    {
        return Err(format!("{} is {outside}, but {of} among the rotary parameters: one of the two is wrong", name[0]));
    }
    let first = of.or(outside).unwrap_or(now);
    Ok((first, now as f64 / first as f64))
}

/// YaRN's factor of queries and of keys in texts that are longer by `factor`: softmax is sharper the longer the text
/// (section 3.4 of the paper).
pub(super) fn sharper(factor: f64, by: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 }
}

fn yarn(fields: &Fields, parameters: Option<&Fields>, context: usize, factor: f64) -> Result<Scaling, String> {
    let of = |name: &str| parameters.map_or(Ok(None), |parameters| parameters.number(name));
    let sharper = |by: f64| sharper(factor, by);
    let magnitude = match (of("attention_factor")?, of("mscale")?, of("mscale_all_dim")?) {
        (Some(magnitude), ..) => magnitude,
        (None, Some(some), Some(all)) if some != 0.0 && all != 0.0 => sharper(some) / sharper(all),
        _ => sharper(1.0),
    };
    Ok(Scaling::Yarn {
        factor,
        beta_fast: of("beta_fast")?.unwrap_or(32.0),
        beta_slow: of("beta_slow")?.unwrap_or(1.0),
        context: first_context(fields, parameters, context)?.0 as f64,
        magnitude,
        truncate: parameters.map_or(Ok(true), |parameters| parameters.flag("truncate", true))?,
    })
}

fn long_rope(fields: &Fields, parameters: Option<&Fields>, context: usize) -> Result<Scaling, String> {
    let list = |name: &str| {
        let list = parameters.map_or(Ok(None), |parameters| parameters.list(name))?;
        let numbers = list.and_then(|list| list.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>());
        numbers.ok_or_else(|| format!("rotary positions of type \"longrope\" have no {name} of numbers"))
    };
    let of = |name: &str| parameters.map_or(Ok(None), |parameters| parameters.number(name));
    let (context, longer) = first_context(fields, parameters, context)?;
    let longer = of("factor")?.unwrap_or(longer);
    let by_length = if longer <= 1.0 { 1.0 } else { (1.0 + longer.ln() / (context as f64).ln()).sqrt() };
    let magnitude = of("attention_factor")?.unwrap_or(by_length);
    Ok(Scaling::LongRope { short: list("short_factor")?, long: list("long_factor")?, context, magnitude })
}
