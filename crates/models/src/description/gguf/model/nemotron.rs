//! Nemotron-H and Nemotron 3: a layer has one part, and the file says of each how wide it is, or how many heads it has.

use serde_json::Value as Json;

use super::decoder::{head_dim, outside};
use super::experts::{Routers, experts, width_of_experts};
use super::names::{BACKBONE, Names, STATE_SPACE};
use super::recurrent::State;
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    describe,
    names: &[STATE_SPACE, PARTS],
    outside: BACKBONE,
    prefix: "backbone.",
    ..BARE
};

pub(super) const NEMOTRON_H_MOE: Architecture = Architecture {
    name: "nemotron_h_moe",
    describe: |of, to| {
        describe(of, to)?;
        experts(of, to, &Routers::SIGMOID)?;
        width_of_experts(of, to)?;
        // They are stored as one network.
        of.size_or("expert_shared_count")?;
        to.put("moe_shared_expert_intermediate_size", of.size("expert_shared_feed_forward_length")?);
        to.put_some("moe_latent_size", of.size_or("moe_latent_size")?.filter(|&width| width > 0));
        Ok(())
    },
    names: &[STATE_SPACE, PARTS],
    of_experts: &[&[
        (ROUTER, "mixer.gate.weight"),
        ("exp_probs_b.bias", "mixer.gate.e_score_correction_bias"),
        ("ffn_up_exps.weight", "mixer.experts.up_exps.weight"),
        ("ffn_down_exps.weight", "mixer.experts.down_exps.weight"),
        ("ffn_up_shexp.weight", "mixer.shared_experts.up_proj.weight"),
        ("ffn_down_shexp.weight", "mixer.shared_experts.down_proj.weight"),
        ("ffn_latent_down.weight", "mixer.fc1_latent_proj.weight"),
        ("ffn_latent_up.weight", "mixer.fc2_latent_proj.weight"),
    ]],
    outside: BACKBONE,
    prefix: "backbone.",
};

/// Only layers with experts have it.
const ROUTER: &str = "ffn_gate_inp.weight";

const PARTS: Names = &[
    ("attn_q.weight", "mixer.q_proj.weight"),
    ("attn_k.weight", "mixer.k_proj.weight"),
    ("attn_v.weight", "mixer.v_proj.weight"),
    ("attn_output.weight", "mixer.o_proj.weight"),
    ("ffn_up.weight", "mixer.up_proj.weight"),
    ("ffn_down.weight", "mixer.down_proj.weight"),
];

fn describe(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    outside(of, to, "nemotron_h")?;
    let epsilon = of.number("attention.layer_norm_epsilon")?;
    to.put_some("layer_norm_epsilon", of.number("attention.layer_norm_rms_epsilon")?.or(epsilon));
    let of_each = |name: &str| of.sizes(name)?.ok_or_else(|| format!("{} is missing", of.name(name)));
    let (widths, kv_heads) = (of_each("feed_forward_length")?, of_each("attention.head_count_kv")?);
    let has = |layer: usize, name: &str| of.has_tensor(&format!("blk.{layer}.{name}"));
    let kind = |(layer, (&width, &heads)): (usize, (&usize, &usize))| match (width, heads) {
        (0, 0) => "linear_attention",
        (0, _) => "full_attention",
        _ if has(layer, ROUTER) => "moe",
        _ => "mlp",
    };
    let kinds: Vec<&str> = widths.iter().zip(&kv_heads).enumerate().map(kind).collect();
    // The same for all layers that have it.
    let common = |all: &[usize], kind: &str, name: &str| {
        let mut those = all.iter().zip(&kinds).filter(|(_, of)| **of == kind).map(|(value, _)| *value);
        let first = those.next();
        let differs = those.any(|other| Some(other) != first);
        if differs { Err(format!("{} is not the same for all layers that have it", of.name(name))) } else { Ok(first) }
    };
    to.put_some("intermediate_size", common(&widths, "mlp", "feed_forward_length")?);
    to.put_some("num_key_value_heads", common(&kv_heads, "full_attention", "attention.head_count_kv")?);
    to.put("layers_block_type", kinds.into_iter().map(Json::from).collect::<Vec<_>>());
    to.put("num_attention_heads", of.size("attention.head_count")?);
    let head_dim = head_dim(of)?;
    to.put("head_dim", head_dim);
    if let Some(elements) = of.size_or("attention.value_length")?.filter(|&elements| elements != head_dim) {
        let name = of.name("attention.value_length");
        return Err(format!("{name} is {elements} where heads have {head_dim} elements, which is not supported"));
    }
    let State { heads, key_heads, key_dim, value_dim, taps } = State::of(of)?;
    to.put("mamba_num_heads", heads);
    to.put("n_groups", key_heads);
    to.put("ssm_state_size", key_dim);
    to.put("mamba_head_dim", value_dim);
    to.put("conv_kernel", taps);
    to.put("use_conv_bias", (0..widths.len()).any(|layer| has(layer, "ssm_conv1d.bias")));
    to.put("decays_are_whole", true);
    Ok(())
}
