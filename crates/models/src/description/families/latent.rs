//! Attention to latent vectors: its description, and its weights.

use super::fields::Fields;
use super::prefixed::Prefixed;
use super::rotary::{parameters, sharper};
use crate::description::config::LatentAttention;
use crate::description::parts::LatentParts;
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The attention of all layers.
pub(super) fn latent(fields: &Fields) -> Result<LatentAttention, String> {
    let size = |name: &str| fields.size(&[name]);
    let heads = size("num_attention_heads")?;
    if let Some(kv_heads) = fields.size_or(&["num_key_value_heads"])?.filter(|&kv_heads| kv_heads != heads) {
        return Err(format!(
            "num_key_value_heads is {kv_heads}, but must be num_attention_heads, which is {heads}, with kv_lora_rank"
        ));
    }
    let (unrotated, rotated) = (size("qk_nope_head_dim")?, size("qk_rope_head_dim")?);
    Ok(LatentAttention {
        heads,
        query_rank: fields.size_or(&["q_lora_rank"])?,
        rank: size("kv_lora_rank")?,
        unrotated,
        rotated,
        value_dim: size("v_head_dim")?,
        rotary: Some(0),
        scale: scale(fields, unrotated.saturating_add(rotated))?,
        bias: fields.flag("attention_bias", false)?,
        // transformers has this one, whatever `rms_norm_eps` is.
        epsilon: 1e-6,
    })
}

/// The factor of scores: with scaled positions, `mscale_all_dim` is a part of it.
fn scale(fields: &Fields, head_dim: usize) -> Result<f64, String> {
    let plain = (head_dim as f64).powf(-0.5);
    let Some(parameters) = parameters(fields)? else { return Ok(plain) };
    let kind = parameters.text("rope_type")?.or(parameters.text("type")?).unwrap_or("default");
    let by = parameters.number("mscale_all_dim")?.filter(|&by| by != 0.0 && kind != "default");
    Ok(match (by, parameters.number("factor")?) {
        (Some(by), Some(factor)) => plain * sharper(factor, by).powi(2),
        _ => plain,
    })
}

/// The weights of attention, whose names begin with `prefix`.
pub(super) fn parts(
    names: &Prefixed<'_>,
    prefix: &str,
    width: usize,
    of: &LatentAttention,
) -> Result<LatentParts, ModelError> {
    let &LatentAttention { heads, query_rank, rank, unrotated, rotated, value_dim, bias, .. } = of;
    let name = |part: &str| format!("{prefix}.{part}");
    let projection = |part: &str, out, input, bias| names.projection(&name(part), out, input, bias);
    let norm = |part: &str, length| names.vector(&name(&format!("{part}_layernorm.weight")), length);
    let of_query = heads * (unrotated + rotated);
    let (query_down, query) = match query_rank {
        Some(rank) => {
            let down = (projection("q_a_proj", rank, width, bias)?, norm("q_a", rank)?);
            (Some(down), projection("q_b_proj", of_query, rank, false)?)
        }
        None => (None, projection("q_proj", of_query, width, false)?),
    };
    let (keys, values) = if names.has(&name("k_b_proj.weight")) {
        // Files of llama.cpp have the two apart, and that of keys transposed.
        let keys = names.stacked(&name("k_b_proj.weight"), [heads, rank, unrotated])?;
        (keys, names.stacked(&name("v_b_proj.weight"), [heads, value_dim, rank])?)
    } else {
        let both = projection("kv_b_proj", heads * (unrotated + value_dim), rank, false)?.matrix;
        let of_head = |head: usize| {
            let from = head * (unrotated + value_dim);
            let keys = both.part(from..from + unrotated).transposed().ok_or_else(|| ModelError::Weight {
                name: name("kv_b_proj.weight"),
                fault: format!("is stored as {:?}, in blocks, and cannot be transposed", both.format()),
            })?;
            Ok((keys, both.part(from + unrotated..from + unrotated + value_dim)))
        };
        let all: Vec<(Weight, Weight)> = (0..heads).map(of_head).collect::<Result<_, ModelError>>()?;
        all.into_iter().unzip()
    };
    Ok(LatentParts {
        query_down,
        query,
        down: projection("kv_a_proj_with_mqa", rank + rotated, width, bias)?,
        norm: norm("kv_a", rank)?,
        keys,
        values,
        output: projection("o_proj", width, heads * value_dim, bias)?,
    })
}
