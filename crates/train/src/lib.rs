//! Training language models on candle: enough to tune a small expert on a CPU.
//!
//! | module | holds |
//! |---|---|
//! | [`trainer`] | the loop, and everything that is asked of it |
//! | [`corpus`] | text files as training data |
//! | [`decoder`] | a decoder out of candle's operations, with gradients |
//! | [`weights`] | safetensors files as tensors |
//! | [`model`] | a decoder whose weights are variables |
//! | [`adamw`] | the optimizer, with gradient clipping |
//! | [`schedule`] | warm-up and cosine decay |
//! | [`checkpoint`] | going on after a kill |
#![forbid(unsafe_code)]

pub mod adamw;
pub mod checkpoint;
pub mod corpus;
pub mod decoder;
mod error;
pub mod model;
pub mod schedule;
pub mod trainer;
pub mod weights;

pub use corpus::Corpus;
pub use decoder::Decoder;
pub use error::TrainError;
pub use model::TrainedModel;
pub use trainer::{Options, Progress, Summary, train};
pub use weights::Weights;
