//! The speed at which candle-transformers' own models read and write on this CPU: `candle-decode FILE...` (GGUF files
//! of Llamas and of Qwen2), and `bf16` for Qwen2.5-0.5B in bf16 with weights of zero.
//!
//! The measurements are those of the project's program `decode`: 512 tokens read at once, and 32 written one by one
//! after 128 and after 2,048; the best of three each.

use std::fs::File;
use std::io::{BufReader, Seek};
use std::time::Instant;

use candle_core::quantized::gguf_file::Content;
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Activation, VarBuilder};
use candle_transformers::models::{quantized_llama, quantized_qwen2, qwen2};

enum Model {
    Llama(quantized_llama::ModelWeights),
    Qwen2(quantized_qwen2::ModelWeights),
    Dense(qwen2::ModelForCausalLM),
}

impl Model {
    fn load(path: &str) -> Result<Self> {
        if path == "bf16" {
            let config = qwen2::Config {
                vocab_size: 151_936,
                hidden_size: 896,
                intermediate_size: 4864,
                num_hidden_layers: 24,
                num_attention_heads: 14,
                num_key_value_heads: 2,
                max_position_embeddings: 4096,
                sliding_window: 4096,
                max_window_layers: 24,
                tie_word_embeddings: true,
                rope_theta: 1e6,
                rms_norm_eps: 1e-6,
                use_sliding_window: false,
                hidden_act: Activation::Silu,
            };
            let weights = VarBuilder::zeros(DType::BF16, &Device::Cpu);
            return qwen2::ModelForCausalLM::new(&config, weights).map(Self::Dense);
        }
        let mut file = BufReader::new(File::open(path)?);
        let content = Content::read(&mut file)?;
        file.rewind()?;
        match content.metadata.get("general.architecture").map(|name| name.to_string()) {
            Some(Ok(name)) if name == "llama" => {
                quantized_llama::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).map(Self::Llama)
            }
            Some(Ok(name)) if name == "qwen2" => {
                quantized_qwen2::ModelWeights::from_gguf(content, &mut file, &Device::Cpu).map(Self::Qwen2)
            }
            other => candle_core::bail!("{path} is of {other:?}"),
        }
    }

    /// Reads `count` tokens after `held` others. From the beginning, earlier tokens are forgotten.
    fn read(&mut self, count: usize, held: usize) -> Result<()> {
        let ids: Vec<u32> = (0..count as u32).map(|i| i * 37 % 40_000 + 1).collect();
        let ids = Tensor::new(&ids[..], &Device::Cpu)?.unsqueeze(0)?;
        if let (0, Self::Dense(model)) = (held, &mut *self) {
            model.clear_kv_cache();
        }
        match self {
            Self::Llama(model) => model.forward(&ids, held)?,
            Self::Qwen2(model) => model.forward(&ids, held)?,
            Self::Dense(model) => model.forward(&ids, held)?,
        };
        Ok(())
    }
}

/// Seconds per token; the best of three tries, or of those that fit into twenty seconds.
fn seconds(mut each: impl FnMut() -> Result<usize>) -> Result<f64> {
    let (begun, mut best) = (Instant::now(), f64::INFINITY);
    for _ in 0..3 {
        let start = Instant::now();
        let tokens = each()?;
        best = best.min(start.elapsed().as_secs_f64() / tokens as f64);
        if begun.elapsed().as_secs() >= 20 {
            break;
        }
    }
    Ok(best)
}

fn main() -> Result<()> {
    println!("| candle | prompt of 512, tokens/s | writing at 128 | at 2,048 |\n|---|--:|--:|--:|");
    for path in std::env::args().skip(1) {
        let mut model = Model::load(&path)?;
        let mut figures = vec![seconds(|| model.read(512, 0).map(|()| 512))?];
        for depth in [128, 2048] {
            model.read(depth, 0)?;
            // The cache cannot be truncated, so each try is a little deeper.
            let mut held = depth;
            figures.push(seconds(|| {
                let start = Instant::now();
                for tokens in 1..=32 {
                    model.read(1, held)?;
                    held += 1;
                    if start.elapsed().as_secs() >= 10 {
                        return Ok(tokens);
                    }
                }
                Ok(32)
            })?);
        }
        let name = path.rsplit('/').next().unwrap_or(&path);
        let figures: Vec<String> = figures.iter().map(|seconds| format!("{:.1}", 1.0 / seconds)).collect();
        println!("| {name} | {} |", figures.join(" | "));
    }
    Ok(())
}
