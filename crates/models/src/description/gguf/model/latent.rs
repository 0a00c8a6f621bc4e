//! Attention to latent vectors: DeepSeek-V3, and GLM-4.7 Flash.

use super::decoder::{outside, rotary, vocabulary};
use super::experts::{Routers, experts, width_of_experts};
use super::names::{BEFORE, EXPERTS, NETWORK, SHARED_EXPERTS};
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const DEEPSEEK2: Architecture = Architecture {
    name: "deepseek2",
    describe: |of, to| {
        outside(of, to, "deepseek_v3")?;
        to.put("intermediate_size", of.size("feed_forward_length")?);
        rotary(of, to)?;
        attention(of, to)?;
        // Older files of GLM-4.7 Flash do not say that its weights are logistic functions. Without it, others are of
        // DeepSeek-V2, whose weights are softmax.
        let is_glm = [47, 48].contains(&of.layers()?) && vocabulary(of)? == 154_880;
        if of.size_or("expert_gating_func")?.unwrap_or(0) == 0 && !is_glm {
            let name = of.name("expert_gating_func");
            return Err(format!("{name} is missing, which means softmax (DeepSeek-V2), and is not supported"));
        }
        experts(of, to, &Routers::SIGMOID)?;
        width_of_experts(of, to)?;
        to.put("n_shared_experts", of.size("expert_shared_count")?);
        to.put("first_k_dense_replace", of.size_or("leading_dense_block_count")?.unwrap_or(0));
        Ok(())
    },
    names: &[
        BEFORE,
        NETWORK,
        &[
            ("attn_q.weight", "self_attn.q_proj.weight"),
            ("attn_q_a.weight", "self_attn.q_a_proj.weight"),
            ("attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight"),
            ("attn_q_b.weight", "self_attn.q_b_proj.weight"),
            ("attn_kv_a_mqa.weight", "self_attn.kv_a_proj_with_mqa.weight"),
            ("attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight"),
            ("attn_kv_b.weight", "self_attn.kv_b_proj.weight"),
            ("attn_k_b.weight", "self_attn.k_b_proj.weight"),
            ("attn_v_b.weight", "self_attn.v_b_proj.weight"),
            ("attn_output.weight", "self_attn.o_proj.weight"),
        ],
    ],
    of_experts: &[EXPERTS, SHARED_EXPERTS],
    ..BARE
};

fn attention(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    to.put("num_attention_heads", of.size("attention.head_count")?);
    to.put_some("q_lora_rank", of.size_or("attention.q_lora_rank")?.filter(|&rank| rank > 0));
    to.put("kv_lora_rank", of.size("attention.kv_lora_rank")?);
    // Older files have the heads of keys and values, and newer ones those of latent vectors, under the same name.
    let length = |name: &str, older: &str| of.size_or(name)?.map_or_else(|| of.size(older), Ok);
    let head_dim = length("attention.key_length_mla", "attention.key_length")?;
    let rotated = of.size("rope.dimension_count")?;
    let unrotated = head_dim.checked_sub(rotated).ok_or_else(|| {
        format!("{} is {rotated}, but heads have {head_dim} elements", of.name("rope.dimension_count"))
    })?;
    to.put("qk_nope_head_dim", unrotated);
    to.put("qk_rope_head_dim", rotated);
    to.put("v_head_dim", length("attention.value_length_mla", "attention.value_length")?);
    Ok(())
}
