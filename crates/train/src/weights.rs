//! Safetensors files as tensors.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use candle_core::safetensors::Load;
use candle_core::{DType, Device, Tensor};
use safetensors::SafeTensors;
use sha2::{Digest, Sha256};
use verdigris_logits::TokenId;
use verdigris_models::whole_file::write_whole;
use verdigris_models::{ModelError, ModelFolder};

use crate::error::TrainError;

/// Named weights, in f32.
#[derive(Clone, Debug)]
pub struct Weights {
    tensors: HashMap<String, Tensor>,
}

impl Weights {
    /// Wraps existing weights, such as those of a trainer.
    pub fn from_tensors(tensors: HashMap<String, Tensor>) -> Self {
        Self { tensors }
    }

    /// Reads the weights of a model folder.
    ///
    /// # Errors
    /// [`TrainError::Architecture`] for a GGUF file, and [`TrainError::Model`] if a file is missing or damaged.
    pub fn of(folder: &ModelFolder) -> Result<Self, TrainError> {
        let files = folder.safetensors()?;
        if files.is_empty() {
            return Err(TrainError::Architecture);
        }
        let mut tensors = HashMap::new();
        for (path, bytes) in files {
            let damaged = |fault: safetensors::SafeTensorError| ModelError::Damaged {
                path: path.clone(),
                fault: fault.to_string(),
            };
            let parsed = SafeTensors::deserialize(bytes.as_ref()).map_err(damaged)?;
            for (name, view) in parsed.iter() {
                tensors.insert(name.to_owned(), view.load(&Device::Cpu)?.to_dtype(DType::F32)?);
            }
        }
        Ok(Self { tensors })
    }

    /// The weight of this name, checked for its shape.
    ///
    /// # Errors
    /// [`ModelError::Weight`] if it is missing or has another shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<Tensor, ModelError> {
        let weight = |fault| ModelError::Weight { name: name.to_owned(), fault };
        let tensor = self.tensors.get(name).ok_or_else(|| weight("is missing".to_owned()))?;
        if tensor.dims() != shape {
            return Err(weight(format!("has shape {:?}, not {shape:?}", tensor.dims())));
        }
        Ok(tensor.clone())
    }

    /// All names and tensors.
    pub fn tensors(&self) -> &HashMap<String, Tensor> {
        &self.tensors
    }
}

/// The first digits of the SHA-256 of some tensors.
pub(crate) fn digest_of_tensors<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<String, TrainError> {
    let mut hash = Sha256::new();
    for tensor in tensors {
        let numbers = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
    }
    Ok(first_digits(hash))
}

/// The first digits of the SHA-256 of some tokens.
pub(crate) fn digest_of_tokens<'a>(tokens: impl IntoIterator<Item = &'a [TokenId]>) -> String {
    let mut hash = Sha256::new();
    tokens.into_iter().flatten().for_each(|token| hash.update(token.to_le_bytes()));
    first_digits(hash)
}

fn first_digits(hash: Sha256) -> String {
    hash.finalize()[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes tensors as a safetensors file, completely or not at all.
pub(crate) fn save(
    path: &Path,
    tensors: &HashMap<String, Tensor>,
    metadata: Option<HashMap<String, String>>,
) -> Result<(), TrainError> {
    let written = write_whole(path, true, |file| {
        // The library's own function creates a file that only its owner can read.
        let bytes = safetensors::serialize(tensors, metadata).map_err(std::io::Error::other)?;
        file.write_all(&bytes)
    });
    written.map_err(TrainError::file("write", path))
}
