//! The names of tensors in files of llama.cpp, and their Hugging Face names.

/// Names in files, each with its Hugging Face name; those of a layer without `blk.N.` and `PREFIX.layers.N.`.
pub(super) type Names = &'static [(&'static str, &'static str)];

/// The Hugging Face name of a tensor, from the first group that has it. `outside` are those outside of layers.
pub(super) fn renamed<'a>(
    of_layers: impl IntoIterator<Item = &'a Names>,
    outside: Names,
    prefix: &str,
    name: &str,
) -> Option<String> {
    let Some(of_layer) = name.strip_prefix("blk.") else {
        return [outside, OUTSIDE].into_iter().find_map(|group| find(group, name)).map(str::to_owned);
    };
    let (layer, part) = of_layer.split_once('.')?;
    let theirs = of_layers.into_iter().chain([&PREDICTOR]).find_map(|group| find(group, part))?;
    Some(format!("{prefix}layers.{layer}.{theirs}"))
}

/// Whether only layers that predict later tokens have this tensor.
pub(super) fn is_of_predictor(name: &str) -> bool {
    name.split_once(".nextn.").is_some_and(|(layer, _)| layer.starts_with("blk."))
}

fn find(group: Names, name: &str) -> Option<&'static str> {
    group.iter().find(|(ours, _)| *ours == name).map(|(_, theirs)| *theirs)
}

/// Tensors outside of layers, which all files may have.
const OUTSIDE: Names = &[
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
    ("rope_freqs.weight", "rope_freqs"),
];

/// The weights around a layer that predicts later tokens. Its embedding and output matrix are those of the model.
const PREDICTOR: Names = &[
    ("nextn.eh_proj.weight", "eh_proj.weight"),
    ("nextn.enorm.weight", "enorm.weight"),
    ("nextn.hnorm.weight", "hnorm.weight"),
    ("nextn.shared_head_norm.weight", "shared_head.norm.weight"),
];

/// Norms before attention and before the feed-forward part.
pub(super) const BEFORE: Names =
    &[("attn_norm.weight", "input_layernorm.weight"), ("ffn_norm.weight", "post_attention_layernorm.weight")];

/// The same, where the second is called otherwise.
pub(super) const BEFORE_WITH_POST: Names = &[
    ("attn_norm.weight", "input_layernorm.weight"),
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
];

/// Norms before and after each part.
pub(super) const AROUND: Names = &[
    ("attn_norm.weight", "input_layernorm.weight"),
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
    ("ffn_norm.weight", "pre_feedforward_layernorm.weight"),
    ("post_ffw_norm.weight", "post_feedforward_layernorm.weight"),
];

/// The matrices of attention.
pub(super) const ATTENTION: Names = &[
    ("attn_q.weight", "self_attn.q_proj.weight"),
    ("attn_k.weight", "self_attn.k_proj.weight"),
    ("attn_v.weight", "self_attn.v_proj.weight"),
    ("attn_output.weight", "self_attn.o_proj.weight"),
];

/// The biases of queries, keys and values.
pub(super) const BIASES: Names = &[
    ("attn_q.bias", "self_attn.q_proj.bias"),
    ("attn_k.bias", "self_attn.k_proj.bias"),
    ("attn_v.bias", "self_attn.v_proj.bias"),
];

/// The norms of queries and keys.
pub(super) const QUERY_KEY_NORMS: Names =
    &[("attn_q_norm.weight", "self_attn.q_norm.weight"), ("attn_k_norm.weight", "self_attn.k_norm.weight")];

/// A gated feed-forward network.
pub(super) const NETWORK: Names = &[
    ("ffn_gate.weight", "mlp.gate_proj.weight"),
    ("ffn_up.weight", "mlp.up_proj.weight"),
    ("ffn_down.weight", "mlp.down_proj.weight"),
];

/// A router, and the matrices of all experts, each in one tensor.
pub(super) const EXPERTS: Names = &[
    ("ffn_gate_inp.weight", "mlp.gate.weight"),
    ("ffn_gate_exps.weight", "mlp.experts.gate_exps.weight"),
    ("ffn_up_exps.weight", "mlp.experts.up_exps.weight"),
    ("ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"),
    ("ffn_down_exps.weight", "mlp.experts.down_exps.weight"),
];

/// An expert that every token uses (Qwen).
pub(super) const SHARED_EXPERT: Names = &[
    ("ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"),
    ("ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"),
    ("ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"),
    ("ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"),
];

/// Experts that every token uses, as one, and the bias of the choice of experts (GLM, DeepSeek).
pub(super) const SHARED_EXPERTS: Names = &[
    ("exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    ("ffn_gate_shexp.weight", "mlp.shared_experts.gate_proj.weight"),
    ("ffn_up_shexp.weight", "mlp.shared_experts.up_proj.weight"),
    ("ffn_down_shexp.weight", "mlp.shared_experts.down_proj.weight"),
];

/// A state-space model and the norm before it, which is the only one of its layer.
pub(super) const STATE_SPACE: Names = &[
    ("attn_norm.weight", "norm.weight"),
    ("ssm_in.weight", "mixer.in_proj.weight"),
    ("ssm_conv1d.weight", "mixer.conv1d.weight"),
    ("ssm_conv1d.bias", "mixer.conv1d.bias"),
    ("ssm_dt.bias", "mixer.dt_bias"),
    ("ssm_a", "mixer.A_log"),
    ("ssm_d", "mixer.D"),
    ("ssm_norm.weight", "mixer.norm.weight"),
    ("ssm_out.weight", "mixer.out_proj.weight"),
];

/// Tensors outside of layers, in models that call these a backbone.
pub(super) const BACKBONE: Names =
    &[("token_embd.weight", "backbone.embeddings.weight"), ("output_norm.weight", "backbone.norm_f.weight")];
