//! A GGUF file's description and names in Hugging Face's terms.
//!
//! | module | holds |
//! |---|---|
//! | `values` | the file's values, and the refusal of those that are not supported |
//! | `names` | the names of tensors, in groups |
//! | `decoder` | the fields that most decoders have: shape, positions, windows |
//! | `experts` | the fields of mixtures of experts |
//! | `llama` | llama, qwen2, qwen3, smollm3, gemma, gemma2, gemma3 |
//! | `dense` | cohere2, exaone4, glm4, granite, hunyuan-dense, mistral3, olmo2, phi3, seed_oss, starcoder2 |
//! | `recurrent` | granitehybrid, lfm2, lfm2moe, mamba2, qwen3next, qwen35, qwen35moe |
//! | `gemma4` | gemma4 |
//! | `nemotron` | nemotron_h, nemotron_h_moe |
//! | `latent` | deepseek2 |
//! | `heads` | draft heads: eagle3, dflash, gemma4-assistant |
//! | `mixtures` | glm4moe, olmoe, qwen2moe, qwen3moe, gpt-oss |

mod decoder;
mod dense;
mod experts;
mod gemma4;
mod heads;
mod latent;
mod llama;
mod mixtures;
mod names;
mod nemotron;
mod recurrent;
mod values;

use std::collections::HashMap;

use verdigris_text::shown;

use super::Gguf;
use crate::description::checkpoint::Checkpoint;
use crate::description::config::{DecoderConfig, Positions, Scaling};
use crate::description::families::Fields;
use crate::error::ModelError;
use names::Names;
use values::{Described, Values};

