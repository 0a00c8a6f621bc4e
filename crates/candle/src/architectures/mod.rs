//! The supported models of candle-transformers, by their `model_type`.
//!
//! | module | model types |
//! |---|---|
//! | `attention` | gemma, mixtral, phi, phi3, qwen2_moe, starcoder2 |
//! | `falcon` | falcon |
//! | `hidden` | glm4, qwen2, qwen3, qwen3_moe: these return the rows of all tokens |
//! | `llama` | llama |
//! | `mamba` | mamba, which has a state instead of a cache |
//! | `quantized` | GGUF files of llama |
//! | `t5` | t5, an encoder and a decoder |

mod attention;
mod falcon;
mod hidden;
mod llama;
mod mamba;
mod quantized;
mod t5;

use candle_nn::VarBuilder;

use crate::config::Config;
use crate::decoder::Loaded;

pub(crate) use quantized::gguf;

/// One architecture.
pub(crate) struct Architecture {
    model_type: &'static str,
    pub(crate) precision: Precision,
    /// Creates the model. The error is candle's, or says what is wrong with the configuration.
    pub(crate) load: fn(&Config, VarBuilder<'_>) -> Loaded,
}

/// The types that a model can be computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    /// In the type of its weights: it computes the angles of rotary positions in f32 anyway, or has none.
    AsStored,
    /// In f32 only. In bf16 candle fails, or computes angles in bf16 too, where positions past 256 collide.
    F32,
}

const ARCHITECTURES: [Architecture; 14] = [
    Architecture { model_type: "falcon", precision: Precision::F32, load: falcon::load },
    Architecture { model_type: "gemma", precision: Precision::F32, load: attention::gemma },
    Architecture { model_type: "glm4", precision: Precision::F32, load: hidden::glm4 },
    Architecture { model_type: "llama", precision: Precision::AsStored, load: llama::load },
    Architecture { model_type: "mamba", precision: Precision::AsStored, load: mamba::load },
    Architecture { model_type: "mixtral", precision: Precision::F32, load: attention::mixtral },
    Architecture { model_type: "phi", precision: Precision::F32, load: attention::phi },
    Architecture { model_type: "phi3", precision: Precision::F32, load: attention::phi3 },
    Architecture { model_type: "qwen2", precision: Precision::F32, load: hidden::qwen2 },
    Architecture { model_type: "qwen2_moe", precision: Precision::F32, load: attention::qwen2_moe },
    Architecture { model_type: "qwen3", precision: Precision::AsStored, load: hidden::qwen3 },
    Architecture { model_type: "qwen3_moe", precision: Precision::AsStored, load: hidden::qwen3_moe },
    Architecture { model_type: "starcoder2", precision: Precision::F32, load: attention::starcoder2 },
    Architecture { model_type: "t5", precision: Precision::AsStored, load: t5::load },
];

/// The architecture of a model type.
pub(crate) fn of(model_type: &str) -> Option<&'static Architecture> {
    ARCHITECTURES.iter().find(|architecture| architecture.model_type == model_type)
}

/// Whether models of this type are supported.
pub fn has(model_type: &str) -> bool {
    of(model_type).is_some()
}

/// All supported model types, as a list.
pub fn model_types() -> String {
    ARCHITECTURES.each_ref().map(|architecture| architecture.model_type).join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use candle_core::{DType, Device};
    use verdigris_models::{Batch, ModelError, ModelFolder, Rows, Wanted};

    use super::*;
    use crate::sampled::sampled;
    use crate::weights::WeightFiles;

    /// The last row of a text, computed from a checkpoint in the given type.
    fn last_row(architecture: &Architecture, length: usize, kind: DType) -> Result<Vec<f32>, ModelError> {
        let foreign = ["glm4", "mamba", "mixtral", "phi", "qwen2_moe", "qwen3_moe", "starcoder2"];
        let model_type = architecture.model_type;
        let group = if foreign.contains(&model_type) { "foreign" } else { "architectures" };
        let name = if model_type == "falcon" { "foreign/falcon-7b".into() } else { format!("{group}/{model_type}") };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden").join(name);
        let folder = ModelFolder::at(folder);
        let config = Config::parse(&folder.file("config.json").unwrap()).unwrap();
        let config = config.with("max_position_embeddings", 5000).with("sliding_window", 5000);
        let stored = WeightFiles::new(folder.safetensors().unwrap(), config.output_is_embedding()).unwrap();
        let weights = VarBuilder::from_backend(Box::new(stored), kind, Device::Cpu);
        let model = (architecture.load)(&config, weights).unwrap();
        let mut sequence = model.begin(length).unwrap();
        let text: Vec<u32> = (0..length as u32).map(|i| (i * i * 31 + i * 7) % 61).collect();
        let mut rows = Rows::default();
        sequence.forward(&Batch::chain(&text, Wanted::Last), &mut rows)?;
        Ok(rows.last().to_vec())
    }

    #[test]
    fn what_is_computed_in_bf16_has_positions_as_good_as_in_f32() {
        // One has no positions, and one has distances, which are looked up in a table of 32.
        let has_positions = |architecture: &&Architecture| !["mamba", "t5"].contains(&architecture.model_type);
        for architecture in sampled(ARCHITECTURES.iter().filter(has_positions), 3) {
            let is_exact = architecture.precision == Precision::AsStored;
            // Colliding positions show early.
            let lengths: &[usize] = if is_exact { &[64, 258, 1026, 4098] } else { &[64, 258, 1026] };
            let errors = lengths.iter().map(|&length| {
                let whole = last_row(architecture, length, DType::F32).unwrap();
                // candle's Mixtral and Phi do not compute in bf16 at all.
                let Ok(half) = last_row(architecture, length, DType::BF16) else { return length as f64 };
                let square = |values: &[f32]| values.iter().map(|v| f64::from(v * v)).sum::<f64>();
                let difference: Vec<f32> = half.iter().zip(&whole).map(|(a, b)| a - b).collect();
                (square(&difference) / square(&whole)).sqrt()
            });
            let errors: Vec<f64> = errors.collect();
            println!("{}: {errors:.4?}", architecture.model_type);
            let grows = errors[1..].iter().fold(0f64, |a, &b| a.max(b)) / errors[0];
            assert_eq!(grows < 3.0, is_exact, "{}: {errors:?}", architecture.model_type);
        }
    }
}
