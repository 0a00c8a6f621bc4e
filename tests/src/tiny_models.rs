//! Models of four tokens with random weights, one for each kind of layer: small enough to enumerate all their texts.

use std::io;

use serde_json::{Value, json};
use verdigris::{Device, Engine, ModelFolder, Tokenizer};

use crate::random_model::{RandomModel, Shape};

/// The tokens are `1`, `2`, `12`, and this one, which ends a text.
pub const END: u32 = 3;

/// The range of the weights: see [`RandomModel::write_with`].
pub const SPREAD: f32 = 2.8;

/// The kinds of layers of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    /// Attention, and a network that every token uses: a Llama.
    Dense,
    /// Attention, and a mixture of experts: a Qwen3-MoE.
    Mixture,
    /// A gated delta net, then attention: a Qwen3.5.
    Hybrid,
    /// Attention with a window, then full attention: a Gemma 4.
    Windows,
}

/// The shapes of mixtures and hybrids.
const EXPERTS: usize = 4;
const TAPS: usize = 3;
const VALUE_HEADS: usize = 2;

impl Layers {
    /// The contents of `config.json`, and the weights by name, with their shapes.
    pub(crate) fn description(self) -> (Value, Vec<(String, Vec<usize>)>) {
        let shape = Shape::TINY;
        let Shape { width, heads, head_dim, inner, .. } = shape;
        let (mut config, mut weights) = (shape.config(), shape.weights());
        let mut set = |fields: Value| {
            let (Value::Object(config), Value::Object(fields)) = (&mut config, fields) else { return };
            config.extend(fields);
        };
        let norms = |layer: usize| {
            let norm = move |part: &str| (format!("model.layers.{layer}.self_attn.{part}_norm.weight"), vec![head_dim]);
            ["q", "k"].map(norm)
        };
        match self {
            Self::Dense => (),
            Self::Mixture => {
                set(json!({
                    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": EXPERTS,
                    "num_experts_per_tok": 2, "moe_intermediate_size": inner, "norm_topk_prob": true,
                    "decoder_sparse_step": 1, "mlp_only_layers": [],
                }));
                weights.retain(|(name, _)| !name.contains(".mlp."));
                weights.push(("model.layers.0.mlp.gate.weight".into(), vec![EXPERTS, width]));
                for expert in 0..EXPERTS {
                    let parts = [("gate", [inner, width]), ("up", [inner, width]), ("down", [width, inner])];
                    let name = |part: &str| format!("model.layers.0.mlp.experts.{expert}.{part}_proj.weight");
                    weights.extend(parts.map(|(part, shape)| (name(part), shape.to_vec())));
                }
                weights.extend(norms(0));
            }
            Self::Hybrid => {
                set(json!({
                    "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "num_hidden_layers": 2,
                    "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": TAPS,
                    "linear_num_key_heads": 1, "linear_num_value_heads": VALUE_HEADS,
                    "linear_key_head_dim": head_dim, "linear_value_head_dim": head_dim,
                    "rope_parameters":
                        {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
                }));
                // The layer with attention comes second, and its queries have gates.
                for (name, shape) in &mut weights {
                    *name = name.replace("layers.0", "layers.1");
                    if name.ends_with("q_proj.weight") {
                        *shape = vec![2 * heads * head_dim, width];
                    }
                }
                let first = |name: &str| name.replace("layers.1", "layers.0");
                let is_common = |name: &str| name.contains("layers.1") && !name.contains("self_attn");
                let common: Vec<_> = weights.iter().filter(|(name, _)| is_common(name)).cloned().collect();
                weights.extend(common.into_iter().map(|(name, shape)| (first(&name), shape)));
                weights.extend(norms(1));
                let (values, columns) = (VALUE_HEADS * head_dim, (2 + VALUE_HEADS) * head_dim);
                let parts = [
                    ("A_log", vec![VALUE_HEADS]),
                    ("dt_bias", vec![VALUE_HEADS]),
                    ("conv1d.weight", vec![columns, 1, TAPS]),
                    ("in_proj_a.weight", vec![VALUE_HEADS, width]),
                    ("in_proj_b.weight", vec![VALUE_HEADS, width]),
                    ("in_proj_qkv.weight", vec![columns, width]),
                    ("in_proj_z.weight", vec![values, width]),
                    ("norm.weight", vec![head_dim]),
                    ("out_proj.weight", vec![width, values]),
                ];
                let name = |part: &str| format!("model.layers.0.linear_attn.{part}");
                weights.extend(parts.map(|(part, shape)| (name(part), shape)));
            }
            Self::Windows => {
                let (fields, all) = Self::windows(shape);
                set(fields);
                set(json!({"architectures": ["Gemma4ForCausalLM"], "num_kv_shared_layers": 0}));
                weights = all;
            }
        }
        (config, weights)
    }

    /// The fields of a Gemma 4 with two layers that are the same in its assistants, and the weights of these layers.
    fn windows(shape: Shape) -> (Value, Vec<(String, Vec<usize>)>) {
        let Shape { width, heads, kv_heads, head_dim, .. } = shape;
        let fields = json!({
            "model_type": "gemma4_text", "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 2,
            "num_hidden_layers": 2, "hidden_activation": "gelu_pytorch_tanh", "hidden_size_per_layer_input": 0,
            "enable_moe_block": false, "tie_word_embeddings": true,
            "per_layer_config": {"1": {"head_dim": 2 * head_dim}},
            "rope_parameters": {
                "full_attention": {"partial_rotary_factor": 0.5, "rope_theta": 1e4, "rope_type": "proportional"},
                "sliding_attention": {"rope_theta": 100.0, "rope_type": "default"},
            },
        });
        let one = Shape { layers: 1, tied: true, ..shape };
        let is_of_layer = |(name, _): &(String, Vec<usize>)| name.contains(".layers.");
        let (mut of_layer, mut weights): (Vec<_>, Vec<_>) = one.weights().into_iter().partition(is_of_layer);
        let name = |part: &str| format!("model.layers.0.{part}");
        let norms = ["pre_feedforward_layernorm", "post_feedforward_layernorm"].map(|norm| format!("{norm}.weight"));
        of_layer.extend(norms.map(|norm| (name(&norm), vec![width])));
        of_layer.push((name("layer_scalar"), vec![1]));
        for layer in 0..2 {
            let head_dim = (1 + layer) * head_dim;
            for (part, shape) in &of_layer {
                let shape = match part.rsplit('.').nth(1) {
                    Some("q_proj") => vec![heads * head_dim, width],
                    Some("k_proj" | "v_proj") => vec![kv_heads * head_dim, width],
                    Some("o_proj") => vec![width, heads * head_dim],
                    _ => shape.clone(),
                };
                weights.push((part.replace("layers.0", &format!("layers.{layer}")), shape));
            }
            let norm = |part: &str| (format!("model.layers.{layer}.self_attn.{part}_norm.weight"), vec![head_dim]);
            weights.extend(["q", "k"].map(norm));
        }
        (fields, weights)
    }

    /// Writes a model with such layers as a folder, with weights made from a seed.
    ///
    /// # Errors
    /// If temporary files cannot be written.
    pub fn write(self, seed: u64) -> io::Result<RandomModel> {
        let (config, weights) = self.description();
        RandomModel::write_described(Shape::TINY, &config, weights, SPREAD, seed)
    }
}

/// Writes an assistant for a model with [windows](Layers::Windows), into a folder that is removed with it.
pub fn write_assistant(model: &RandomModel, seed: u64) -> ModelFolder {
    let Shape { width, .. } = Shape::TINY;
    // Another width than the model's.
    let shape = Shape { width: 6, layers: 2, ..Shape::TINY };
    let (fields, mut weights) = Layers::windows(shape);
    let has_no_keys = |name: &str| !["k_proj", "v_proj", "k_norm"].iter().any(|part| name.contains(part));
    weights.retain(|(name, _)| has_no_keys(name));
    weights.push(("pre_projection.weight".into(), vec![shape.width, 2 * width]));
    weights.push(("post_projection.weight".into(), vec![width, shape.width]));
    let mut text = shape.config();
    let Value::Object(of_text) = &mut text else { unreachable!("an object") };
    of_text.remove("architectures");
    of_text.extend(fields.as_object().expect("an object").clone());
    let config = json!({
        "architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "text_config": text,
        "backbone_hidden_size": width, "use_ordered_embeddings": false, "tie_word_embeddings": true,
    });
    model.write_head("assistant", &config, weights, SPREAD, seed)
}

/// The tokenizer of these models.
///
/// # Panics
/// Never.
pub fn tokenizer() -> Tokenizer {
    let json = json!({
        "version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [{"id": END, "content": "<end>", "special": true, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false}],
        "model": {"type": "BPE", "vocab": {"1": 0, "2": 1, "12": 2, "<end>": END}, "merges": [["1", "2"]]},
    });
    Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer")
}

/// The engine of such a model, on a CPU.
///
/// # Panics
/// If the model cannot be read.
pub fn engine(folder: &ModelFolder) -> Engine {
    Engine::new(folder.model(&Device::Cpu).expect("a model"), tokenizer(), vec![END])
}
