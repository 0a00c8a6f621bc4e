//! A weight that is spread over several files.

mod convert;

use std::borrow::Cow;

use safetensors::Dtype;

use crate::error::CheckpointError;
use crate::torch_file::tensor::{self, Tensor};

/// The number of bytes of a weight that are passed on at a time: a multiple of the size of any type.
const BLOCK: usize = 4 << 20;

/// A named weight, whose numbers are read on demand.
#[derive(Clone, Debug)]
pub struct Weight {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    layout: Layout,
}

/// How a weight is assembled from the tensors in files.
#[derive(Clone, Debug)]
enum Layout {
    /// Parts one after the other.
    Consecutive(Vec<Tensor>),
    /// Each part at its own offsets; together they fill the weight.
    Pasted(Vec<Chunk>),
}

/// A rectangular part of a weight.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// The index of its first element on each axis.
    pub(crate) offsets: Vec<usize>,
    pub(crate) tensor: Tensor,
}

impl Weight {
    /// A weight from consecutive parts; `None` if their number of elements differs from that of the shape, or their
    /// types differ.
    pub(crate) fn consecutive(name: &str, shape: &[usize], parts: Vec<Tensor>) -> Option<Self> {
        let dtype = parts.first()?.dtype();
        let holds = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.numel()))?;
        let is_whole = numel(shape)? == holds && parts.iter().all(|part| part.dtype() == dtype);
        let layout = Layout::Consecutive(parts);
        is_whole.then(|| Self { name: name.to_owned(), dtype, shape: shape.to_vec(), layout })
    }

    /// A weight from chunks, which must fill it.
    pub(crate) fn pasted(name: &str, shape: &[usize], dtype: Dtype, mut chunks: Vec<Chunk>) -> Self {
        let rest = |chunk: &Chunk| chunk.tensor.shape().get(1..) == shape.get(1..);
        let layout = if chunks.iter().all(rest) {
            // Whole rows: nothing must be assembled in memory.
            chunks.sort_by_key(|chunk| chunk.offsets.first().copied());
            Layout::Consecutive(chunks.into_iter().map(|chunk| chunk.tensor).collect())
        } else {
            Layout::Pasted(chunks)
        };
        Self { name: name.to_owned(), dtype, shape: shape.to_vec(), layout }
    }

    /// The same weight under another name.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The name in the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the numbers in the checkpoint.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The size of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// The type to write it in: `asked`, if given, for floating-point weights.
    pub(crate) fn written_as(&self, asked: Option<Dtype>) -> Dtype {
        match asked {
            Some(asked) if convert::floats(self.dtype) => asked,
            _ => self.dtype,
        }
    }

    /// The size in bytes when written in some type.
    pub(crate) fn bytes_as(&self, dtype: Dtype) -> usize {
        self.numel() * tensor::bytes(dtype)
    }

    /// Passes the numbers to `each`, row by row, converted to `dtype`: the type of the weight, or one that
    /// [`Weight::written_as`] returns.
    ///
    /// # Errors
    /// The errors of `each`; if a number is too large for the type; and if there is not enough memory to assemble the
    /// weight.
    pub(crate) fn read_as(
        &self,
        dtype: Dtype,
        each: &mut dyn FnMut(&[u8]) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let mut converted = Vec::new();
        let mut hand_over = |bytes: &[u8]| {
            bytes.chunks(BLOCK).try_for_each(|block| match self.dtype == dtype {
                true => each(block),
                false => {
                    convert::convert(self.dtype, dtype, block, &mut converted)
                        .map_err(|value| self.overflow(dtype, value))?;
                    each(&converted)
                }
            })
        };
        match &self.layout {
            Layout::Consecutive(parts) => parts.iter().try_for_each(|part| hand_over(&part.bytes())),
            Layout::Pasted(chunks) => hand_over(&self.paste(chunks)?),
        }
    }

    fn overflow(&self, dtype: Dtype, value: f64) -> CheckpointError {
        let dtype = match dtype {
            Dtype::F16 => "f16",
            Dtype::BF16 => "bf16",
            _ => "f32",
        };
        CheckpointError::Overflow { name: self.name.clone(), value, dtype }
    }

    fn paste(&self, chunks: &[Chunk]) -> Result<Vec<u8>, CheckpointError> {
        let mut out = Vec::new();
        let length = self.bytes_as(self.dtype);
        out.try_reserve_exact(length)
            .map_err(|_| CheckpointError::Memory { name: self.name.clone(), bytes: length })?;
        out.resize(length, 0);
        let width = tensor::bytes(self.dtype);
        for Chunk { offsets, tensor } in chunks {
            let from: Cow<'_, [u8]> = tensor.bytes();
            // Runs along the last axis are contiguous in both.
            let (Some((&run, outer)), Some((&at, above))) = (tensor.shape().split_last(), offsets.split_last()) else {
                unreachable!("a weight without axes is not a chunk of one with axes")
            };
            for (i, run_bytes) in from.chunks_exact((run * width).max(1)).enumerate() {
                let (mut row, mut stride, mut rest) = (0, 1, i);
                for ((size, offset), whole) in outer.iter().zip(above).zip(&self.shape).rev() {
                    row += (offset + rest % size) * stride;
                    rest /= size;
                    stride *= whole;
                }
                let start = (row * self.shape[self.shape.len() - 1] + at) * width;
                out[start..start + run_bytes.len()].copy_from_slice(run_bytes);
            }
        }
        Ok(out)
    }
}

