//! What can go wrong with a model.

use std::io;
use std::path::PathBuf;

use verdigris_collective::CollectiveError;
use verdigris_kernels::Format;
use verdigris_text::shown;

use crate::description::share::BadSplit;

/// What another library says.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a model could not be loaded or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The path holds no model.
    #[error(
        "{path} is not a model: {fault}; a model is a folder with config.json, tokenizer.json and model.safetensors, a \
         GGUF file, or one on the Hugging Face hub (owner/name)"
    )]
    NotAModel {
        /// Which path.
        path: PathBuf,
        /// What is missing.
        fault: String,
    },
    /// A model could not be fetched.
    #[error("{name} on the Hugging Face hub: {fault}")]
    Hub {
        /// The name of its repository.
        name: String,
        /// What is wrong, and what to do.
        fault: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A model of a kind that nobody here computes.
    #[error("{path}: model_type {:?} is not supported; these are: {known}", shown(model_type))]
    Architecture {
        /// Which file.
        path: PathBuf,
        /// What it says that the model is.
        model_type: String,
        /// Model types that are supported, one after the other.
        known: String,
    },
    /// The configuration does not describe a decoder.
    #[error("{path}: {fault}")]
    Config {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// The tokenizer is damaged or does not fit the model.
    #[error("{path}: {fault}")]
    Tokenizer {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// A weight file is damaged.
    #[error("{path} is truncated or damaged ({fault}): download or copy it again")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What the reader says.
        fault: String,
    },
    /// A weight is missing or has another shape than the configuration says.
    #[error("the weights do not fit the model's description: {} {fault}", shown(name))]
    Weight {
        /// Which weight.
        name: String,
        /// How it differs.
        fault: String,
    },
    /// An adapter that cannot be used, or not with this model.
    #[error("{path}: {fault}")]
    Adapter {
        /// Its file.
        path: PathBuf,
        /// What is wrong, and what to do.
        fault: String,
    },
    /// A model that gives scores in the place of logits, or one that does not where scores are asked for.
    #[error("{path}: {fault}")]
    Reward {
        /// Where it lies.
        path: PathBuf,
        /// What is wrong, and what to do.
        fault: String,
    },
    /// A draft head that cannot be used, or not with this model.
    #[error("{path}: {fault}")]
    DraftHead {
        /// Its file.
        path: PathBuf,
        /// What is wrong, and what to do.
        fault: String,
    },
    /// A GPU has keys and values in pages.
    #[error("keys and values on a GPU are kept in pages")]
    PagesOnly,
    /// A token tree that is too large for a GPU.
    #[error("a tree of {tokens} tokens, but on a GPU it can have {most} at most")]
    Tree {
        /// Its tokens.
        tokens: usize,
        /// As many as there can be.
        most: usize,
    },
    /// There is not enough memory on a GPU.
    #[error(
        "no memory on the GPU: {:.1} GiB are needed{}; choose a smaller model, one in fewer bits, or cpu",
        gib(*bytes as u64), but_free(*free)
    )]
    DeviceMemory {
        /// Bytes that were asked for.
        bytes: usize,
        /// Bytes that were free, where that is known.
        free: Option<u64>,
    },
    /// The GPU failed.
    #[error("the GPU failed: {0}")]
    Gpu(#[source] BoxError),
    /// Keys and values cannot be kept so.
    #[error(
        "keys and values of {head_dim} elements cannot be kept as {format:?}; F32, F16 and Bf16 can, and Q8_0 for \
         multiples of 32"
    )]
    Cache {
        /// As what.
        format: Format,
        /// Elements of a head.
        head_dim: usize,
    },
    /// A model cannot be written as a GGUF file.
    #[error("it cannot be converted: {fault}")]
    Convert {
        /// Why.
        fault: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is not enough memory for keys and values.
    #[error(
        "no memory for keys and values: {tokens} tokens of context need {:.1} GiB; ask for fewer tokens, or keep them \
         in fewer bits",
        *bytes as f64 / (1u64 << 30) as f64
    )]
    CacheMemory {
        /// How many bytes were asked for.
        bytes: usize,
        /// For how many tokens.
        tokens: usize,
    },
    /// The device does not exist or cannot be used.
    #[error("cannot compute on {name:?}: {fault}")]
    Device {
        /// What was asked for.
        name: String,
        /// What is wrong.
        fault: String,
    },
    /// More tokens than the sequence has room for.
    #[error("{tokens} tokens do not fit: the model's context is {capacity} tokens")]
    ContextFull {
        /// Tokens that were to be held.
        tokens: usize,
        /// Tokens that can be.
        capacity: usize,
    },
    /// A token that the model does not have.
    #[error("token {token} is outside the model's vocabulary of {size}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// One more than the highest token.
        size: usize,
    },
    /// A model cannot be shared out to ranks so.
    #[error(transparent)]
    Split(#[from] BadSplit),
    /// The ranks that compute a model cannot go on together.
    #[error(transparent)]
    Ranks(#[from] CollectiveError),
    /// One of the ranks has no memory for a text.
    #[error("rank {rank} has no memory for the keys and values of a text of {tokens} tokens: ask for fewer")]
    RankMemory {
        /// Which rank.
        rank: usize,
        /// For how many tokens.
        tokens: usize,
    },
    /// Another library could not load a model.
    #[error("{backend} cannot load it: {source}")]
    Backend {
        /// Which library, and where it computes.
        backend: String,
        /// Why.
        source: BoxError,
    },
    /// A model of another library failed.
    #[error("computation failed: {0}")]
    Compute(#[source] BoxError),
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}

fn but_free(free: Option<u64>) -> String {
    free.map_or_else(String::new, |free| format!(", and {:.1} GiB are free", gib(free)))
}

#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
impl From<verdigris_kernels::cuda::CudaError> for ModelError {
    fn from(error: verdigris_kernels::cuda::CudaError) -> Self {
        match error {
            verdigris_kernels::cuda::CudaError::Memory { bytes } => Self::DeviceMemory { bytes, free: None },
            other => Self::Gpu(other.into()),
        }
    }
}
