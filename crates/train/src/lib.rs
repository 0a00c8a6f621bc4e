//! Training on candle, on a CPU: small language models, and networks that draft for larger ones.
//!
//! | module | holds |
//! |---|---|
//! | [`lm`] | language models from text files |
//! | [`draft`] | networks that guess a model's next tokens, trained on texts that it writes itself |
//! | [`trainer`] | the training loop of both |
//! | [`corpus`] | text files as training data |
//! | [`decoder`] | a decoder built from candle's operations, with gradients |
//! | [`weights`] | safetensors files as tensors |
//! | [`model`] | a decoder whose weights are variables |
//! | [`adamw`] | the optimizer, with gradient clipping |
//! | [`schedule`] | warm-up and cosine decay |
//! | [`checkpoint`] | resuming after a kill |
#![forbid(unsafe_code)]

pub mod adamw;
pub mod checkpoint;
pub mod corpus;
pub mod decoder;
pub mod draft;
mod error;
pub mod lm;
pub mod model;
pub mod schedule;
pub mod trainer;
pub mod weights;

pub use corpus::Corpus;
pub use decoder::Decoder;
pub use draft::train_draft;
pub use error::TrainError;
pub use lm::{Options, Summary, train};
pub use model::TrainedModel;
pub use trainer::{Progress, Steps};
pub use weights::Weights;
