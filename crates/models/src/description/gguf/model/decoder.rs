//! The fields that most decoders have.

use serde_json::json;
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
    outside(of, to, model_type)?;
    to.put("intermediate_size", of.size("feed_forward_length")?);
    let heads = of.size("attention.head_count")?;
    to.put("num_attention_heads", heads);
    to.put("num_key_value_heads", of.size_or("attention.head_count_kv")?.unwrap_or(heads));
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
    rotary(of, to)
}

/// Describes what is outside of layers.
pub(super) fn outside(of: &Values<'_>, to: &mut Described, model_type: &str) -> Result<(), String> {
    let tokens = of.gguf.texts("tokenizer.ggml.tokens").map(<[_]>::len);
    let vocabulary = of.gguf.tensors.get("token_embd.weight").and_then(|stored| stored.rows()).or(tokens);
    to.put("model_type", model_type);
    to.put("vocab_size", vocabulary.ok_or("token_embd.weight is missing")?);
    to.put("hidden_size", of.size("embedding_length")?);
    to.put("num_hidden_layers", of.layers()?);
    to.put("max_position_embeddings", of.size("context_length")?);
    to.put("rms_norm_eps", of.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5));
    to.put("tie_word_embeddings", !of.has_tensor("output.weight"));
    Ok(())
}

/// Describes rotary positions.
fn rotary(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    to.put("rope_theta", of.number("rope.freq_base")?.unwrap_or(10_000.0));
    let factor = of.number("rope.scaling.factor")?.unwrap_or(1.0);
    match of.text("rope.scaling.type")? {
        None | Some("none") => {}
        // Its factors are read with the tensors.
        Some("longrope") if of.has_tensor("rope_factors_long.weight") => {}
        Some("linear") => to.put("rope_scaling", json!({"type": "linear", "factor": factor})),
        Some("yarn") => {
            let scaling = json!({
                "type": "yarn",
                "factor": factor,
                "original_max_position_embeddings": of.size("rope.scaling.original_context_length")?,
                "beta_fast": of.number("rope.scaling.yarn_beta_fast")?,
                "beta_slow": of.number("rope.scaling.yarn_beta_slow")?,
                // The file does not say, and llama.cpp does not truncate otherwise; but gpt-oss was trained without.
                "truncate": of.architecture != "gpt-oss",
            });
            to.put("rope_scaling", scaling);
        }
        Some(other) => {
            return Err(format!("rotary positions of type {:?} are not supported; linear and yarn are", shown(other)));
        }
    }
    Ok(())
}
