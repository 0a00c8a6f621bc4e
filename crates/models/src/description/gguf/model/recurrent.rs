//! Decoders in which some layers have a state of fixed size instead of keys and values.

use serde_json::Value as Json;

use super::decoder::{Rotated, decoder, in_some_layers, outside};
use super::dense::granite;
use super::experts::{Gating, Routers, experts, width_of_experts};
use super::names::{
    ATTENTION, BACKBONE, BEFORE, BEFORE_WITH_POST, EXPERTS, NETWORK, Names, QUERY_KEY_NORMS, SHARED_EXPERT, STATE_SPACE,
};
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const GRANITE_HYBRID: Architecture = Architecture {
    name: "granitehybrid",
    describe: |of, to| {
        let attends = in_some_layers(of, to, "granitemoehybrid", Rotated::Whole)?;
        granite(of, to)?;
        to.put("layer_types", layer_types(&attends, "linear_attention"));
        // Files with recurrent layers say so where attention has no positions.
        let has_positions = of.truth("rope.scaling.finetuned")?.unwrap_or(true);
        to.put("position_embedding_type", if has_positions { "rope" } else { "nope" });
        to.put("rope_neighbours", true);
        let State { heads, key_heads, key_dim, value_dim, taps } = State::of(of)?;
        to.put("mamba_n_heads", heads);
        to.put("mamba_n_groups", key_heads);
        to.put("mamba_d_state", key_dim);
        to.put("mamba_d_head", value_dim);
        to.put("mamba_d_conv", taps);
        let recurrent = attends.iter().position(|attends| !attends).unwrap_or(0);
        to.put("mamba_conv_bias", of.has_tensor(&format!("blk.{recurrent}.ssm_conv1d.bias")));
        to.put("decays_are_whole", true);
        if of.size_or("expert_count")?.unwrap_or(0) > 0 {
            experts(of, to, &Routers::softmax(None))?;
            to.put_some("intermediate_size", of.size_or("expert_feed_forward_length")?);
            to.put("shared_intermediate_size", of.size("expert_shared_feed_forward_length")?);
        } else {
            of.size_or("expert_shared_feed_forward_length")?;
            to.put("shared_intermediate_size", of.size("feed_forward_length")?);
        }
        to.put("num_local_experts", of.size_or("expert_count")?.unwrap_or(0));
        Ok(())
    },
    names: &[
        BEFORE,
        ATTENTION,
        &[
            ("ssm_in.weight", "mamba.in_proj.weight"),
            ("ssm_conv1d.weight", "mamba.conv1d.weight"),
            ("ssm_conv1d.bias", "mamba.conv1d.bias"),
            ("ssm_dt.bias", "mamba.dt_bias"),
            ("ssm_a", "mamba.A_log"),
            ("ssm_d", "mamba.D"),
            ("ssm_norm.weight", "mamba.norm.weight"),
            ("ssm_out.weight", "mamba.out_proj.weight"),
            ("ffn_gate.weight", "shared_mlp.gate_proj.weight"),
            ("ffn_up.weight", "shared_mlp.up_proj.weight"),
            ("ffn_down.weight", "shared_mlp.output_linear.weight"),
        ],
    ],
    of_experts: &[&[
        ("ffn_gate_shexp.weight", "shared_mlp.gate_proj.weight"),
        ("ffn_up_shexp.weight", "shared_mlp.up_proj.weight"),
        ("ffn_down_shexp.weight", "shared_mlp.output_linear.weight"),
        ("ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight"),
        ("ffn_gate_exps.weight", "block_sparse_moe.gate_exps.weight"),
        ("ffn_up_exps.weight", "block_sparse_moe.up_exps.weight"),
        ("ffn_gate_up_exps.weight", "block_sparse_moe.gate_up_proj"),
        ("ffn_down_exps.weight", "block_sparse_moe.down_exps.weight"),
    ]],
    ..BARE
};

pub(super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    describe: |of, to| lfm2(of, to, "lfm2"),
    names: &[OF_LFM2],
    outside: OUTSIDE_OF_LFM2,
    ..BARE
};

