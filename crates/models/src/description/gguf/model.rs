//! A GGUF file's description and names in Hugging Face's terms.

use super::Gguf;
use crate::description::checkpoint::Checkpoint;
use crate::description::families::Fields;
use serde_json::{Map, Value as Json, json};
use verdigris_text::shown;

/// The supported architectures.
const ARCHITECTURES: [&str; 6] = ["gemma2", "gemma3", "llama", "qwen2", "qwen3", "smollm3"];

/// The fields that a `config.json` would have. The error says what is missing or not supported.
pub(crate) fn fields(gguf: &Gguf) -> Result<Fields, String> {
    let architecture = gguf.text("general.architecture")?.ok_or("general.architecture is missing")?;
    if !ARCHITECTURES.contains(&architecture) {
        let known = ARCHITECTURES.join(", ");
        let architecture = shown(architecture);
        return Err(format!("the architecture {architecture:?} is not supported in GGUF files; these are: {known}"));
    }
    let of = |name: &str| format!("{architecture}.{name}");
    let size_or = |name: &str| gguf.size(&of(name));
    let size = |name: &str| size_or(name)?.ok_or_else(|| format!("{} is missing", of(name)));
    let number = |name: &str| gguf.number(&of(name));
    refuse(gguf, of)?;
    let tokens = gguf.texts("tokenizer.ggml.tokens").map(<[_]>::len);
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
    put("num_key_value_heads", size_or("attention.head_count_kv")?.unwrap_or(heads).into());
    let head_dim = match size_or("attention.key_length")? {
        Some(head_dim) => head_dim,
        None => size("embedding_length")?.checked_div(heads).unwrap_or(0),
    };
    put("head_dim", head_dim.into());
    for name in ["rope.dimension_count", "attention.value_length"] {
        if let Some(elements) = size_or(name)?.filter(|&elements| elements != head_dim) {
            let name = of(name);
            return Err(format!("{name} is {elements} where heads have {head_dim} elements, which is not supported"));
        }
    }
    put("max_position_embeddings", size("context_length")?.into());
    put("rms_norm_eps", number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5).into());
    put("rope_theta", number("rope.freq_base")?.unwrap_or(10_000.0).into());
    if let Some(theta) = number("rope.freq_base_swa")? {
        put("rope_local_base_freq", theta.into());
    }
    put("tie_word_embeddings", (!gguf.has_tensor("output.weight")).into());
    put("attention_bias", false.into());
    for (name, field) in
        [("attention.sliding_window", "sliding_window"), ("attention.sliding_window_pattern", "sliding_window_pattern")]
    {
        if let Some(size) = size_or(name)? {
            put(field, size.into());
        }
    }
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        if let Some(cap) = number(name)? {
            put(name, cap.into());
        }
    }
    let factor = number("rope.scaling.factor")?.unwrap_or(1.0);
    match gguf.text(&of("rope.scaling.type"))? {
        None | Some("none") => {}
        Some("linear") => put("rope_scaling", json!({"type": "linear", "factor": factor})),
        Some("yarn") => {
            let scaling = json!({
                "type": "yarn",
                "factor": factor,
                "original_max_position_embeddings": size("rope.scaling.original_context_length")?,
                "beta_fast": number("rope.scaling.yarn_beta_fast")?,
                "beta_slow": number("rope.scaling.yarn_beta_slow")?,
            });
            put("rope_scaling", scaling);
        }
        Some(other) => {
            return Err(format!("rotary positions of type {:?} are not supported; linear and yarn are", shown(other)));
        }
    }
    if architecture.starts_with("gemma") {
        // The file does not say; except for the largest models it is the size of a head.
        put("query_pre_attn_scalar", head_dim.into());
        put("norms_are_whole", true.into());
    }
    if architecture == "llama" || architecture == "smollm3" {
        // These files have the elements of heads in another order.
        put("rope_neighbours", true.into());
    }
    // SmolLM3's files do not list the layers without positions; the default applies: every fourth.
    let ids = |names: &[&str]| {
        let id = |name: &&str| gguf.size(&format!("tokenizer.ggml.{name}"));
        let ids: Vec<Option<usize>> = names.iter().map(id).collect::<Result<_, String>>()?;
        Ok::<Vec<usize>, String>(ids.into_iter().flatten().collect())
    };
    let mut ends = ids(&["eos_token_id", "eot_token_id", "eom_token_id"])?;
    ends.extend(ends_by_name(gguf).filter(|id| !ends.contains(id)).collect::<Vec<_>>());
    put("eos_token_id", ends.into());
    put("bos_token_id", ids(&["bos_token_id"])?.into());
    Ok(Fields::of(fields))
}

