//! The keys and values of one layer, for one sequence.

use candle_core::{DType, Device, Result, Tensor};

/// Room for `capacity` tokens, allocated once; the keys of a token are stored together as `kv_heads x head_dim`.
///
/// Data past the length in use is stale and never read, so truncating only sets a number.
#[derive(Debug)]
pub(crate) struct KvCache {
    keys: Tensor,
    values: Tensor,
}

impl KvCache {
    pub(crate) fn new(capacity: usize, kv_heads: usize, head_dim: usize, kind: DType) -> Result<Self> {
        let room = || Tensor::zeros((capacity, kv_heads, head_dim), kind, &Device::Cpu);
        Ok(Self { keys: room()?, values: room()? })
    }

    /// Writes the keys and values (`m x kv_heads x head_dim`) of the tokens from `at` on. Returns views of all `at + m`
    /// tokens.
    pub(crate) fn append(&mut self, at: usize, keys: &Tensor, values: &Tensor) -> Result<(Tensor, Tensor)> {
        self.keys.slice_set(keys, 0, at)?;
        self.values.slice_set(values, 0, at)?;
        let length = at + keys.dim(0)?;
        Ok((self.keys.narrow(0, 0, length)?, self.values.narrow(0, 0, length)?))
    }

    /// Moves the tokens at the indices of `path`, counted from `from`, to consecutive indices from `from` on.
    pub(crate) fn keep(&mut self, from: usize, path: &[usize]) -> Result<()> {
        let positions: Vec<u32> = path.iter().map(|index| (from + index) as u32).collect();
        let positions = Tensor::new(positions, self.keys.device())?;
        for cache in [&self.keys, &self.values] {
            cache.slice_set(&cache.index_select(&positions, 0)?, 0, from)?;
        }
        Ok(())
    }

    pub(crate) fn fork(&self) -> Result<Self> {
        Ok(Self { keys: self.keys.copy()?, values: self.values.copy()? })
    }
}