pub(super) const LFM2_MOE: Architecture = Architecture {
    name: "lfm2moe",
    describe: |of, to| {
        lfm2(of, to, "lfm2_moe")?;
        experts(of, to, &Routers { gating: Gating::Sigmoid, ..Routers::softmax(Some(true)) })?;
        width_of_experts(of, to)?;
        let dense = of.size_or("leading_dense_block_count")?.unwrap_or(0);
        to.put("num_dense_layers", dense);
        to.put("use_expert_bias", of.has_tensor(&format!("blk.{dense}.exp_probs_b.bias")));
        Ok(())
    },
    names: &[OF_LFM2],
    of_experts: &[&[
        ("ffn_gate_inp.weight", "feed_forward.gate.weight"),
        ("exp_probs_b.bias", "feed_forward.expert_bias"),
        ("ffn_gate_exps.weight", "feed_forward.experts.gate_exps.weight"),
        ("ffn_up_exps.weight", "feed_forward.experts.up_exps.weight"),
        ("ffn_gate_up_exps.weight", "feed_forward.experts.gate_up_proj"),
        ("ffn_down_exps.weight", "feed_forward.experts.down_exps.weight"),
    ]],
    outside: OUTSIDE_OF_LFM2,
    ..BARE
};

pub(super) const MAMBA2: Architecture = Architecture {
    name: "mamba2",
    describe: |of, to| {
        outside(of, to, "mamba2")?;
        to.put_some("layer_norm_epsilon", of.number("attention.layer_norm_rms_epsilon")?);
        let State { heads, key_heads, key_dim, value_dim, taps } = State::of(of)?;
        to.put("num_heads", heads);
        to.put("n_groups", key_heads);
        to.put("state_size", key_dim);
        to.put("head_dim", value_dim);
        to.put("conv_kernel", taps);
        to.put("use_conv_bias", of.has_tensor("blk.0.ssm_conv1d.bias"));
        to.put("decays_are_whole", true);
        Ok(())
    },
    names: &[STATE_SPACE],
    outside: BACKBONE,
    prefix: "backbone.",
    ..BARE
};

pub(super) const QWEN3_NEXT: Architecture = Architecture {
    name: "qwen3next",
    describe: |of, to| {
        qwen(of, to, "qwen3_next")?;
        of_qwen(of, to)
    },
    names: &[BEFORE_WITH_POST, ATTENTION, QUERY_KEY_NORMS, DELTA_NET, NETWORK],
    of_experts: &[EXPERTS, SHARED_EXPERT],
    ..BARE
};

pub(super) const QWEN3_5: Architecture = Architecture {
    name: "qwen35",
    describe: |of, to| {
        qwen(of, to, "qwen3_5_text")?;
        to.put("value_heads_are_strided", true);
        Ok(())
    },
    names: &[BEFORE_WITH_POST, ATTENTION, QUERY_KEY_NORMS, DELTA_NET, NETWORK],
    ..BARE
};

pub(super) const QWEN3_5_MOE: Architecture = Architecture {
    name: "qwen35moe",
    describe: |of, to| {
        qwen(of, to, "qwen3_5_moe_text")?;
        to.put("value_heads_are_strided", true);
        of_qwen(of, to)
    },
    names: &[BEFORE_WITH_POST, ATTENTION, QUERY_KEY_NORMS, DELTA_NET, NETWORK],
    of_experts: &[EXPERTS, SHARED_EXPERT],
    ..BARE
};

const OF_LFM2: Names = &[
    ("attn_norm.weight", "operator_norm.weight"),
    ("ffn_norm.weight", "ffn_norm.weight"),
    ("shortconv.conv.weight", "conv.conv.weight"),
    ("shortconv.in_proj.weight", "conv.in_proj.weight"),
    ("shortconv.out_proj.weight", "conv.out_proj.weight"),
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_k.weight", "self_attn.k_proj.weight"),
    ("attn_v.weight", "self_attn.v_proj.weight"),
    ("attn_output.weight", "self_attn.out_proj.weight"),
    ("attn_q_norm.weight", "self_attn.q_layernorm.weight"),
    ("attn_k_norm.weight", "self_attn.k_layernorm.weight"),
    ("ffn_gate.weight", "feed_forward.w1.weight"),
    ("ffn_up.weight", "feed_forward.w3.weight"),
    ("ffn_down.weight", "feed_forward.w2.weight"),
];

