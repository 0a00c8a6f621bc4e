//! Gemma 4, whose layers of full attention have heads of another size.

use serde_json::{Map, Value as Json, json};

use super::decoder::outside;
use super::dense::layer_types;
use super::names::{AROUND, ATTENTION, NETWORK, QUERY_KEY_NORMS};
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const GEMMA4: Architecture = Architecture {
    name: "gemma4",
    describe,
    names: &[
        AROUND,
        ATTENTION,
        QUERY_KEY_NORMS,
        NETWORK,
        &[
            ("layer_output_scale.weight", "layer_scalar"),
            ("inp_gate.weight", "per_layer_input_gate.weight"),
            ("proj.weight", "per_layer_projection.weight"),
            ("post_norm.weight", "post_per_layer_input_norm.weight"),
        ],
    ],
    of_experts: &[&[
        ("ffn_gate_inp.weight", "router.proj.weight"),
        ("ffn_gate_inp.scale", "router.scale"),
        ("ffn_gate_exps.weight", "experts.gate_exps.weight"),
        ("ffn_up_exps.weight", "experts.up_exps.weight"),
        ("ffn_gate_up_exps.weight", "experts.gate_up_proj"),
        ("ffn_down_exps.weight", "experts.down_exps.weight"),
        ("ffn_down_exps.scale", "router.per_expert_scale"),
        ("pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"),
        ("post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"),
        ("post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"),
    ]],
    outside: &[
        ("per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"),
        ("per_layer_model_proj.weight", "model.per_layer_model_projection.weight"),
        ("per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"),
    ],
    ..BARE
};

fn describe(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    outside(of, to, "gemma4_text")?;
    to.put("norms_are_whole", true);
    let layers = of.layers()?;
    let shared = of.size_or("attention.shared_kv_layers")?.unwrap_or(0);
    to.put("num_kv_shared_layers", shared);
    to.put("sliding_window", of.size("attention.sliding_window")?);
    let slides = of.truths("attention.sliding_window_pattern")?;
    let slides = slides.ok_or_else(|| format!("{} is missing", of.name("attention.sliding_window_pattern")))?;
    to.put_some("layer_types", layer_types(of)?);
    attention(of, to, &slides)?;
    let inner = of.sizes("feed_forward_length")?;
    let inner = inner.ok_or_else(|| format!("{} is missing", of.name("feed_forward_length")))?;
    let first = inner.first().copied().unwrap_or(0);
    let has_keys = layers.saturating_sub(shared);
    let is_wide = inner.last().is_some_and(|last| *last != first);
    let usual = |layer: usize| if is_wide && layer >= has_keys { first.saturating_mul(2) } else { first };
    if let Some((layer, width)) = inner.iter().enumerate().find(|(layer, width)| **width != usual(*layer)) {
        let name = of.name("feed_forward_length");
        return Err(format!("{name} is {width} in layer {layer} and {first} in the first, which is not supported"));
    }
    to.put("intermediate_size", first);
    to.put("use_double_wide_mlp", is_wide);
    to.put("rope_parameters", json!({
        "full_attention": {"rope_type": "default", "rope_theta": of.number("rope.freq_base")?.unwrap_or(1e6)},
        "sliding_attention": {"rope_type": "default", "rope_theta": of.number("rope.freq_base_swa")?.unwrap_or(1e4)},
    }));
    if let Some(kind) = of.text("rope.scaling.type")?.filter(|kind| *kind != "none") {
        return Err(format!("{} = {kind:?} is not supported", of.name("rope.scaling.type")));
    }
    to.put_some("final_logit_softcapping", of.number("final_logit_softcapping")?.filter(|&cap| cap != 0.0));
    to.put("hidden_size_per_layer_input", of.size_or("embedding_length_per_layer_input")?.unwrap_or(0));
    let rows = of.gguf.tensors.get("per_layer_token_embd.weight").and_then(|stored| stored.rows());
    to.put_some("vocab_size_per_layer_input", rows);
    if of.size_or("expert_count")?.unwrap_or(0) > 0 {
        to.put("enable_moe_block", true);
        to.put("num_experts", of.size("expert_count")?);
        to.put("top_k_experts", of.size("expert_used_count")?);
        to.put("moe_intermediate_size", of.size("expert_feed_forward_length")?);
    }
    Ok(())
}

/// Describes the heads of each layer.
fn attention(of: &Values<'_>, to: &mut Described, slides: &[bool]) -> Result<(), String> {
    to.put("num_attention_heads", of.size("attention.head_count")?);
    let of_full = of.size("attention.key_length")?;
    let of_windows = of.size_or("attention.key_length_swa")?.unwrap_or(of_full);
    for (name, head_dim) in [
        ("attention.value_length", of_full),
        ("attention.value_length_swa", of_windows),
        ("rope.dimension_count", of_full),
        ("rope.dimension_count_swa", of_windows),
    ] {
        of.refuse(name, head_dim as f64)?;
    }
    let kv_heads = of.sizes("attention.head_count_kv")?;
    let kv_heads = kv_heads.ok_or_else(|| format!("{} is missing", of.name("attention.head_count_kv")))?;
    to.put("num_key_value_heads", kv_heads.first().copied().unwrap_or(0));
    to.put("head_dim", of_windows);
    // Layers of full attention without values use their keys.
    let first_full = slides.iter().position(|slides| !slides);
    let lacks_values = |layer: usize| !of.has_tensor(&format!("blk.{layer}.attn_v.weight"));
    to.put("attention_k_eq_v", first_full.is_some_and(lacks_values));
    let layer = |(i, slides): (usize, &bool)| {
        let head_dim = if *slides { of_windows } else { of_full };
        (i.to_string(), json!({"head_dim": head_dim, "num_key_value_heads": kv_heads[i]}))
    };
    let each: Map<String, Json> = slides.iter().enumerate().map(layer).collect();
    to.put("per_layer_config", each);
    Ok(())
}
