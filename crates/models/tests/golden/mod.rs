//! Golden values in safetensors files, and rows to compare with them.
#![allow(dead_code, reason = "each suite uses a part of this")]

use std::collections::HashMap;
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use verdigris_models::{Batch, Rows, Sequence};

/// A tensor as it is stored in its file.
pub(crate) struct Golden {
    kind: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// All tensors of a file, by name.
pub(crate) fn load(path: impl AsRef<Path>) -> HashMap<String, Golden> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let own = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let (kind, shape, bytes) = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
        (name.to_owned(), Golden { kind, shape, bytes })
    };
    SafeTensors::deserialize(&bytes).unwrap().iter().map(own).collect()
}

/// The rows of a batch.
pub(crate) fn rows(sequence: &mut dyn Sequence, batch: Batch<'_>) -> Vec<Vec<f32>> {
    let mut rows = Rows::default();
    sequence.forward(&batch, &mut rows).unwrap();
    (0..rows.count()).map(|i| rows.row(i).to_vec()).collect()
}

/// The largest difference between the numbers of two lists of rows.
pub(crate) fn distance(got: &[Vec<f32>], expected: &[Vec<f32>]) -> f32 {
    assert_eq!(got.len(), expected.len());
    let pairs = got.iter().flatten().zip(expected.iter().flatten());
    pairs.map(|(a, b)| (a - b).abs()).fold(0f32, f32::max)
}

impl Golden {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        assert_eq!(self.kind, Dtype::U8);
        &self.bytes
    }

    /// Its numbers, row by row.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        assert_eq!(self.kind, Dtype::F32);
        self.bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
    }

    /// The rows of a matrix of numbers.
    pub(crate) fn rows(&self) -> Vec<Vec<f32>> {
        let [_, columns] = self.shape[..] else { panic!("a matrix, not {:?}", self.shape) };
        self.numbers().chunks(columns).map(<[f32]>::to_vec).collect()
    }

    /// Its integers, which are not negative.
    pub(crate) fn integers(&self) -> Vec<u32> {
        assert_eq!(self.kind, Dtype::I64);
        let integers = self.bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes));
        integers.map(|integer| integer.try_into().unwrap()).collect()
    }
}
