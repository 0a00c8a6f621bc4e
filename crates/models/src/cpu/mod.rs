//! The decoder on a CPU: weights as they are stored, kernels on slices, and memory that is used again.

mod decoder;
mod pages;
mod pass;
mod sequence;

pub use decoder::CpuDecoder;
