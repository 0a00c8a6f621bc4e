//! The inner loops of decoders and detectors, on CPUs. The only crate of the workspace with `unsafe`.
//!
//! Every kernel computes each row of its result with the same bits whatever the other rows of the batch, the number of
//! threads and the CPU: a sum runs over 16 lanes in a fixed order, with fused multiply-add, and the lanes are added in
//! a fixed order at the end; or, for weights in blocks, from block to block. So a model that verifies five drafted
//! tokens at once computes exactly what it computes one token at a time. One kind of product differs between CPUs in
//! its last bits: that with weights in bf16, which AMX adds in its own order.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@linear`] | `x * w^T` for few rows, with weights in their stored format |
//! | [`attention`] | attention over a cache of keys and values |
//! | [`elements`] | norms, activations, rotary position embeddings |
//! | `cuda` | the same for NVIDIA GPUs, and token sampling (feature `cuda`) |
//! | [`permutation`] | membership in torch's random permutations, which watermarks of other systems use |
//! | [`philox`] | random words from counters, which others of them use |
//! | `mapped`, `bytes`, `zeroed` | memory-mapped files; slices of them; fallible allocation |
//! | `format`, `decode`, `encode` | storage formats of weights, including GGML's; decoding and encoding them |
//! | `weights`, `out` | a matrix in its stored format; a result that several threads write |
//! | `block_dot` | integer products with block-quantised weights |
//! | `amx`, `bf16_dot` | AMX tiles; products with bf16 weights in them |
//! | `simd`, `bytewise`, `dispatch` | sixteen lanes, also of four bytes, on every CPU; dispatch to the widest unit |
//! | [`recurrence`] | layers with a state of fixed size: gated delta rule, Mamba-2 |
//! | `pool` | the threads that share a kernel's work |
//! | [`machine`] | the SIMD units in use, and memory bandwidth |
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
pub mod recurrence;
mod simd;
mod weights;
mod zeroed;

pub use attention::{AttentionMask, Cached, Heads, attend};
pub use bytes::Bytes;
pub use elements::{Activation, Pairs, activate, add, layer_norm, rms_norm, rotate};
pub use format::Format;
#[doc(hidden)]
pub use linear::allow_tiles;
pub use linear::{Product, linear, linear_all};
pub use mapped::Mapped;
pub use pool::{each, threads};
pub use recurrence::{Readout, Recurrence, RecurrentHeads, Step, recur};
pub use weights::Weights;
pub use zeroed::zeroed;