/// Files call the last norm a norm of embeddings, as the model does.
const OUTSIDE_OF_LFM2: Names =
    &[("token_embd_norm.weight", "model.embedding_norm.weight"), ("output_norm.weight", "model.embedding_norm.weight")];

const DELTA_NET: Names = &[
    ("attn_qkv.weight", "linear_attn.in_proj_qkv.weight"),
    ("attn_gate.weight", "linear_attn.in_proj_z.weight"),
    ("ssm_in.weight", "linear_attn.in_proj_qkvz.weight"),
    ("ssm_ba.weight", "linear_attn.in_proj_ba.weight"),
    ("ssm_beta.weight", "linear_attn.in_proj_b.weight"),
    ("ssm_alpha.weight", "linear_attn.in_proj_a.weight"),
    ("ssm_conv1d.weight", "linear_attn.conv1d.weight"),
    ("ssm_dt.bias", "linear_attn.dt_bias"),
    ("ssm_a", "linear_attn.A_log"),
    ("ssm_norm.weight", "linear_attn.norm.weight"),
    ("ssm_out.weight", "linear_attn.out_proj.weight"),
];

/// The shape of a layer's state.
pub(super) struct State {
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) key_dim: usize,
    pub(super) value_dim: usize,
    pub(super) taps: usize,
}

impl State {
    pub(super) fn of(of: &Values<'_>) -> Result<Self, String> {
        let (heads, inner) = (of.size("ssm.time_step_rank")?, of.size("ssm.inner_size")?);
        if heads == 0 || !inner.is_multiple_of(heads) {
            let (name, all) = (of.name("ssm.inner_size"), of.name("ssm.time_step_rank"));
            return Err(format!("{name} is {inner}, which {all} = {heads} does not divide"));
        }
        Ok(Self {
            heads,
            key_heads: of.size("ssm.group_count")?,
            key_dim: of.size("ssm.state_size")?,
            value_dim: inner / heads,
            taps: of.size("ssm.conv_kernel")?,
        })
    }
}

/// The types of layers.
pub(super) fn layer_types(attends: &[bool], other: &str) -> Json {
    attends.iter().map(|attends| if *attends { "full_attention" } else { other }).collect::<Vec<_>>().into()
}

fn lfm2(of: &Values<'_>, to: &mut Described, model_type: &str) -> Result<(), String> {
    let attends = in_some_layers(of, to, model_type, Rotated::Whole)?;
    of.refuse("attention.sliding_window", 0.0)?;
    to.put("norm_eps", of.number("attention.layer_norm_rms_epsilon")?.unwrap_or(1e-5));
    to.put("conv_L_cache", of.size("shortconv.l_cache")?);
    to.put("block_auto_adjust_ff_dim", false);
    to.put("layer_types", layer_types(&attends, "conv"));
    Ok(())
}

fn qwen(of: &Values<'_>, to: &mut Described, model_type: &str) -> Result<(), String> {
    decoder(of, to, model_type, Rotated::Part)?;
    to.put("norms_are_whole", true);
    to.put("decays_are_whole", true);
    let State { heads, key_heads, key_dim, value_dim, taps } = State::of(of)?;
    to.put("linear_num_value_heads", heads);
    to.put("linear_num_key_heads", key_heads);
    to.put("linear_key_head_dim", key_dim);
    to.put("linear_value_head_dim", value_dim);
    to.put("linear_conv_kernel_dim", taps);
    match of.truths("attention.recurrent_layers")? {
        Some(recurrent) => {
            let attends: Vec<bool> = recurrent.iter().map(|recurrent| !recurrent).collect();
            to.put("layer_types", layer_types(&attends, "linear_attention"));
        }
        None => to.put_some("full_attention_interval", of.size_or("full_attention_interval")?),
    }
    Ok(())
}

/// The experts of Qwen, and the one that all tokens use.
fn of_qwen(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    experts(of, to, &Routers::softmax(None))?;
    width_of_experts(of, to)?;
    let shared = of.size_or("expert_shared_feed_forward_length")?;
    to.put("shared_expert_intermediate_size", shared.map_or_else(|| of.size("feed_forward_length"), Ok)?);
    Ok(())
}
