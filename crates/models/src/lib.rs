//! Language models: tokens in, rows of logits up.
//!
//! The models know nothing of watermarks or constraints. They give a row for *every* position asked, so a
//! draft of several tokens is verified in one call, and their caches can be cut back and forked.
//!
//! | module | holds |
//! |---|---|
//! | [`language_model`] | the contract between a model and everything above it |
//! | [`config`] | a decoder described as data |
//! | [`cpu`] | the one decoder that runs the description on a CPU |
//! | `gpu` | the same on NVIDIA GPUs (feature `cuda`) |
//! | [`decoder`] | Llama's out of tensor operations, for training |
//! | [`foreign`] | models of other libraries behind the same contract |
//! | `families` | how each architecture names its choices and its weights |
//! | `gguf` | files of llama.cpp: description, tokenizer and weights in one |
//! | `chat` | where a model's chat template lies |
//! | `checkpoint`, `matrix` | weights in files, as they are stored |
//! | `files` | files of strangers, opened and read with care |
//! | [`mod@device`] | where a model computes |
//! | [`differentiable`] | the same decoder for training: whole sequences, gradients everywhere |
//! | [`folder`], [`hub`] | Hugging Face model folders, and where they come from |
//! | [`weights`] | safetensors files as tensors |
//! | `pieces` | tokens of several sequences, shared out to passes |
//! | `cache`, `ops`, `rotary` | keys and values; kernels as tensor operations; rotary positions |
#![forbid(unsafe_code)]

mod cache;
mod chat;
mod checkpoint;
pub mod config;
pub mod cpu;
pub mod decoder;
pub mod device;
pub mod differentiable;
mod error;
mod families;
mod files;
pub mod folder;
pub mod foreign;
mod gguf;
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub mod gpu;
pub mod hub;
pub mod language_model;
mod matrix;
mod ops;
mod pieces;
mod rotary;
pub mod weights;

pub use candle_core::DType;
pub use chat::ChatSource;
pub use config::DecoderConfig;
pub use cpu::{CacheLayout, CpuDecoder};
pub use decoder::Decoder;
pub use device::{Device, device};
pub use error::ModelError;
pub use folder::{LoadedModel, ModelFolder};
pub use foreign::{Foreign, Forward};
pub use gguf::convert::Converted;
pub use hub::HubName;
pub use language_model::{Batch, Drawn, LanguageModel, Rows, Sequence, Turn, Wanted};
pub use verdigris_kernels::Format;
pub use weights::Weights;