/// The number of elements of a shape; `None` if no memory could hold them.
pub(crate) fn numel(shape: &[usize]) -> Option<usize> {
    let numel = shape.iter().try_fold(1usize, |numel, &size| numel.checked_mul(size))?;
    // With the size of the widest type.
    (numel <= isize::MAX as usize / 8).then_some(numel)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts a weight of the numbers 0, 1, 2, ... into chunks, and assembles it again.
    fn cut_and_pasted(shape: &[usize], cuts: &[(Vec<usize>, Vec<usize>)]) -> (Weight, Vec<u8>) {
        let chunk = |(offsets, sizes): &(Vec<usize>, Vec<usize>)| {
            let number = |mut i: usize| {
                let mut at = 0;
                let mut stride = 1;
                for axis in (0..shape.len()).rev() {
                    at += (offsets[axis] + i % sizes[axis]) * stride;
                    i /= sizes[axis];
                    stride *= shape[axis];
                }
                at as u8
            };
            let numbers = (0..sizes.iter().product()).map(number).collect();
            Chunk { offsets: offsets.clone(), tensor: Tensor::of(Dtype::U8, sizes, numbers) }
        };
        let weight = Weight::pasted("a", shape, Dtype::U8, cuts.iter().map(chunk).collect());
        let mut out = Vec::new();
        weight
            .read_as(Dtype::U8, &mut |bytes| {
                out.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        (weight, out)
    }

    #[test]
    fn chunks_in_any_order() {
        let expected = |numel: u8| (0..numel).collect::<Vec<u8>>();
        let rows = [(vec![3, 0], vec![2, 3]), (vec![0, 0], vec![2, 3]), (vec![2, 0], vec![1, 3])];
        let (weight, out) = cut_and_pasted(&[5, 3], &rows);
        assert!(matches!(weight.layout, Layout::Consecutive(_)) && out == expected(15), "{out:?}");
        let blocks = [
            (vec![0, 0, 2], vec![2, 3, 2]),
            (vec![1, 1, 0], vec![1, 2, 2]),
            (vec![0, 0, 0], vec![1, 3, 2]),
            (vec![1, 0, 0], vec![1, 1, 2]),
        ];
        let (weight, out) = cut_and_pasted(&[2, 3, 4], &blocks);
        assert!(matches!(weight.layout, Layout::Pasted(_)) && out == expected(24), "{out:?}");
        let (_, out) = cut_and_pasted(&[], &[(vec![], vec![])]);
        assert_eq!(out, [0], "a single number");
    }
}
