//! A GGUF file's description and names in Hugging Face's terms.

use serde_json::{Map, Value as Json, json};
use verdigris_logits::TokenId;

use super::{Gguf, Value};
use crate::checkpoint::Checkpoint;
use crate::families::Fields;

/// The architectures of which a file can be read.
const ARCHITECTURES: [&str; 6] = ["gemma2", "gemma3", "llama", "qwen2", "qwen3", "smollm3"];

/// The fields that a `config.json` would have; what is missing.
pub(crate) fn fields(gguf: &Gguf) -> Result<Fields, String> {
    let architecture = gguf.text("general.architecture").ok_or("general.architecture is missing")?;
    if !ARCHITECTURES.contains(&architecture) {
        let known = ARCHITECTURES.join(", ");
        return Err(format!("the architecture {architecture:?} is not supported in GGUF files; these are: {known}"));
    }
    let of = |name: &str| format!("{architecture}.{name}");
    let size = |name: &str| gguf.size(&of(name)).ok_or_else(|| format!("{} is missing", of(name)));
    let number = |name: &str| gguf.get(&of(name)).and_then(Value::number);
    let tokens = gguf.get("tokenizer.ggml.tokens").and_then(Value::list).map(<[_]>::len);
    let vocabulary = gguf.tensors.get("token_embd.weight").and_then(|stored| stored.rows()).or(tokens);
    let mut fields = Map::new();
    let mut put = |name: &str, value: Json| drop(fields.insert(name.to_owned(), value));
    put("model_type", architecture.into());
    put("vocab_size", vocabulary.ok_or("token_embd.weight is missing")?.into());
    put("hidden_size", size("embedding_length")?.into());
    put("intermediate_size", size("feed_forward_length")?.into());
    put("num_hidden_layers", size("block_count")?.into());
    let heads = size("attention.head_count")?;
    put("num_attention_heads", heads.into());
    put("num_key_value_heads", size("attention.head_count_kv").unwrap_or(heads).into());
    if let Ok(head_dim) = size("attention.key_length") {
        put("head_dim", head_dim.into());
    }
    put("max_position_embeddings", size("context_length")?.into());
    put("rms_norm_eps", number("attention.layer_norm_rms_epsilon").unwrap_or(1e-5).into());
    put("rope_theta", number("rope.freq_base").unwrap_or(10_000.0).into());
    put("tie_word_embeddings", (!gguf.has_tensor("output.weight")).into());
    put("attention_bias", false.into());
    if let Ok(window) = size("attention.sliding_window") {
        put("sliding_window", window.into());
    }
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if let Some(cap) = number(name) {
            put(name, cap.into());
        }
    }
    match gguf.text(&of("rope.scaling.type")) {
        None | Some("none") => {}
        Some("linear") => {
            put("rope_scaling", json!({"type": "linear", "factor": number("rope.scaling.factor").unwrap_or(1.0)}));
        }
        Some("yarn") => {
            let scaling = json!({
                "type": "yarn",
                "factor": number("rope.scaling.factor").unwrap_or(1.0),
                "original_max_position_embeddings": size("rope.scaling.original_context_length")?,
            });
            put("rope_scaling", scaling);
        }
        Some(other) => {
            return Err(format!("rotary positions of type {other:?} are not supported; linear and yarn are"));
        }
    }
    if architecture.starts_with("gemma") {
        // A file says nothing of it; but for the largest models it is the head's size.
        put("query_pre_attn_scalar", size("attention.key_length")?.into());
        put("norms_are_whole", true.into());
    }
    if architecture == "llama" || architecture == "smollm3" {
        // These files have the elements of heads in another order.
        put("rope_neighbours", true.into());
    }
    if architecture == "smollm3" {
        // A file says nothing of it: every fourth layer knows no positions.
        let layers = size("block_count")?.min(1 << 16);
        let turns: Vec<u8> = (1..=layers).map(|layer| u8::from(!layer.is_multiple_of(4))).collect();
        put("no_rope_layers", turns.into());
    }
    if gguf.has_tensor("rope_freqs.weight") {
        put("rope_has_factors", true.into());
    }
    for name in ["eos_token_id", "bos_token_id"] {
        let id = gguf.get(&format!("tokenizer.ggml.{name}")).and_then(Value::integer);
        if let Some(id) = id.and_then(|id| TokenId::try_from(id).ok()) {
            put(name, id.into());
        }
    }
    Ok(Fields::of(fields))
}

/// The weights under the names that Hugging Face has for them.
pub(crate) fn checkpoint(gguf: &Gguf) -> Checkpoint {
    let architecture = gguf.text("general.architecture").unwrap_or_default();
    let around = architecture.starts_with("gemma");
    gguf.checkpoint(|name| {
        Some(match name {
            "token_embd.weight" => "model.embed_tokens.weight".into(),
            "output_norm.weight" => "model.norm.weight".into(),
            "output.weight" => "lm_head.weight".into(),
            "rope_freqs.weight" => "rope_freqs".into(),
            _ => {
                let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
                let (part, kind) = part.rsplit_once('.')?;
                let part = match part {
                    "attn_norm" => "input_layernorm",
                    "attn_q" => "self_attn.q_proj",
                    "attn_k" => "self_attn.k_proj",
                    "attn_v" => "self_attn.v_proj",
                    "attn_q_norm" => "self_attn.q_norm",
                    "attn_k_norm" => "self_attn.k_norm",
                    "attn_output" => "self_attn.o_proj",
                    "post_attention_norm" => "post_attention_layernorm",
                    "ffn_norm" if around => "pre_feedforward_layernorm",
                    "ffn_norm" => "post_attention_layernorm",
                    "post_ffw_norm" => "post_feedforward_layernorm",
                    "ffn_gate" => "mlp.gate_proj",
                    "ffn_up" => "mlp.up_proj",
                    "ffn_down" => "mlp.down_proj",
                    _ => return None,
                };
                format!("model.layers.{layer}.{part}.{kind}")
            }
        })
    })
}
