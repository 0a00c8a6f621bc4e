//! Safetensors files as tensors.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::safetensors::Load;
use candle_core::{DType, Device, Tensor};
use safetensors::SafeTensors;

use crate::error::ModelError;

/// Named weights, in f32.
#[derive(Clone, Debug)]
pub struct Weights {
    tensors: HashMap<String, Tensor>,
}

impl Weights {
    /// Weights that are there already, such as those of a trainer.
    pub fn from_tensors(tensors: HashMap<String, Tensor>) -> Self {
        Self { tensors }
    }

    /// Reads one or more safetensors files that together hold a model. Each is dropped before the next is read.
    pub fn read<'a>(
        files: impl IntoIterator<Item = Result<(PathBuf, Cow<'a, [u8]>), ModelError>>,
    ) -> Result<Self, ModelError> {
        let mut tensors = HashMap::new();
        for file in files {
            let (path, bytes) = file?;
            let damaged = |fault: safetensors::SafeTensorError| ModelError::Damaged {
                path: path.clone(),
                fault: fault.to_string(),
            };
            let parsed = SafeTensors::deserialize(&bytes).map_err(damaged)?;
            for (name, view) in parsed.iter() {
                tensors.insert(name.to_owned(), view.load(&Device::Cpu)?.to_dtype(DType::F32)?);
            }
        }
        Ok(Self { tensors })
    }

    /// The same weights in another type.
    pub fn to_dtype(&self, kind: DType) -> Result<Self, ModelError> {
        let convert = |(name, tensor): (&String, &Tensor)| Ok((name.clone(), tensor.to_dtype(kind)?));
        Ok(Self { tensors: self.tensors.iter().map(convert).collect::<Result<_, ModelError>>()? })
    }

    /// The weight of a name, checked for its shape.
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
