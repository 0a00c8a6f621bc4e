//! Safetensors files in the way that candle's models read them: memory-mapped, with each weight read on request.

use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::var_builder::SimpleBackend;
use safetensors::SafeTensors;
use safetensors::tensor::TensorInfo;
use verdigris_models::{Bytes, ModelError};

/// Weights in several files, with unique names.
pub(crate) struct WeightFiles {
    files: Vec<Bytes>,
    /// The file, the offset of its data, and the description of the weight.
    weights: HashMap<String, (usize, usize, TensorInfo)>,
    /// The embedding, if it serves as the output matrix.
    output_is: Option<&'static str>,
}

/// The name of the output matrix in all of candle's models.
const OUTPUT: &str = "lm_head.weight";

impl WeightFiles {
    /// # Errors
    /// [`ModelError::Damaged`] for a file that is not in this format.
    pub(crate) fn new(
        files: Vec<(PathBuf, Bytes)>,
        output_is: Option<&'static str>,
    ) -> std::result::Result<Self, ModelError> {
        let mut weights = HashMap::new();
        for (i, (path, bytes)) in files.iter().enumerate() {
            let damaged = |fault: safetensors::SafeTensorError| ModelError::Damaged {
                path: path.clone(),
                fault: fault.to_string(),
            };
            // This checks everything, including ranges and lengths.
            SafeTensors::deserialize(bytes.as_ref()).map_err(damaged)?;
            let (header, metadata) = SafeTensors::read_metadata(bytes.as_ref()).map_err(damaged)?;
            for (name, info) in metadata.tensors() {
                weights.insert(name, (i, header + 8, info.clone()));
            }
        }
        let files = files.into_iter().map(|(_, bytes)| bytes).collect();
        Ok(Self { files, weights, output_is })
    }

    /// The type of most of the weights, or f32.
    pub(crate) fn kind(&self) -> DType {
        let mut counts = HashMap::<DType, usize>::new();
        for (.., info) in self.weights.values() {
            if let Ok(kind) = DType::try_from(info.dtype) {
                *counts.entry(kind).or_default() += info.shape.iter().product::<usize>();
            }
        }
        counts.into_iter().max_by_key(|&(_, count)| count).map_or(DType::F32, |(kind, _)| kind)
    }

    fn find(&self, name: &str) -> Option<&(usize, usize, TensorInfo)> {
        let alias = || self.output_is.filter(|_| name == OUTPUT);
        self.weights.get(name).or_else(|| self.weights.get(alias()?))
    }
}

impl SimpleBackend for WeightFiles {
    fn get(&self, shape: Shape, name: &str, _: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, device)?;
        if tensor.shape() != &shape {
            candle_core::bail!("{name} has shape {:?}, not {shape:?}", tensor.shape());
        }
        Ok(tensor)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> Result<Tensor> {
        let Some((file, data, info)) = self.find(name) else {
            candle_core::bail!("there is no weight {name}");
        };
        let (from, to) = info.data_offsets;
        let bytes = &self.files[*file].as_ref()[data + from..data + to];
        Tensor::from_raw_buffer(bytes, info.dtype.try_into()?, &info.shape, device)?.to_dtype(dtype)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
}
