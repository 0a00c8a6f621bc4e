//! candle's devices, and the models of candle-transformers, behind the contract of [`LanguageModel`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use verdigris_candle::Candle;
//! use verdigris_models::{Device, ModelFolder};
//!
//! let device = Device::Backend(Arc::new(Candle::new("cpu")?));
//! let starcoder = ModelFolder::at("starcoder2-3b").load(&device)?;
//! # Ok::<(), verdigris_models::ModelError>(())
//! ```
//!
//! A model of candle-transformers reads one text from its beginning, and returns the row of its last token. Its cache
//! consists of tensors that are never changed, so a copy of the model keeps the text at that point: forks and
//! truncation are copies ([`Forward`](verdigris_models::Forward)). Rows of several tokens take a call each.
//!
//! | module | holds |
//! |---|---|
//! | `backend` | [`Candle`], which loads a folder or a GGUF file on one of candle's devices |
//! | `architectures` | the models, by their `model_type`: a line or a file each |
//! | `decoder` | the interface of these models, and an adapter to the contract |
//! | `draw` | sampling on the device of the row |
//! | `config` | the fields of a configuration, and checks of those that candle would ignore |
//! | `weights` | safetensors files in the way that candle's models read them |
//!
//! [`LanguageModel`]: verdigris_models::LanguageModel
#![forbid(unsafe_code)]

mod architectures;
mod backend;
mod config;
mod decoder;
mod draw;
mod weights;

#[cfg(test)]
#[path = "../../../tests/src/sampled.rs"]
mod sampled;

pub use architectures::{has, model_types};
pub use backend::Candle;

// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
