//! StarCoder 2 out of candle-transformers, an architecture that the decoder of this project does not cover, behind its
//! contract.

use std::error::Error;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::starcoder2::{Config, Model};
use verdigris::models::{BoxError, Foreign, Forward, LanguageModel};

/// One text that the model reads. candle's weights are shared: a clone has a cache of its own.
struct StarCoder2(Model);

impl Forward for StarCoder2 {
    fn forward(&mut self, tokens: &[u32], held: usize) -> Result<Vec<f32>, BoxError> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        Ok(self.0.forward(&tokens, held)?.flatten_all()?.to_dtype(DType::F32)?.to_vec1()?)
    }

    fn clear(&mut self) -> Result<(), BoxError> {
        self.0.clear_kv_cache();
        Ok(())
    }
}

/// The model of a folder with `config.json` and `model.safetensors`.
pub fn load(folder: &Path) -> Result<impl LanguageModel + use<>, Box<dyn Error>> {
    let json = std::fs::read(folder.join("config.json"))?;
    let fields: serde_json::Value = serde_json::from_slice(&json)?;
    let number = |name: &str| fields[name].as_u64().ok_or_else(|| format!("config.json has no {name}"));
    let (size, context) = (number("vocab_size")? as usize, number("max_position_embeddings")? as usize);
    let config: Config = serde_json::from_value(fields)?;
    let weights = std::fs::read(folder.join("model.safetensors"))?;
    let weights = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)?;
    let model = Model::new(&config, weights)?;
    Ok(Foreign::new(size, context, move || Ok(StarCoder2(model.clone()))))
}
