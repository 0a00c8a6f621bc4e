//! Language models: tokens in, rows of logits up.
//!
//! The models know nothing of watermarks or constraints. They give a row for *every* position asked, so a
//! draft of several tokens is verified in one call, and their caches can be cut back and forked. No tensor library is needed:
//! training has one, in `verdigris-train`.
//!
//! | module | holds |
//! |---|---|
//! | [`language_model`] | the contract between a model and everything above it |
//! | [`config`] | a decoder described as data |
//! | [`cpu`] | the one decoder that runs the description on a CPU |
//! | `gpu` | the same on NVIDIA GPUs (feature `cuda`) |
//! | [`foreign`] | models of other libraries behind the same contract |
//! | `families` | how each architecture names its choices and its weights |
//! | `gguf` | files of llama.cpp: description, tokenizer and weights in one |
//! | `chat` | where a model's chat template lies |
//! | `checkpoint`, `matrix` | weights in files, as they are stored |
//! | `files` | files of strangers, opened and read with care |
//! | [`mod@device`] | where a model computes |
//! | [`folder`], [`hub`] | Hugging Face model folders, and where they come from |
//! | `pieces` | tokens of several sequences, shared out to passes |
//! | [`held`] | how many tokens a sequence holds |
//! | [`rotary`] | rotary positions |
#![forbid(unsafe_code)]

mod chat;
mod checkpoint;
pub mod config;
pub mod cpu;
pub mod device;
mod error;
mod families;
mod files;
pub mod folder;
pub mod foreign;
mod gguf;
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub mod gpu;
pub mod held;
pub mod hub;
pub mod language_model;
mod matrix;
mod pieces;
pub mod rotary;

pub use chat::ChatSource;
pub use config::DecoderConfig;
pub use cpu::{CacheLayout, CpuDecoder};
pub use device::{Device, device};
pub use error::{BoxError, ModelError};
pub use folder::{LoadedModel, ModelFolder};
pub use foreign::{Foreign, Forward};
pub use gguf::convert::Converted;
pub use held::Held;
pub use hub::HubName;
pub use language_model::{Batch, Drawn, LanguageModel, Rows, Sequence, Turn, Wanted};
pub use matrix::Bytes;
pub use verdigris_kernels::Format;
