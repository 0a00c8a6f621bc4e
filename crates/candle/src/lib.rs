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
//! A model of candle-transformers reads one text from its beginning, and gives the row of its last token. Its cache is
//! made of tensors that are never changed, so a copy of the model is the text as it stood: forks and cutting back are
//! copies ([`Forward`](verdigris_models::Forward)). Rows of several tokens take a call for each.
//!
//! | module | what it is about |
//! |---|---|
//! | `backend` | [`Candle`], which loads a folder or a GGUF file on one of candle's devices |
//! | `architectures` | the models, by their `model_type`: a line, or a file, each |
//! | `decoder` | what such a model does, and one of them behind the contract |
//! | `draw` | a token drawn where its row is |
//! | `config` | what a configuration says, and what candle would not heed |
//! | `weights` | safetensors files as candle's models ask for them |
//!
//! [`LanguageModel`]: verdigris_models::LanguageModel
#![forbid(unsafe_code)]

mod architectures;
mod backend;
mod config;
mod decoder;
mod draw;
mod weights;

pub use architectures::{has, model_types};
pub use backend::Candle;

// So that its program stays one that compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
