//! Errors of loading and running models.

use std::io;
use std::path::PathBuf;

use verdigris_collective::CollectiveError;
use verdigris_kernels::Format;
use verdigris_text::shown;

use crate::description::share::BadSplit;

/// An error of another library.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of loading or running a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The path does not hold a model.
    #[error(
        "{path} is not a model: {fault}; a model is a folder with config.json, tokenizer.json and model.safetensors, a \
         GGUF file, or one on the Hugging Face hub (owner/name)"
    )]
    NotAModel {
        /// The path.
        path: PathBuf,
        /// The part that is missing.
        fault: String,
    },
    /// A model could not be fetched.
    #[error("{name} on the Hugging Face hub: {fault}")]
    Hub {
        /// The name of its repository.
        name: String,
        /// The problem and its cure.
        fault: String,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A model of an architecture that is not supported.
    #[error("{path}: model_type {:?} is not supported; these are: {known}", shown(model_type))]
    Architecture {
        /// The file.
        path: PathBuf,
        /// The model type that it names.
        model_type: String,
        /// The supported model types, as a list.
        known: String,
    },
    /// The configuration does not describe a decoder.
    #[error("{path}: {fault}")]
    Config {
        /// The file.
        path: PathBuf,
        /// The problem.
        fault: String,
    },
    /// The tokenizer is damaged or does not fit the model.
    #[error("{path}: {fault}")]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// The problem.
        fault: String,
    },
    /// A weight file is damaged.
    #[error("{path} is truncated or damaged ({fault}): download or copy it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reader's message.
        fault: String,
    },
    /// A weight is missing or has another shape than the configuration says.
    #[error("the weights do not fit the model's description: {} {fault}", shown(name))]
    Weight {
        /// The weight's name.
        name: String,
        /// The mismatch.
        fault: String,
    },
    /// An adapter that cannot be used, or not with this model.
    #[error("{path}: {fault}")]
    Adapter {
        /// The adapter's file.
        path: PathBuf,
        /// The problem and its cure.
        fault: String,
    },
    /// A model that returns scores instead of logits, or one that does not where scores are needed.
    #[error("{path}: {fault}")]
    Reward {
        /// The model's path.
        path: PathBuf,
        /// The problem and its cure.
        fault: String,
    },
    /// A draft head that cannot be used, or not with this model.
    #[error("{path}: {fault}")]
    DraftHead {
        /// The head's file.
        path: PathBuf,
        /// The problem and its cure.
        fault: String,
    },
    /// Keys and values on a GPU must be in pages.
    #[error("keys and values on a GPU are kept in pages")]
    PagesOnly,
    /// A decoder with parts that the kernels for GPUs do not have.
    #[error("models with {0} run on the CPU only: choose cpu")]
    NotOnGpu(&'static str),
    /// Heads that are too large for a GPU.
    #[error("heads of {head_dim} elements, but on a GPU they can have {most} at most; choose cpu")]
    HeadSize {
        /// The number of elements of a head.
        head_dim: usize,
        /// The most elements that it can have.
        most: usize,
    },
    /// A token tree that is too large for a GPU.
    #[error("a tree of {tokens} tokens, but on a GPU it can have {most} at most")]
    Tree {
        /// The tokens of the tree.
        tokens: usize,
        /// The most tokens that it can have.
        most: usize,
    },
    /// There is not enough memory on a GPU.
    #[error(
        "no memory on the GPU: {} are needed{}; {}", amount(*bytes as u64), but_free(*free), smaller(*free)
    )]
    DeviceMemory {
        /// The bytes needed.
        bytes: usize,
        /// The bytes free, if known.
        free: Option<u64>,
    },
    /// There is not enough memory on a GPU for the keys and values that may be held.
    #[error(
        "no memory on the GPU for keys and values of {tokens} tokens: {} are needed, and {} are free; hold at most \
         {most} tokens, or keep them in fewer bits", amount(*bytes), amount(*free)
    )]
    PageMemory {
        /// The number of tokens.
        tokens: usize,
        /// The bytes that they need.
        bytes: u64,
        /// The bytes free.
        free: u64,
        /// The number of tokens for which there is memory.
        most: usize,
    },
    /// The GPU failed.
    #[error("the GPU failed: {0}")]
    Gpu(#[source] BoxError),
    /// Keys and values cannot be stored in this format.
    #[error(
        "keys and values of {head_dim} elements cannot be kept as {format:?}; F32, F16 and Bf16 can, and Q8_0 for \
         multiples of 32"
    )]
    Cache {
        /// The format.
        format: Format,
        /// Elements per head.
        head_dim: usize,
    },
    /// A model cannot be written as a GGUF file.
    #[error("it cannot be converted: {fault}")]
    Convert {
        /// The reason.
        fault: String,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is not enough memory for keys and values.
    #[error(
        "no memory for keys and values: {tokens} tokens of context need {:.1} GiB; ask for fewer tokens, or keep them \
         in fewer bits",
        *bytes as f64 / (1u64 << 30) as f64
    )]
    CacheMemory {
        /// The bytes requested.
        bytes: usize,
        /// The number of tokens that they are for.
        tokens: usize,
    },
    /// The device does not exist or cannot be used.
    #[error("cannot compute on {name:?}: {fault}")]
    Device {
        /// The requested device.
        name: String,
        /// The problem.
        fault: String,
    },
    /// More tokens than the sequence has room for.
    #[error("{tokens} tokens do not fit: the model's context is {capacity} tokens")]
    ContextFull {
        /// Tokens that the sequence would hold.
        tokens: usize,
        /// Tokens that it can hold.
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
    /// A model cannot be split across ranks like this.
    #[error(transparent)]
    Split(#[from] BadSplit),
    /// The ranks that compute a model cannot continue together.
    #[error(transparent)]
    Ranks(#[from] CollectiveError),
    /// A rank does not have enough memory for a text.
    #[error("rank {rank} has no memory for the keys and values of a text of {tokens} tokens: ask for fewer")]
    RankMemory {
        /// The rank.
        rank: usize,
        /// The tokens of the text.
        tokens: usize,
    },
    /// Another library could not load a model.
    #[error("{backend} cannot load it: {source}")]
    Backend {
        /// The library, and where it computes.
        backend: String,
        /// The cause.
        source: BoxError,
    },
    /// A model of another library failed.
    #[error("computation failed: {0}")]
    Compute(#[source] BoxError),
}

const GIB: u64 = 1 << 30;

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB as f64
}

/// A number of bytes in words.
fn amount(bytes: u64) -> String {
    match bytes {
        GIB.. => format!("{:.1} GiB", gib(bytes)),
        _ => format!("{:.1} MiB", bytes as f64 / (1u64 << 20) as f64),
    }
}

fn but_free(free: Option<u64>) -> String {
    free.map_or_else(String::new, |free| format!(", and {} are free", amount(free)))
}

/// How less memory is needed: for weights, whose size is compared with the free memory, or else for texts.
fn smaller(free: Option<u64>) -> &'static str {
    match free {
        Some(_) => "choose a smaller model, one in fewer bits, or cpu",
        None => "let fewer or shorter texts be in memory at a time, or choose a smaller model, or cpu",
    }
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
