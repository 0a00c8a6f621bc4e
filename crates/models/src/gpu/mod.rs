//! The decoder on an NVIDIA GPU: weights as they are stored, own kernels, steps as graphs, tokens drawn where the rows
//! are.
//!
//! It runs the same description as [`CpuDecoder`](crate::CpuDecoder), with the same weights, of every family and
//! format.

mod decoder;
mod pass;
mod resident;
mod sequence;
mod work;

pub use decoder::GpuDecoder;
