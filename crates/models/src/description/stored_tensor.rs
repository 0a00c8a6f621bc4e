//! A tensor of a file as it is stored.

use std::path::Path;
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use verdigris_kernels::{Bytes, Format};
use verdigris_text::shown;

use super::matrix::Matrix;
use crate::error::ModelError;

/// A tensor as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct StoredTensor {
    /// The format, or the name of one that is not supported.
    pub(crate) format: Result<Format, String>,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Bytes,
}

impl StoredTensor {
    /// The number of rows, if this is a matrix.
    pub(crate) fn rows(&self) -> Option<usize> {
        self.shape.first().copied().filter(|_| self.shape.len() == 2)
    }

    /// Its shape, as messages show it.
    pub(crate) fn shape(&self) -> String {
        shown(&format!("{:?}", self.shape)).into_owned()
    }

    /// Its format and its bytes, if their number fits its shape; otherwise the problem.
    pub(crate) fn checked(&self) -> Result<(Format, Bytes), String> {
        let format = self
            .format
            .clone()
            .map_err(|kind| format!("is stored as {kind}, which is not supported; F32, F16 and BF16 are"))?;
        let weights = self.shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        if weights.map(|weights| format.bytes(weights)) != Some(self.bytes.get().len()) {
            return Err(format!("has {} bytes, which are not those of its shape", self.bytes.get().len()));
        }
        Ok((format, self.bytes.clone()))
    }

    /// The tensor as a matrix of any shape.
    pub(crate) fn as_matrix(&self) -> Result<Matrix, String> {
        let &[_, columns] = &self.shape[..] else { return Err(format!("has shape {}, no matrix's", self.shape())) };
        let (format, bytes) = self.checked()?;
        Matrix::new(format, bytes, columns)
            .filter(|matrix| matrix.rows() > 0)
            .ok_or_else(|| format!("has shape {}, which leaves nothing of it, or no whole blocks", self.shape()))
    }

    /// The rows of all matrices of the tensor, as one matrix.
    pub(crate) fn as_rows(&self) -> Result<Matrix, String> {
        let whole = |shape: &[usize]| shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        let nothing = || format!("has shape {}, which leaves nothing of it", self.shape());
        let (columns, others) = self.shape.split_last().ok_or_else(nothing)?;
        let rows = whole(others).ok_or_else(nothing)?;
        Self { shape: vec![rows, *columns], ..self.clone() }.as_matrix()
    }

    /// The tensor as a list of unsigned integers, stored in 32 or 64 bits.
    pub(crate) fn as_integers(&self) -> Result<Vec<u32>, String> {
        let all = self.bytes.get();
        let fits =
            |number: i64| u32::try_from(number).map_err(|_| format!("has {number}, which is not the id of a token"));
        match (&self.format, &self.shape[..]) {
            (Err(kind), &[length]) if kind == "I32" && all.len() == 4 * length => {
                all.as_chunks().0.iter().map(|&bytes| fits(i32::from_le_bytes(bytes).into())).collect()
            }
            (Err(kind), &[length]) if kind == "I64" && all.len() == 8 * length => {
                all.as_chunks().0.iter().map(|&bytes| fits(i64::from_le_bytes(bytes))).collect()
            }
            _ => Err("is not a list of whole numbers (I32, I64)".into()),
        }
    }

    /// The tensor as a vector of any length.
    pub(crate) fn as_vector(&self) -> Result<Vec<f32>, String> {
        let &[length] = &self.shape[..] else { return Err(format!("has shape {}, no vector's", self.shape())) };
        let (format, bytes) = self.checked()?;
        Matrix::new(format, bytes, length)
            .map(|matrix| matrix.numbers())
            .ok_or_else(|| format!("has {length} numbers, which are not whole blocks of {format:?}"))
    }

    /// The tensor with its rows, or its numbers, in another order; `None` if `order` has another length.
    pub(crate) fn gather(&self, order: &[usize]) -> Option<Self> {
        let all = self.bytes.get();
        let row = all.len() / order.len().max(1);
        if self.shape.first() != Some(&order.len()) || row * order.len() != all.len() {
            return None;
        }
        let bytes: Vec<u8> = order.iter().flat_map(|&i| &all[i * row..(i + 1) * row]).copied().collect();
        Some(Self { bytes: Bytes::new(Arc::new(bytes)), ..self.clone() })
    }
}

/// The tensors of a safetensors file in memory, by their names.
pub(crate) fn parse_safetensors(path: &Path, bytes: &Bytes) -> Result<Vec<(String, StoredTensor)>, ModelError> {
    let damaged = |fault: String| ModelError::Damaged { path: path.into(), fault };
    let all = bytes.get();
    let parsed = SafeTensors::deserialize(all).map_err(|fault| damaged(shown(&fault.to_string()).into_owned()))?;
    let mut tensors = Vec::new();
    for (name, view) in parsed.iter() {
        let from = view.data().as_ptr().addr() - all.as_ptr().addr();
        let part = bytes.part(from..from + view.data().len()).ok_or_else(|| damaged("a tensor lies outside".into()))?;
        let format = match view.dtype() {
            Dtype::F32 => Ok(Format::F32),
            Dtype::F16 => Ok(Format::F16),
            Dtype::BF16 => Ok(Format::Bf16),
            other => Err(format!("{other:?}")),
        };
        tensors.push((name.to_owned(), StoredTensor { format, shape: view.shape().to_vec(), bytes: part }));
    }
    Ok(tensors)
}
