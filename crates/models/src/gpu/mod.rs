//! The decoder on an NVIDIA GPU: weights as they are stored, own kernels, passes recorded as graphs, and tokens sampled
//! on the GPU.
//!
//! It runs the same description as [`CpuDecoder`](crate::CpuDecoder), with the same weights, of every family and
//! format.

mod decoder;
mod pass;
mod resident;
mod sequence;
mod work;

pub use decoder::GpuDecoder;
