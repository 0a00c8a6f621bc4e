//! Decoders without experts that differ from Llama in their norms, their factors, or the packing of their weights.

use serde_json::{Value as Json, json};

use super::decoder::{Rotated, decoder, head_dim, scaling};
use super::names::{ATTENTION, BEFORE, BEFORE_WITH_POST, BIASES, NETWORK, Names, QUERY_KEY_NORMS};
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const COHERE2: Architecture = Architecture {
    name: "cohere2",
    describe: |of, to| {
        decoder(of, to, "cohere2", Rotated::Whole)?;
        to.put_some("layer_norm_eps", of.number("attention.layer_norm_epsilon")?);
        to.put("logit_scale", of.needed_number("logit_scale")?);
        to.put("sliding_window", of.size("attention.sliding_window")?);
        to.put_some("sliding_window_pattern", of.size_or("attention.sliding_window_pattern")?);
        same_base_in_windows(of)
    },
    names: &[&[("attn_norm.weight", "input_layernorm.weight")], ATTENTION, NETWORK],
    ..BARE
};

pub(super) const EXAONE4: Architecture = Architecture {
    name: "exaone4",
    describe: |of, to| {
        decoder(of, to, "exaone4", Rotated::Whole)?;
        let window = of.size_or("attention.sliding_window")?;
        // Files do not always say which layers have windows. Only the model with 64 layers has any.
        match layer_types(of)? {
            Some(types) => to.put("layer_types", types),
            None if of.layers()? == 64 => to.put("sliding_window_pattern", 4),
            None => of.refuse("attention.sliding_window", 0.0)?,
        }
        let usual = (of.layers()? == 64).then_some(4096);
        to.put_some("sliding_window", window.filter(|&window| window > 0).or(usual));
        same_base_in_windows(of)
    },
    names: &[AFTER, ATTENTION, QUERY_KEY_NORMS, NETWORK],
    ..BARE
};

pub(super) const GLM4: Architecture = Architecture {
    name: "glm4",
    describe: |of, to| {
        decoder(of, to, "glm4", Rotated::Part)?;
        // With sections, heads are in another order too.
        of.refuse("rope.dimension_sections", f64::NAN)?;
        biases(of, to);
        Ok(())
    },
    names: &[
        &[
            ("attn_norm.weight", "input_layernorm.weight"),
            ("post_attention_norm.weight", "post_self_attn_layernorm.weight"),
            ("ffn_norm.weight", "post_attention_layernorm.weight"),
            ("post_ffw_norm.weight", "post_mlp_layernorm.weight"),
        ],
        ATTENTION,
        BIASES,
        FUSED_NETWORK,
    ],
    ..BARE
};

pub(super) const GRANITE: Architecture = Architecture {
    name: "granite",
    describe: |of, to| {
        decoder(of, to, "granite", Rotated::Whole)?;
        granite(of, to)?;
        if of.truth("rope.scaling.finetuned")? == Some(false) {
            return Err(format!("{} = false is not supported", of.name("rope.scaling.finetuned")));
        }
        // Files of a Granite 4 without recurrent layers have both, for experts that there are none of.
        if of.size_or("expert_count")?.unwrap_or(0) == 0 {
            of.size_or("expert_shared_feed_forward_length")?;
        } else {
            of.refuse("expert_count", 0.0)?;
        }
        to.put("rope_neighbours", true);
        Ok(())
    },
    names: &[BEFORE, ATTENTION, NETWORK],
    ..BARE
};

pub(super) const HUNYUAN: Architecture = Architecture {
    name: "hunyuan-dense",
    describe: |of, to| decoder(of, to, "hunyuan_v1_dense", Rotated::Whole),
    names: &[
        BEFORE,
        ATTENTION,
        NETWORK,
        &[
            ("attn_q_norm.weight", "self_attn.query_layernorm.weight"),
            ("attn_k_norm.weight", "self_attn.key_layernorm.weight"),
        ],
    ],
    ..BARE
};

pub(super) const MISTRAL3: Architecture = Architecture {
    name: "mistral3",
    describe: |of, to| {
        let growth = of.number("attention.temperature_scale")?.filter(|&rate| rate != 0.0);
        decoder(of, to, if growth.is_some() { "ministral3" } else { "mistral" }, Rotated::Whole)?;
        let missing = || format!("{} has no rope.scaling.type, but queries that grow", of.architecture);
        if let Some(rate) = growth {
            let mut scaling = scaling(of)?.ok_or_else(missing)?;
            scaling["llama_4_scaling_beta"] = rate.into();
            to.put("rope_scaling", scaling);
        }
        to.put("rope_neighbours", true);
        Ok(())
    },
    names: &[BEFORE, ATTENTION, NETWORK],
    ..BARE
};

pub(super) const OLMO2: Architecture = Architecture {
    name: "olmo2",
    describe: |of, to| {
        let window = of.size_or("attention.sliding_window")?.filter(|&window| window > 0);
        // A file of OLMo 3 says that it is an OLMo 2 with windows.
        decoder(of, to, if window.is_some() { "olmo3" } else { "olmo2" }, Rotated::Whole)?;
        let Some(window) = window else { return Ok(()) };
        to.put("sliding_window", window);
        to.put_some("layer_types", layer_types(of)?);
        let theta = of.number("rope.freq_base")?.unwrap_or(10_000.0);
        let mut of_full = scaling(of)?.unwrap_or_else(|| json!({"rope_type": "default"}));
        of_full["rope_theta"] = theta.into();
        let local = of.number("rope.freq_base_swa")?.unwrap_or(theta);
        to.put("rope_scaling", Json::Null);
        to.put(
            "rope_parameters",
            json!({
                "full_attention": of_full,
                "sliding_attention": {"rope_type": "default", "rope_theta": local},
            }),
        );
        Ok(())
    },
    names: &[AFTER, ATTENTION, QUERY_KEY_NORMS, NETWORK],
    ..BARE
};