/// An architecture of llama.cpp.
struct Architecture {
    /// Its name in files.
    name: &'static str,
    /// Adds the fields of a `config.json`. The error says what is missing or not supported.
    describe: fn(&Values<'_>, &mut Described) -> Result<(), String>,
    /// The names of its tensors in a layer.
    names: &'static [Names],
    /// Those that it has if it has experts.
    of_experts: &'static [Names],
    /// The names of tensors outside of layers that only it has.
    outside: Names,
    /// The prefix of the Hugging Face names of layers.
    prefix: &'static str,
}

/// An architecture whose only tensors are those that all have: a start for the others.
const BARE: Architecture =
    Architecture { name: "", describe: |_, _| Ok(()), names: &[], of_experts: &[], outside: &[], prefix: "model." };

/// The supported architectures.
const ARCHITECTURES: [&Architecture; 33] = [
    &dense::COHERE2,
    &latent::DEEPSEEK2,
    &dense::EXAONE4,
    &llama::GEMMA,
    &llama::GEMMA2,
    &llama::GEMMA3,
    &gemma4::GEMMA4,
    &dense::GLM4,
    &mixtures::GLM4_MOE,
    &mixtures::GPT_OSS,
    &dense::GRANITE,
    &recurrent::GRANITE_HYBRID,
    &dense::HUNYUAN,
    &recurrent::LFM2,
    &recurrent::LFM2_MOE,
    &llama::LLAMA,
    &recurrent::MAMBA2,
    &dense::MISTRAL3,
    &nemotron::NEMOTRON_H,
    &nemotron::NEMOTRON_H_MOE,
    &dense::OLMO2,
    &mixtures::OLMOE,
    &dense::PHI3,
    &llama::QWEN2,
    &mixtures::QWEN2_MOE,
    &llama::QWEN3,
    &recurrent::QWEN3_5,
    &recurrent::QWEN3_5_MOE,
    &mixtures::QWEN3_MOE,
    &recurrent::QWEN3_NEXT,
    &dense::SEED_OSS,
    &llama::SMOLLM3,
    &dense::STARCODER2,
];

/// The supported architectures of draft heads.
const HEADS: [&Architecture; 3] = [&heads::DFLASH, &heads::EAGLE3, &heads::GEMMA4_ASSISTANT];

impl Architecture {
    fn of(gguf: &Gguf, among: &[&'static Self]) -> Option<&'static Self> {
        let name = gguf.text("general.architecture").ok()??;
        among.iter().copied().find(|architecture| architecture.name == name)
    }

    /// The Hugging Face name of a tensor.
    fn renamed(&self, gguf: &Gguf, name: &str) -> Option<String> {
        let has_experts = gguf.size(&format!("{}.expert_count", self.name)) != Ok(None);
        let of_experts = if has_experts { self.of_experts } else { &[] };
        names::renamed(self.names.iter().chain(of_experts), self.outside, self.prefix, name)
    }
}

/// The fields that a model's `config.json` would have. The error says what is missing or not supported.
pub(crate) fn fields(gguf: &Gguf) -> Result<Fields, String> {
    let of = Values::of(gguf)?;
    let architecture = Architecture::of(gguf, &ARCHITECTURES).ok_or_else(|| {
        let architecture = shown(of.architecture);
        if Architecture::of(gguf, &HEADS).is_some() {
            return format!("it is a draft head ({architecture}), which drafts for a model: give it with --draft");
        }
        let known = ARCHITECTURES.map(|architecture| architecture.name).join(", ");
        format!("the architecture {architecture:?} is not supported in GGUF files; these are: {known}")
    })?;
    described(gguf, &of, architecture)
}

/// The fields that a draft head's `config.json` would have, or `None` for files of models.
pub(crate) fn fields_of_head(gguf: &Gguf) -> Result<Option<Fields>, String> {
    let Some(architecture) = Architecture::of(gguf, &HEADS) else { return Ok(None) };
    described(gguf, &Values::of(gguf)?, architecture).map(Some)
}

fn described(gguf: &Gguf, of: &Values<'_>, architecture: &Architecture) -> Result<Fields, String> {
    let predictors = of.predictors()?;
    let predicts = |name: &str| layer(name).is_some_and(|layer| predictors.contains(&layer));
    let mut names: Vec<&String> = gguf.tensors.keys().collect();
    names.sort_unstable();
    let mut weights = HashMap::new();
    for name in names {
        let weight = architecture.renamed(gguf, name).filter(|_| predicts(name) || !names::is_of_predictor(name));
        match weight {
            None if predicts(name) => {}
            None => return Err(format!("the tensor {:?} is not known in files of {}", shown(name), architecture.name)),
            Some(weight) => {
                if let Some(other) = weights.insert(weight, name) {
                    return Err(format!("the tensors {:?} and {:?} are the same weight", shown(other), shown(name)));
                }
            }
        }
    }
    let mut described = Described::default();
    (architecture.describe)(of, &mut described)?;
    of.refuse_others()?;
    let ids = |names: &[&str]| {
        let id = |name: &&str| gguf.size(&format!("tokenizer.ggml.{name}"));
        let ids: Vec<Option<usize>> = names.iter().map(id).collect::<Result<_, String>>()?;
        Ok::<Vec<usize>, String>(ids.into_iter().flatten().collect())
    };
    let mut ends = ids(&["eos_token_id", "eot_token_id", "eom_token_id"])?;
    let by_name = ends_by_name(gguf).into_iter().filter(|id| !ends.contains(id)).collect::<Vec<_>>();
    ends.extend(by_name);
    described.put("eos_token_id", ends);
    described.put("bos_token_id", ids(&["bos_token_id"])?);
    Ok(described.fields())
}

/// The layer that a tensor belongs to.
fn layer(tensor: &str) -> Option<usize> {
    tensor.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}

/// Control tokens whose names say that they end a turn, a message or a text: files list one or two of them, and
/// llama.cpp uses all.
fn ends_by_name(gguf: &Gguf) -> Vec<usize> {
    const NAMES: [&str; 17] = [
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "<turn|>",
        "<EOT>",
        "[EOT]",
        "[EOS]",
        "<eos>",
        "</s>",
        "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    ];
    let tokens = gguf.texts("tokenizer.ggml.tokens").unwrap_or_default();
    let is_control = |id: usize| super::tokenizer::is_control(gguf, id);
    // Gemma 4 waits for the answer of a tool after this one, which files list as text.
    let is_end = |id: usize, token: &str| NAMES.contains(&token) && is_control(id) || token == "<|tool_response>";
    let ends = tokens.iter().enumerate().filter(|(id, token)| is_end(*id, token.as_str()));
    let mut ends: Vec<(usize, &str)> = ends.map(|(id, token)| (id, token.as_str())).collect();
    let has = |name: &str| ends.iter().any(|(_, token)| *token == name);
    if has("<|return|>") && has("<|call|>") {
        // gpt-oss ends each message with it, and may write another.
        ends.retain(|(_, token)| *token != "<|end|>");
    }
    ends.into_iter().map(|(id, _)| id).collect()
}

/// Adds the factors of wavelengths of rotary positions to a description, if there are any among its file's weights.
pub(crate) fn add_factors(config: &mut DecoderConfig, checkpoint: &Checkpoint) -> Result<(), ModelError> {
    const FACTORS: &str = "rope_freqs";
    let head_dim = config.rotated_head(0);
    if checkpoint.has(FACTORS)
        && let Positions::Rotary(all) = &mut config.positions
        && let Some(first) = all.first_mut()
    {
        let pairs = first.elements.unwrap_or(head_dim) / 2;
        let factors = checkpoint.vector(FACTORS, pairs)?.into_iter().map(f64::from).collect();
        first.scaling = Scaling::Each(factors);
    }
    Ok(())
}

/// The ends of the names of vectors that files have as matrices, of one column or of a row for each group.
const FLAT: [&str; 3] = [".ssm_a", ".ssm_d", ".ssm_norm.weight"];

/// The weights under their Hugging Face names.
pub(crate) fn checkpoint(gguf: &Gguf) -> Checkpoint {
    let architecture = Architecture::of(gguf, &ARCHITECTURES).or_else(|| Architecture::of(gguf, &HEADS));
    gguf.checkpoint(|name| architecture?.renamed(gguf, name), |name| FLAT.iter().any(|of| name.ends_with(of)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::description::gguf::write::{Planned, Put, head};
    use std::sync::Arc;
    use verdigris_kernels::Bytes;
    use verdigris_kernels::Format;

    /// The values that describe a model, with additional or replaced ones.
    fn described(more: Vec<(&str, Put)>) -> Vec<(String, Put)> {
        let values = [
            ("general.architecture", Put::Text("llama".into())),
            ("llama.context_length", Put::U32(64)),
            ("llama.embedding_length", Put::U32(32)),
            ("llama.block_count", Put::U32(2)),
            ("llama.feed_forward_length", Put::U32(48)),
            ("llama.attention.head_count", Put::U32(4)),
        ];
        let is_replaced = |name: &str| more.iter().any(|(other, _)| *other == name);
        let mut all: Vec<_> = values.into_iter().filter(|(name, _)| !is_replaced(name)).collect();
        all.extend(more);
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The description in a file with additional or replaced values and a tensor. The error says what is wrong with it.
    fn read(more: Vec<(&str, Put)>, tensor: &str) -> Result<DecoderConfig, String> {
        let tensors = ["token_embd.weight", tensor].map(|name| Planned {
            name: name.to_owned(),
            shape: vec![61, 32],
            format: Format::F32,
        });
        let mut file = head(&described(more), &tensors);
        file.resize(file.len() + 2 * 61 * 32 * 4, 0);
        let fields = fields(&Gguf::parse(&Bytes::new(Arc::new(file)))?)?;
        let config = (crate::description::families::family(&fields).ok().expect("a family").config)(&fields)?;
        config.check().map(|()| config).map_err(|fault| fault.to_string())
    }

    #[test]
    fn texts_end_with_what_the_file_names_and_with_control_tokens_that_are_called_so() {
        let tokens = ["<|im_end|>", "a", "</s>", "<|endoftext|>", "stop"].map(str::to_owned);
        let values = described(vec![
            ("tokenizer.ggml.tokens", Put::Texts(tokens.into())),
            // The second to last is text that only looks like an end token.
            ("tokenizer.ggml.token_type", Put::Integers(vec![3, 1, 3, 1, 3])),
            ("tokenizer.ggml.eos_token_id", Put::U32(4)),
        ]);
        let fields = fields(&Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap()).unwrap();
        assert_eq!(fields.get("eos_token_id"), Some(&json!([4, 0, 2])));
    }

    #[test]
    fn a_message_of_gpt_oss_does_not_end_a_text() {
        let ends = |tokens: &[&str]| {
            let values = described(vec![
                ("tokenizer.ggml.tokens", Put::Texts(tokens.iter().map(|token| (*token).to_owned()).collect())),
                ("tokenizer.ggml.token_type", Put::Integers(vec![3; tokens.len()])),
            ]);
            ends_by_name(&Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap())
        };
        assert_eq!(ends(&["<|end|>", "<|return|>", "<|call|>", "<|start|>"]), [1, 2]);
        assert_eq!(ends(&["<|end|>", "<|user|>"]), [0]);
    }

    /// Files of LFM2 have the last norm under one of two names.
    #[test]
    fn a_weight_with_two_names_is_an_error() {
        let fault = |names: &[&str]| {
            let tensor = |name: &&str| Planned { name: (*name).to_owned(), shape: vec![32], format: Format::F32 };
            let values = [("general.architecture".to_owned(), Put::Text("lfm2".into()))];
            let mut file = head(&values, &names.iter().map(tensor).collect::<Vec<_>>());
            file.resize(file.len() + names.len() * 128, 0);
            fields(&Gguf::parse(&Bytes::new(Arc::new(file))).unwrap()).err().unwrap()
        };
        let both = fault(&["token_embd_norm.weight", "output_norm.weight"]);
        assert_eq!(both, "the tensors \"output_norm.weight\" and \"token_embd_norm.weight\" are the same weight");
        assert!(fault(&["token_embd_norm.weight"]).contains("token_embd.weight is missing"));
    }

    #[test]
    fn a_description_is_understood_or_refused_by_the_name_of_the_value() {
        let usual = || ("llama.rope.dimension_count", Put::U32(8));
        let config = read(vec![usual()], "output.weight").unwrap();
        assert_eq!((config.vocabulary, config.rotated_head(0), config.tied), (61, 8, false));
        for (name, value, said) in [
            ("llama.rope.freq_base", Put::F32(f32::NAN), "llama.rope.freq_base is not a number"),
            ("llama.rope.freq_base", Put::F32(-1.0), "rotary positions (rope_theta) is -1"),
            ("llama.rope.freq_base", Put::Text("10000".into()), "llama.rope.freq_base is not a number"),
            ("llama.attention.layer_norm_rms_epsilon", Put::F32(f32::NAN), "layer_norm_rms_epsilon is not a number"),
            ("llama.attention.layer_norm_rms_epsilon", Put::F32(0.0), "the epsilon of norms is 0"),
            ("llama.rope.dimension_count", Put::U32(4), "llama.rope.dimension_count is 4 where heads have 8"),
            ("llama.attention.value_length", Put::U32(16), "llama.attention.value_length is 16"),
            ("llama.attention.head_count_kv", Put::Integers(vec![4, 2]), "and the same for all layers"),
            ("llama.block_count", Put::F32(2.0), "llama.block_count is not a number of things"),
            ("llama.expert_count", Put::U32(8), "llama.expert_used_count is missing"),
            ("llama.embedding_scale", Put::F32(2.0), "llama.embedding_scale = 2 is not supported"),
            ("llama.rope.scaling.type", Put::Truth(true), "llama.rope.scaling.type is not a text"),
            ("llama.rope.scaling.type", Put::Text("longrope".into()), "\"longrope\" are not supported"),
            ("llama.attention.causal", Put::Truth(false), "llama.attention.causal = false"),
            ("general.architecture", Put::Text("mamba".into()), "\"mamba\" is not supported in GGUF files"),
        ] {
            let fault = read(vec![(name, value)], "output.weight").unwrap_err();
            assert!(fault.contains(said) && !fault.contains('\n'), "{fault:?} should say {said:?}");
        }
        assert!(read(vec![("llama.attention.head_count_kv", Put::Integers(vec![2, 2]))], "output.weight").is_ok());
        let of_predictor = "blk.0.nextn.enorm.weight";
        for tensor in ["blk.0.attn_q.bias", "blk.0.ffn_gate_exps.weight", "rope_factors_long.weight", of_predictor] {
            let fault = read(vec![usual()], tensor).unwrap_err();
            assert!(fault.contains(&format!("the tensor {tensor:?} is not known")), "{fault}");
        }
    }
}
