//! The inner loops, on a CPU: those of a decoder, and some of a detector. The only crate of the workspace with
//! `unsafe`.
//!
//! Every kernel gives each row of its result the same bits whatever the number of rows computed beside it and
//! whatever the number of threads, and the same bits on every CPU: a sum runs over 16 lanes in a fixed order,
//! with fused multiply-add, and the lanes are added in a fixed order at the end; or, where weights are in blocks, from
//! block to block. So a model that verifies five drafted tokens at once computes exactly what it computes one token at
//! a time. One kind of product differs between CPUs in its last bits: that of weights in bf16, which AMX adds in an
//! order of its own.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@linear`] | `x * w^T` for few rows, of weights as they are stored |
//! | [`attention`] | attention over a cache of keys and values |
//! | [`elements`] | norms, activations, rotary positions |
//! | `cuda` | the same for NVIDIA GPUs, and the draw of a token (feature `cuda`) |
//! | [`permutation`] | memberships in torch's random permutations, which watermarks of other systems rest on |
//! | [`philox`] | random words out of counters, which others of them rest on |
//! | `mapped`, `bytes`, `zeroed` | files as memory; parts of them; memory that may not be there |
//! | `format`, `decode`, `encode` | formats of weights, GGML's among them; the way out of them, and into them |
//! | `weights`, `out` | a matrix as it is stored; a result that several threads write |
//! | `block_dot` | products with block-quantised weights, as integers |
//! | `amx`, `bf16_dot` | tiles, which some CPUs multiply; products with weights in bf16 in them |
//! | `simd`, `bytewise`, `dispatch` | sixteen lanes, of four bytes too, on every CPU; one body of code for all |
//! | `pool` | the threads that share a kernel's work |
//! | [`machine`] | which of the processor's units are used, and how fast its memory is |
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

#[cfg(amx)]
mod amx;
pub mod attention;
#[cfg(amx)]
mod bf16_dot;
mod block_dot;
mod bytes;
mod bytewise;
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub mod cuda;
mod decode;
mod dispatch;
pub mod elements;
mod encode;
mod format;
mod half;
pub mod linear;
pub mod machine;
mod mapped;
mod out;
pub mod permutation;
pub mod philox;
mod pool;
mod simd;
mod weights;
mod zeroed;

pub use attention::{AttentionMask, Cached, Heads, attend};
pub use bytes::Bytes;
pub use elements::{Activation, Pairs, activate, layer_norm, rms_norm, rotate};
pub use format::Format;
#[doc(hidden)]
pub use linear::allow_tiles;
pub use linear::{linear, linear_each};
pub use mapped::Mapped;
pub use pool::{each, threads};
pub use weights::Weights;
pub use zeroed::zeroed;
