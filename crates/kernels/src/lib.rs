//! The inner loops, on a CPU: those of a decoder, and some of a detector. The only crate of the workspace with `unsafe`.
//!
//! Every kernel gives each row of its result the same bits whatever the number of rows computed beside it and
//! whatever the number of threads, and the same bits on every CPU: a sum runs over 16 lanes in a fixed order,
//! with fused multiply-add, and the lanes are added in a fixed order at the end. So a model that verifies five
//! drafted tokens at once computes exactly what it computes one token at a time.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@linear`] | `x * w^T` for few rows, of weights as they are stored |
//! | [`attention`] | attention over a cache of keys and values |
//! | [`elements`] | norms, activations, rotary positions |
//! | `cuda` | the same for NVIDIA GPUs, and the draw of a token (feature `cuda`) |
//! | [`permutation`] | memberships in torch's random permutations, which watermarks of other systems rest on |
//! | [`philox`] | random words out of counters, which others of them rest on |
//! | `mapped`, `zeroed` | files as memory; memory that may not be there |
//! | `stored`, `encode` | formats of weights, GGML's among them, and the way into them |
//! | `dotted` | products with weights in blocks, as whole numbers |
//! | `simd`, `bytewise`, `dispatch` | sixteen lanes, or 64 bytes, on every CPU; one body of code, compiled for each |
//! | `pool` | the threads that share a kernel's work |
#![deny(unsafe_op_in_unsafe_fn)]

pub mod attention;
mod bytewise;
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub mod cuda;
mod dispatch;
mod dotted;
pub mod elements;
mod encode;
pub mod linear;
mod mapped;
pub mod permutation;
pub mod philox;
mod pool;
mod simd;
mod stored;
mod zeroed;

pub use attention::{Cached, Heads, Sight, attend};
pub use elements::{Activation, Pairs, activate, layer_norm, rms_norm, rotate};
pub use linear::{Weights, linear, linear_each};
pub use mapped::Mapped;
pub use pool::threads;
pub use stored::Format;
pub use zeroed::zeroed;