/// Control tokens whose names say that they end a turn, a message or a text: files list one or two of them, and
/// llama.cpp uses all.
fn ends_by_name(gguf: &Gguf) -> impl Iterator<Item = usize> {
    const NAMES: [&str; 10] = [
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<end_of_turn>",
        "<EOT>",
        "<eos>",
        "</s>",
    ];
    let tokens = gguf.texts("tokenizer.ggml.tokens").unwrap_or_default();
    let is_control = move |id: usize| super::tokenizer::is_control(gguf, id);
    tokens
        .iter()
        .enumerate()
        .filter(move |(id, token)| NAMES.contains(&token.as_str()) && is_control(*id))
        .map(|(id, _)| id)
}

/// Refuses values that would change a model's logits and are not supported.
fn refuse(gguf: &Gguf, of: impl Fn(&str) -> String) -> Result<(), String> {
    let unusual = [
        ("expert_count", 0.0),
        ("attention.scale", f64::NAN),
        ("attention.clamp_kqv", f64::NAN),
        ("attention.max_alibi_bias", 0.0),
        ("embedding_scale", 1.0),
        ("residual_scale", 1.0),
        ("logit_scale", 1.0),
        ("rope.scale_linear", 1.0),
        ("rope.scaling.attn_factor", 1.0),
        ("rope.scaling.yarn_ext_factor", 1.0),
        ("rope.scaling.yarn_attn_factor", 1.0),
    ];
    for (name, usual) in unusual.map(|(name, usual)| (of(name), usual)) {
        if let Some(value) = gguf.number(&name)?.filter(|value| *value != usual) {
            return Err(format!("{name} = {value} is not supported"));
        }
    }
    if gguf.truth(&of("attention.causal"))? == Some(false) {
        return Err(format!("{} = false is not supported", of("attention.causal")));
    }
    let architecture = gguf.text("general.architecture")?.unwrap_or_default();
    // Only Qwen2's first projections have biases.
    let is_known = |name: &str| {
        let has_bias = |part: &str| part == "attn_q" || part == "attn_k" || part == "attn_v";
        match name.strip_prefix("blk.").and_then(|name| name.split_once('.')?.1.rsplit_once('.')) {
            Some((part, "bias")) => architecture == "qwen2" && has_bias(part),
            _ => renamed(name, architecture).is_some(),
        }
    };
    let mut unknown: Vec<&String> = gguf.tensors.keys().filter(|name| !is_known(name)).collect();
    unknown.sort_unstable();
    let fault = |name: &&String| format!("the tensor {:?} is not known in files of {architecture}", shown(name));
    unknown.first().map_or(Ok(()), |name| Err(fault(name)))
}

/// Whether a file has a factor for each wavelength of rotary positions.
pub(crate) fn has_factors(gguf: &Gguf) -> bool {
    gguf.has_tensor("rope_freqs.weight")
}

/// The weights under their Hugging Face names.
pub(crate) fn checkpoint(gguf: &Gguf) -> Checkpoint {
    let architecture = gguf.text("general.architecture").ok().flatten().unwrap_or_default();
    gguf.checkpoint(|name| renamed(name, architecture))
}

