//! Named weights in files, as they are stored.

use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use verdigris_kernels::Format;

use crate::description::matrix::{Bytes, Matrix};
use crate::error::ModelError;

/// A model's weights by their names.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    tensors: HashMap<String, Stored>,
}

/// A tensor as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// What it is; where that is none of ours, its name.
    pub(crate) format: Result<Format, String>,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Bytes,
}

impl Stored {
    /// The rows of a matrix.
    pub(crate) fn rows(&self) -> Option<usize> {
        self.shape.first().copied().filter(|_| self.shape.len() == 2)
    }
}

impl Checkpoint {
    pub(crate) fn of(tensors: HashMap<String, Stored>) -> Self {
        Self { tensors }
    }

    /// Adds a safetensors file in memory.
    pub(crate) fn add_safetensors(&mut self, path: &Path, bytes: Bytes) -> Result<(), ModelError> {
        let damaged = |fault: String| ModelError::Damaged { path: path.into(), fault };
        let all = bytes.get();
        let parsed = SafeTensors::deserialize(all).map_err(|fault| damaged(fault.to_string()))?;
        for (name, view) in parsed.iter() {
            let from = view.data().as_ptr().addr() - all.as_ptr().addr();
            let part =
                bytes.part(from..from + view.data().len()).ok_or_else(|| damaged("a tensor lies outside".into()))?;
            let format = match view.dtype() {
                Dtype::F32 => Ok(Format::F32),
                Dtype::F16 => Ok(Format::F16),
                Dtype::BF16 => Ok(Format::Bf16),
                other => Err(format!("{other:?}")),
            };
            self.tensors.insert(name.to_owned(), Stored { format, shape: view.shape().to_vec(), bytes: part });
        }
        Ok(())
    }

    /// Whether there is a weight of a name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The matrix (`out x in`) of a name.
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Matrix, ModelError> {
        let (format, bytes) = self.stored(name, &shape)?;
        Matrix::new(format, bytes, shape[1]).ok_or_else(|| {
            let fault = format!("rows of {} weights are not whole blocks of {format:?}", shape[1]);
            ModelError::Weight { name: name.into(), fault }
        })
    }

    /// The numbers of a name.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ModelError> {
        let (format, bytes) = self.stored(name, &[length])?;
        let matrix = Matrix::new(format, bytes, length);
        matrix.map(|matrix| matrix.numbers()).ok_or_else(|| ModelError::Weight {
            name: name.into(),
            fault: format!("{length} numbers are not whole blocks of {format:?}"),
        })
    }

    fn stored(&self, name: &str, shape: &[usize]) -> Result<(Format, Bytes), ModelError> {
        let weight = |fault: String| ModelError::Weight { name: name.to_owned(), fault };
        let stored = self.tensors.get(name).ok_or_else(|| weight("is missing".into()))?;
        if stored.shape != shape {
            return Err(weight(format!("has shape {:?}, not {shape:?}", stored.shape)));
        }
        let format = stored
            .format
            .clone()
            .map_err(|kind| weight(format!("is stored as {kind}, which is not supported; F32, F16 and BF16 are")))?;
        if stored.bytes.get().len() != format.bytes(shape.iter().product()) {
            return Err(weight(format!("has {} bytes, which are not those of its shape", stored.bytes.get().len())));
        }
        Ok((format, stored.bytes.clone()))
    }
}
