//! Draft heads: EAGLE-3, DFlash and DSpark, and the assistants of Gemma 4.

use serde_json::Value as Json;

use super::decoder::{Rotated, decoder};
use super::dense::{OUTPUT_BIAS, biases, layer_types};
use super::names::{ATTENTION, BEFORE, BIASES, NETWORK, QUERY_KEY_NORMS};
use super::values::{ASSISTANT, Described, Values};
use super::{Architecture, BARE, gemma4};

pub(super) const EAGLE3: Architecture = Architecture {
    name: "eagle3",
    describe: |of, to| {
        decoder(of, to, "llama", Rotated::Whole)?;
        to.put("rope_neighbours", true);
        to.put("architectures", ["LlamaForCausalLMEagle3"]);
        biases(of, to);
        guesses(of, to);
        to.put_some("target_hidden_size", of.size_or("target_hidden_size")?);
        to.put_some("eagle_aux_hidden_state_layer_ids", of.integers("target_layers")?);
        for name in ["norm_before_residual", "norm_before_fc"] {
            to.put_some(name, of.truth(name)?);
        }
        Ok(())
    },
    names: &[BEFORE, ATTENTION, BIASES, OUTPUT_BIAS, NETWORK, &[("attn_norm_2.weight", "hidden_norm.weight")]],
    outside: &[
        ("token_embd.weight", "embed_tokens.weight"),
        ("output_norm.weight", "norm.weight"),
        ("enc.output_norm.weight", "input_norm.weight"),
        ("fc.weight", "fc.weight"),
        ("d2t", "d2t"),
    ],
    prefix: "",
    ..BARE
};

pub(super) const DFLASH: Architecture = Architecture {
    name: "dflash",
    describe: |of, to| {
        decoder(of, to, "qwen3", Rotated::Whole)?;
        guesses(of, to);
        let anchor = of.truth("sample_from_anchor")?;
        // Only files of DSpark say from which row tokens are sampled.
        to.put("architectures", [if anchor.is_some() { "Qwen3DSparkModel" } else { "DFlashDraftModel" }]);
        to.put_some("sample_from_anchor", anchor);
        to.put_some("block_size", of.size_or("block_size")?);
        to.put_some("mask_token_id", of.gguf.size("tokenizer.ggml.mask_token_id")?);
        // A file counts the layers whose inputs are read.
        let before = |layers: Vec<i64>| layers.into_iter().map(|layer| layer.saturating_sub(1)).collect::<Vec<_>>();
        to.put_some("target_layer_ids", of.integers("target_layers")?.map(before));
        to.put_some("is_causal", of.truth("attention.causal")?);
        if let Some(window) = of.size_or("attention.sliding_window")?.filter(|&window| window > 0) {
            to.put("sliding_window", window);
            to.put("use_sliding_window", true);
            to.put_some("layer_types", layer_types(of)?);
        }
        to.put_some("input_embedding_scale", of.number("embedding_scale")?);
        to.put_some("final_logit_softcapping", of.number("final_logit_softcapping")?);
        to.put_some("hidden_act", of.text("hidden_act")?);
        to.put_some("markov_rank", of.gguf.tensors.get("markov_w1.weight").and_then(|rows| rows.shape.last().copied()));
        Ok(())
    },
    names: &[BEFORE, ATTENTION, QUERY_KEY_NORMS, NETWORK],
    outside: &[
        ("token_embd.weight", "embed_tokens.weight"),
        ("output_norm.weight", "norm.weight"),
        ("enc.output_norm.weight", "hidden_norm.weight"),
        ("fc.weight", "fc.weight"),
        ("d2t", "d2t"),
        ("markov_w1.weight", "markov_head.markov_w1.weight"),
        ("markov_w2.weight", "markov_head.markov_w2.weight"),
        ("conf_proj.weight", "confidence_head.proj.weight"),
        ("conf_proj.bias", "confidence_head.proj.bias"),
    ],
    prefix: "",
    ..BARE
};

/// The tokens are not in groups, as in some folders: the converter leaves those out.
pub(super) const GEMMA4_ASSISTANT: Architecture = Architecture {
    name: ASSISTANT,
    describe: |of, to| {
        (gemma4::GEMMA4.describe)(of, to)?;
        to.put("architectures", ["Gemma4AssistantForCausalLM"]);
        to.put("backbone_hidden_size", of.size("embedding_length_out")?);
        // Its layers have no values for another reason.
        to.put("attention_k_eq_v", false);
        Ok(())
    },
    names: gemma4::GEMMA4.names,
    outside: &[
        ("nextn.pre_projection.weight", "pre_projection.weight"),
        ("nextn.post_projection.weight", "post_projection.weight"),
    ],
    ..BARE
};

/// The number of tokens that a head can guess, if these are not all.
fn guesses(of: &Values<'_>, to: &mut Described) {
    let tokens = of.gguf.tensors.get("d2t").and_then(|tokens| tokens.shape.first().copied());
    to.put_some("draft_vocab_size", tokens.map(Json::from));
}