/// The Hugging Face name of a tensor in a file of llama.cpp.
fn renamed(name: &str, architecture: &str) -> Option<String> {
    let around = architecture.starts_with("gemma");
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::gguf::write::{Planned, Put, head};
    use std::sync::Arc;
    use verdigris_kernels::Bytes;
    use verdigris_kernels::Format;

    /// The values that describe a model, with additional or replaced ones.
    fn described(more: Vec<(&str, Put)>) -> Vec<(String, Put)> {
        let values = [
            ("general.architecture", Put::Text("llama".into())),
            ("llama.context_length", Put::U32(64)),
            ("llama.embedding_length", Put::U32(32)),
            ("llama.block_count", Put::U32(2)),
            ("llama.feed_forward_length", Put::U32(48)),
            ("llama.attention.head_count", Put::U32(4)),
        ];
        values.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The description in a file with additional or replaced values and a tensor. The error says what is wrong with it.
    fn read(more: Vec<(&str, Put)>, tensor: &str) -> Result<crate::DecoderConfig, String> {
        let tensors = ["token_embd.weight", tensor].map(|name| Planned {
            name: name.to_owned(),
            shape: vec![61, 32],
            format: Format::F32,
        });
        let mut file = head(&described(more), &tensors);
        file.resize(file.len() + 2 * 61 * 32 * 4, 0);
        let fields = fields(&Gguf::parse(&Bytes::new(Arc::new(file)))?)?;
        let config = (crate::description::families::family(&fields).ok().expect("a family").config)(&fields)?;
        config.check().map(|()| config).map_err(|fault| fault.to_string())
    }

    #[test]
    fn texts_end_with_what_the_file_names_and_with_control_tokens_that_are_called_so() {
        let tokens = ["<|im_end|>", "a", "</s>", "<|endoftext|>", "stop"].map(str::to_owned);
        let values = described(vec![
            ("tokenizer.ggml.tokens", Put::Texts(tokens.into())),
            // The second to last is text that only looks like an end token.
            ("tokenizer.ggml.token_type", Put::Integers(vec![3, 1, 3, 1, 3])),
            ("tokenizer.ggml.eos_token_id", Put::U32(4)),
        ]);
        let fields = fields(&Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap()).unwrap();
        assert_eq!(fields.get("eos_token_id"), Some(&json!([4, 0, 2])));
    }

    #[test]
    fn a_description_is_understood_or_refused_by_the_name_of_the_value() {
        let usual = || ("llama.rope.dimension_count", Put::U32(8));
        let config = read(vec![usual()], "output.weight").unwrap();
        assert_eq!((config.vocabulary, config.rotated_head(0), config.tied), (61, 8, false));
        for (name, value, said) in [
            ("llama.rope.freq_base", Put::F32(f32::NAN), "llama.rope.freq_base is not a number"),
            ("llama.rope.freq_base", Put::F32(-1.0), "rotary positions (rope_theta) is -1"),
            ("llama.rope.freq_base", Put::Text("10000".into()), "llama.rope.freq_base is not a number"),
            ("llama.attention.layer_norm_rms_epsilon", Put::F32(f32::NAN), "layer_norm_rms_epsilon is not a number"),
            ("llama.attention.layer_norm_rms_epsilon", Put::F32(0.0), "the epsilon of norms is 0"),
            ("llama.rope.dimension_count", Put::U32(4), "llama.rope.dimension_count is 4 where heads have 8"),
            ("llama.attention.value_length", Put::U32(16), "llama.attention.value_length is 16"),
            ("llama.attention.head_count_kv", Put::Integers(vec![4, 2]), "and the same for all layers"),
            ("llama.block_count", Put::F32(2.0), "llama.block_count is not a number of things"),
            ("llama.expert_count", Put::U32(8), "llama.expert_count = 8 is not supported"),
            ("llama.rope.scaling.type", Put::Truth(true), "llama.rope.scaling.type is not a text"),
            ("llama.rope.scaling.type", Put::Text("longrope".into()), "\"longrope\" are not supported"),
            ("llama.attention.causal", Put::Truth(false), "llama.attention.causal = false"),
            ("general.architecture", Put::Text("mamba".into()), "\"mamba\" is not supported in GGUF files"),
        ] {
            let fault = read(vec![(name, value)], "output.weight").unwrap_err();
            assert!(fault.contains(said) && !fault.contains('\n'), "{fault:?} should say {said:?}");
        }
        assert!(read(vec![("llama.attention.head_count_kv", Put::Integers(vec![2, 2]))], "output.weight").is_ok());
        for tensor in ["blk.0.attn_q.bias", "blk.0.ffn_gate_exps.weight", "rope_factors_long.weight"] {
            let fault = read(vec![usual()], tensor).unwrap_err();
            assert!(fault.contains(&format!("the tensor {tensor:?} is not known")), "{fault}");
        }
    }
}
