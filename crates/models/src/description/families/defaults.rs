//! The values of fields that are missing in `config.json`: those of `transformers`, where they differ from Llama's.

use serde_json::{Map, Value, json};

/// The fields of a model type whose defaults differ from Llama's.
pub(super) fn defaults(model_type: &str) -> Map<String, Value> {
    let fields = match model_type {
        "mistral" => json!({"num_key_value_heads": 8, "sliding_window": 4096}),
        "ministral3" => json!({
            "head_dim": 128, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16_384,
                "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
            },
        }),
        "olmo3" => json!({"rms_norm_eps": 1e-5, "sliding_window": 4096}),
        "qwen2" => json!({"max_window_layers": 28, "sliding_window": 4096}),
        "qwen3" => json!({"head_dim": 128, "max_window_layers": 28, "sliding_window": 4096}),
        "smollm3" => json!({"num_key_value_heads": 4, "rope_theta": 2e6, "tie_word_embeddings": true}),
        "phi3" | "olmo2" => json!({"rms_norm_eps": 1e-5}),
        "mixtral" => json!({
            "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5,
            "rope_theta": 1e6,
        }),
        "olmoe" => json!({"rms_norm_eps": 1e-5, "num_experts": 64, "num_experts_per_tok": 8}),
        "qwen2_moe" => json!({
            "max_window_layers": 28, "sliding_window": 0, "num_experts": 60, "num_experts_per_tok": 4,
            "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
        }),
        "qwen3_moe" => json!({
            "num_key_value_heads": 4, "max_window_layers": 28, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        }),
        "qwen3_next" => json!({
            "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512, "num_key_value_heads": 2,
        }),
        "qwen3_5_moe_text" => json!({
            "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512, "num_key_value_heads": 2,
        }),
        "qwen3_5_text" => json!({"num_key_value_heads": 4}),
        "lfm2_moe" => json!({"num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 1792}),
        "glm4" => json!({"head_dim": 128, "num_key_value_heads": 2, "rms_norm_eps": 1.5625e-7}),
        "glm4_moe" => json!({
            "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "num_experts_per_tok": 8, "moe_intermediate_size": 1408,
            "n_shared_experts": 1, "n_routed_experts": 128, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
        }),
        "deepseek_v3" => json!({
            "vocab_size": 129_280, "hidden_size": 7168, "intermediate_size": 18_432, "moe_intermediate_size": 2048,
            "num_hidden_layers": 61, "num_attention_heads": 128, "n_shared_experts": 1, "n_routed_experts": 256,
            "routed_scaling_factor": 2.5, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "qk_nope_head_dim": 128, "n_group": 8, "topk_group": 4, "num_experts_per_tok": 8,
            "first_k_dense_replace": 3, "max_position_embeddings": 4096,
        }),
        "glm4_moe_lite" => json!({
            "vocab_size": 154_880, "hidden_size": 2048, "intermediate_size": 10_240, "moe_intermediate_size": 1536,
            "num_hidden_layers": 47, "num_attention_heads": 20, "n_shared_experts": 1, "n_routed_experts": 64,
            "routed_scaling_factor": 1.8, "kv_lora_rank": 512, "q_lora_rank": 768, "qk_rope_head_dim": 64,
            "v_head_dim": 256, "qk_nope_head_dim": 192, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 4,
            "max_position_embeddings": 202_752, "rms_norm_eps": 1e-5,
        }),
        "seed_oss" => json!({"head_dim": 128, "num_key_value_heads": 8}),
        "exaone4" => json!({"num_key_value_heads": 32, "rms_norm_eps": 1e-5, "sliding_window": 4096}),
        "starcoder2" => json!({"num_key_value_heads": 2}),
        "hunyuan_v1_dense" => json!({"rms_norm_eps": 1e-5}),
        "cohere2" => json!({"sliding_window": 4096, "logit_scale": 0.0625}),
        "gpt_oss" => json!({
            "head_dim": 64, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 150_000.0,
            "sliding_window": 128, "num_local_experts": 128, "num_experts_per_tok": 4, "attention_bias": true,
            "rope_parameters": {
                "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
                "original_max_position_embeddings": 4096, "rope_theta": 150_000.0,
            },
        }),
        "gemma" => json!({"head_dim": 256, "num_key_value_heads": 16}),
        "gemma2" => json!({
            "head_dim": 256, "num_key_value_heads": 4, "sliding_window": 4096, "query_pre_attn_scalar": 256,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        }),
        // Files of multimodal models omit every field that has its default value.
        "gemma3" | "gemma3_text" => json!({
            "vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131_072,
            "sliding_window": 4096, "query_pre_attn_scalar": 256,
        }),
        "gemma3n_text" => json!({
            "vocab_size": 262_400, "hidden_size": 2048, "intermediate_size": 16_384, "num_hidden_layers": 35,
            "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32_768,
            "sliding_window": 512, "final_logit_softcapping": 30.0, "vocab_size_per_layer_input": 262_144,
            "hidden_size_per_layer_input": 256, "altup_active_idx": 0, "altup_num_inputs": 4,
            "num_kv_shared_layers": 15, "laurel_rank": 64,
        }),
        "gemma4_text" | "gemma4_unified_text" => {
            let is_unified = model_type == "gemma4_unified_text";
            json!({
                "vocab_size": 262_144, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 30,
                "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                "max_position_embeddings": if is_unified { 262_144 } else { 131_072 },
                "sliding_window": if is_unified { 1024 } else { 512 }, "vocab_size_per_layer_input": 262_144,
                "hidden_size_per_layer_input": if is_unified { 0 } else { 256 },
            })
        }
        _ => json!({}),
    };
    object(fields)
}

/// The fields of a text part that the files of a multimodal model omit if they have their default values.
pub(super) fn text_defaults(model_type: &str) -> Map<String, Value> {
    let of_layers = |layers: usize, vocabulary: usize, inner: usize, context: usize| {
        json!({
            "vocab_size": vocabulary, "hidden_size": 4096, "intermediate_size": inner, "num_hidden_layers": layers,
            "num_attention_heads": 32, "max_position_embeddings": context,
        })
    };
    let of = |vocabulary: usize, inner: usize, context: usize| of_layers(32, vocabulary, inner, context);
    object(match model_type {
        "llama" => of(32_000, 11_008, 2048),
        "mistral" => of(32_000, 14_336, 131_072),
        "ministral3" => of_layers(34, 131_072, 14_336, 262_144),
        "qwen2" | "qwen3" => of(151_936, 22_016, 32_768),
        _ => json!({}),
    })
}

fn object(fields: Value) -> Map<String, Value> {
    let Value::Object(fields) = fields else { unreachable!("it is an object") };
    fields
}
