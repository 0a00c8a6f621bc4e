//! The fields that most decoders have.

use serde_json::{Value as Json, json};
use verdigris_text::shown;

use super::values::{Described, Values};

/// The parts of a head that are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rotated {
    /// All of it.
    Whole,
    /// A part that the file states.
    Part,
}

/// The elements of a head.
pub(super) fn head_dim(of: &Values<'_>) -> Result<usize, String> {
    match of.size_or("attention.key_length")? {
        Some(head_dim) => Ok(head_dim),
        None => Ok(of.size("embedding_length")?.checked_div(of.size("attention.head_count")?).unwrap_or(0)),
    }
}

/// Describes a decoder with attention in each layer and rotary positions.
pub(super) fn decoder(of: &Values<'_>, to: &mut Described, model_type: &str, rotated: Rotated) -> Result<(), String> {
    let attends = in_some_layers(of, to, model_type, rotated)?;
    if attends.contains(&false) {
        let name = of.name("attention.head_count_kv");
        return Err(format!("{name} is not a number of things, and the same for all layers"));
    }
    Ok(())
}

/// Describes a decoder with attention and rotary positions. Also returns which layers have attention: those that have
/// heads for keys.
pub(super) fn in_some_layers(
    of: &Values<'_>,
    to: &mut Described,
    model_type: &str,
    rotated: Rotated,
) -> Result<Vec<bool>, String> {
    outside(of, to, model_type)?;
    to.put("intermediate_size", of.size("feed_forward_length")?);
    let heads = of.size("attention.head_count")?;
    to.put("num_attention_heads", heads);
    let kv_heads =
        of.sizes("attention.head_count_kv")?.map_or_else(|| Ok(vec![heads; of.layers()?]), Ok::<_, String>)?;
    let first = kv_heads.iter().copied().find(|&heads| heads > 0).unwrap_or(0);
    if kv_heads.iter().any(|&heads| heads > 0 && heads != first) {
        let name = of.name("attention.head_count_kv");
        return Err(format!("{name} is not a number of things, and the same for all layers"));
    }
    to.put("num_key_value_heads", first);
    let head_dim = head_dim(of)?;
    to.put("head_dim", head_dim);
    to.put("attention_bias", false);
    for name in ["rope.dimension_count", "attention.value_length"] {
        let is_free = rotated == Rotated::Part && name == "rope.dimension_count";
        if let Some(elements) = of.size_or(name)?.filter(|&elements| elements != head_dim && !is_free) {
            let name = of.name(name);
            return Err(format!("{name} is {elements} where heads have {head_dim} elements, which is not supported"));
        }
    }
    if let Some(elements) = of.size_or("rope.dimension_count")?.filter(|_| rotated == Rotated::Part) {
        if elements > head_dim {
            let name = of.name("rope.dimension_count");
            return Err(format!("{name} is {elements}, but heads have {head_dim} elements"));
        }
        // Half an element more, because a family takes the whole part of the product.
        let share = if elements == head_dim { 1.0 } else { (elements as f64 + 0.5) / head_dim as f64 };
        to.put("partial_rotary_factor", share);
    }
    rotary(of, to)?;
    Ok(kv_heads.iter().map(|&heads| heads > 0).collect())
}

/// Describes what is outside of layers.
pub(super) fn outside(of: &Values<'_>, to: &mut Described, model_type: &str) -> Result<(), String> {
    to.put("model_type", model_type);
    to.put("vocab_size", vocabulary(of)?);
    to.put("hidden_size", of.size("embedding_length")?);
    to.put("num_hidden_layers", of.layers()?);
    to.put("max_position_embeddings", of.size("context_length")?);
    to.put("rms_norm_eps", of.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5));
    to.put("tie_word_embeddings", !of.has_tensor("output.weight"));
    Ok(())
}

/// The rows of the embedding, or the number of tokens.
pub(super) fn vocabulary(of: &Values<'_>) -> Result<usize, String> {
    let tokens = of.gguf.texts("tokenizer.ggml.tokens").map(<[_]>::len);
    let rows = of.gguf.tensors.get("token_embd.weight").and_then(|stored| stored.rows());
    rows.or(tokens).ok_or_else(|| "token_embd.weight is missing".into())
}

/// Describes rotary positions.
pub(super) fn rotary(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    to.put("rope_theta", of.number("rope.freq_base")?.unwrap_or(10_000.0));
    to.put_some("rope_scaling", scaling(of)?);
    Ok(())
}

/// The scaling of rotary positions, if there is any.
pub(super) fn scaling(of: &Values<'_>) -> Result<Option<Json>, String> {
    let factor = of.number("rope.scaling.factor")?.unwrap_or(1.0);
    Ok(match of.text("rope.scaling.type")? {
        None | Some("none") => None,
        // Its factors are read with the tensors.
        Some("longrope") if of.has_tensor("rope_factors_long.weight") => None,
        Some("linear") => Some(json!({"type": "linear", "factor": factor})),
        Some("yarn") => {
            // Files of DeepSeek have a tenth of it, and the other factor is the same.
            let is_deepseek = of.architecture == "deepseek2";
            let of_all = of.number("rope.scaling.yarn_log_multiplier")?.filter(|&by| by != 0.0);
            let of_all = of_all.map(|by| if is_deepseek { by / 0.1 } else { by });
            Some(json!({
                "type": "yarn",
                "factor": factor,
                "original_max_position_embeddings": of.size("rope.scaling.original_context_length")?,
                "beta_fast": of.number("rope.scaling.yarn_beta_fast")?,
                "beta_slow": of.number("rope.scaling.yarn_beta_slow")?,
                // Files say 1 too where the factor depends on the scaling.
                "attention_factor": of.number("rope.scaling.yarn_attn_factor")?.filter(|&factor| factor != 1.0),
                "mscale": of_all.map(|by| if is_deepseek { by } else { 1.0 }),
                "mscale_all_dim": of_all,
                // Files do not say this, and llama.cpp always truncates, but gpt-oss was trained without.
                "truncate": of.architecture != "gpt-oss",
            }))
        }
        Some(other) => {
            return Err(format!("rotary positions of type {:?} are not supported; linear and yarn are", shown(other)));
        }
    })
}