pub(super) const PHI3: Architecture = Architecture {
    name: "phi3",
    describe: |of, to| {
        decoder(of, to, "phi3", Rotated::Part)?;
        // 0 means none.
        to.put_some("sliding_window", of.size_or("attention.sliding_window")?.filter(|&window| window > 0));
        long_rope(of, to)
    },
    names: &[
        BEFORE,
        &[("attn_qkv.weight", "self_attn.qkv_proj.weight"), ("attn_output.weight", "self_attn.o_proj.weight")],
        FUSED_NETWORK,
    ],
    outside: &[("rope_factors_long.weight", "rope_factors_long"), ("rope_factors_short.weight", "rope_factors_short")],
    ..BARE
};

pub(super) const SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    describe: |of, to| {
        decoder(of, to, "seed_oss", Rotated::Whole)?;
        biases(of, to);
        to.put("attention_out_bias", of.has_tensor("blk.0.attn_output.bias"));
        Ok(())
    },
    names: &[BEFORE_WITH_POST, ATTENTION, BIASES, OUTPUT_BIAS, NETWORK],
    ..BARE
};

pub(super) const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    describe: |of, to| {
        decoder(of, to, "starcoder2", Rotated::Whole)?;
        to.put_some("norm_epsilon", of.number("attention.layer_norm_epsilon")?);
        to.put("use_bias", of.has_tensor("blk.0.attn_q.bias"));
        to.put_some("sliding_window", of.size_or("attention.sliding_window")?);
        Ok(())
    },
    names: &[
        BEFORE,
        ATTENTION,
        BIASES,
        OUTPUT_BIAS,
        &[
            ("attn_norm.bias", "input_layernorm.bias"),
            ("ffn_norm.bias", "post_attention_layernorm.bias"),
            ("ffn_up.weight", "mlp.c_fc.weight"),
            ("ffn_up.bias", "mlp.c_fc.bias"),
            ("ffn_down.weight", "mlp.c_proj.weight"),
            ("ffn_down.bias", "mlp.c_proj.bias"),
        ],
    ],
    outside: &[("output_norm.bias", "model.norm.bias")],
    ..BARE
};

/// Norms after each part.
const AFTER: Names = &[
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
    ("post_ffw_norm.weight", "post_feedforward_layernorm.weight"),
];

/// A network whose gate and first matrix are one.
const FUSED_NETWORK: Names =
    &[("ffn_up.weight", "mlp.gate_up_proj.weight"), ("ffn_down.weight", "mlp.down_proj.weight")];

/// The bias of what attention returns.
pub(super) const OUTPUT_BIAS: Names = &[("attn_output.bias", "self_attn.o_proj.bias")];

/// Whether queries, keys and values have biases, which a file shows by its tensors.
pub(super) fn biases(of: &Values<'_>, to: &mut Described) {
    to.put("attention_bias", of.has_tensor("blk.0.attn_q.bias"));
}

/// The factors of Granite.
pub(super) fn granite(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    let factor = |name: &str| Ok::<_, String>(of.number(name)?.filter(|&factor| factor != 0.0));
    let usual = 1.0 / (head_dim(of)? as f64).sqrt();
    to.put("attention_multiplier", factor("attention.scale")?.unwrap_or(usual));
    to.put("embedding_multiplier", factor("embedding_scale")?.unwrap_or(1.0));
    to.put("residual_multiplier", factor("residual_scale")?.unwrap_or(1.0));
    to.put("logits_scaling", factor("logit_scale")?.unwrap_or(1.0));
    Ok(())
}

/// The types of layers, if the file lists which have a window.
pub(super) fn layer_types(of: &Values<'_>) -> Result<Option<Json>, String> {
    let slides = of.truths("attention.sliding_window_pattern")?;
    let kind = |slides: bool| if slides { "sliding_attention" } else { "full_attention" };
    Ok(slides.map(|slides| slides.into_iter().map(kind).collect::<Vec<_>>().into()))
}

/// Refuses another base of rotary positions in layers with windows.
fn same_base_in_windows(of: &Values<'_>) -> Result<(), String> {
    of.refuse("rope.freq_base_swa", of.number("rope.freq_base")?.unwrap_or(10_000.0))
}

/// Describes LongRoPE, whose factors are tensors.
fn long_rope(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    let factors = ["rope_factors_short.weight", "rope_factors_long.weight"].map(|name| of.vector(name));
    let [short, long] = factors;
    let (Some(short), Some(long)) = (short?, long?) else { return Ok(()) };
    let context = of.size("rope.scaling.original_context_length")?;
    let scaling = json!({
        "type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": context,
        "attention_factor": of.number("rope.scaling.attn_factor")?.unwrap_or(1.0),
    });
    to.put("rope_scaling", scaling);
    Ok(())
}
