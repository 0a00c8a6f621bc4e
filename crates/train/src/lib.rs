//! Training language models on candle: enough to tune a small expert on a CPU.
//!
//! | module | holds |
//! |---|---|
//! | [`trainer`] | the loop, and everything that is asked of it |
//! | [`corpus`] | text files as training data |
//! | [`model`] | weights as variables |
//! | [`adamw`] | the optimizer, with gradient clipping |
//! | [`schedule`] | warm-up and cosine decay |
//! | [`checkpoint`] | going on after a kill |
#![forbid(unsafe_code)]

pub mod adamw;
pub mod checkpoint;
pub mod corpus;
mod error;
pub mod model;
pub mod schedule;
pub mod trainer;

pub use corpus::Corpus;
pub use error::TrainError;
pub use model::TrainedModel;
pub use trainer::{Options, Progress, Summary, train};
