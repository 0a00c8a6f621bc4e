//! Decoders of which each layer has experts.

use super::decoder::{Rotated, decoder};
use super::dense::biases;
use super::experts::{Gating, Routers, experts, width_of_experts};
use super::names::{
    ATTENTION, BEFORE, BEFORE_WITH_POST, BIASES, EXPERTS, NETWORK, Names, QUERY_KEY_NORMS, SHARED_EXPERT,
    SHARED_EXPERTS,
};
use super::{Architecture, BARE};

pub(super) const OLMOE: Architecture = Architecture {
    name: "olmoe",
    describe: |of, to| {
        decoder(of, to, "olmoe", Rotated::Whole)?;
        experts(of, to, &Routers::softmax(Some(false)))
    },
    names: &[BEFORE, ATTENTION, QUERY_KEY_NORMS],
    of_experts: &[EXPERTS],
    ..BARE
};

pub(super) const QWEN2_MOE: Architecture = Architecture {
    name: "qwen2moe",
    describe: |of, to| {
        decoder(of, to, "qwen2_moe", Rotated::Whole)?;
        experts(of, to, &Routers::softmax(Some(false)))?;
        to.put("qkv_bias", of.has_tensor("blk.0.attn_q.bias"));
        width_of_experts(of, to)?;
        let shared = of.size_or("expert_shared_feed_forward_length")?;
        to.put("shared_expert_intermediate_size", shared.map_or_else(|| of.size("feed_forward_length"), Ok)?);
        Ok(())
    },
    names: &[BEFORE, ATTENTION, BIASES],
    of_experts: &[EXPERTS, SHARED_EXPERT],
    ..BARE
};

pub(super) const QWEN3_MOE: Architecture = Architecture {
    name: "qwen3moe",
    describe: |of, to| {
        decoder(of, to, "qwen3_moe", Rotated::Whole)?;
        experts(of, to, &Routers::softmax(Some(true)))?;
        width_of_experts(of, to)
    },
    names: &[BEFORE, ATTENTION, QUERY_KEY_NORMS],
    of_experts: &[EXPERTS],
    ..BARE
};

pub(super) const GLM4_MOE: Architecture = Architecture {
    name: "glm4moe",
    describe: |of, to| {
        decoder(of, to, "glm4_moe", Rotated::Part)?;
        of.refuse("rope.dimension_sections", f64::NAN)?;
        biases(of, to);
        to.put("use_qk_norm", of.has_tensor("blk.0.attn_q_norm.weight"));
        experts(of, to, &Routers::SIGMOID)?;
        width_of_experts(of, to)?;
        to.put("n_shared_experts", of.size("expert_shared_count")?);
        to.put("first_k_dense_replace", of.size_or("leading_dense_block_count")?.unwrap_or(0));
        Ok(())
    },
    names: &[BEFORE_WITH_POST, ATTENTION, BIASES, QUERY_KEY_NORMS, NETWORK],
    of_experts: &[EXPERTS, SHARED_EXPERTS],
    ..BARE
};

pub(super) const GPT_OSS: Architecture = Architecture {
    name: "gpt-oss",
    describe: |of, to| {
        decoder(of, to, "gpt_oss", Rotated::Whole)?;
        experts(of, to, &Routers { gating: Gating::SoftmaxOfChosen, ..Routers::softmax(None) })?;
        to.put("attention_bias", true);
        to.put("intermediate_size", of.size("expert_feed_forward_length")?);
        to.put("sliding_window", of.size("attention.sliding_window")?);
        Ok(())
    },
    names: &[
        BEFORE_WITH_POST,
        ATTENTION,
        BIASES,
        &[("attn_output.bias", "self_attn.o_proj.bias"), ("attn_sinks.weight", "self_attn.sinks")],
    ],
    of_experts: &[OF_GPT_OSS, EXPERTS],
    ..BARE
};

const OF_GPT_OSS: Names = &[
    ("ffn_gate_inp.weight", "mlp.router.weight"),
    ("ffn_gate_inp.bias", "mlp.router.bias"),
    ("ffn_gate_exps.bias", "mlp.experts.gate_exps.bias"),
    ("ffn_up_exps.bias", "mlp.experts.up_exps.bias"),
    ("ffn_down_exps.bias", "mlp.experts.down_exps.bias"),
];
