//! Language models: tokens in, rows of logits out.
//!
//! Models know nothing about watermarks or constraints. They return a row for *every* position asked for, so a draft of
//! several tokens is verified in one call, and their caches can be truncated and forked. No tensor library is needed;
//! training uses one, in `verdigris-train`.
//!
//! | module | holds |
//! |---|---|
//! | [`language_model`] | the contract between a model and its users |
//! | [`description`] | a decoder as data: choices, positions, weights as they are stored, families, GGUF files |
//! | [`cpu`] | the one decoder that runs the description on a CPU |
//! | `gpu` | the same on NVIDIA GPUs (feature `cuda`) |
//! | [`parallel`] | a model that several ranks compute together |
//! | [`source`] | the sources of models: folders, files, the Hugging Face hub (feature `hub`) |
//! | [`draft_head`] | small networks that guess from a model's hidden states |
//! | [`reward`] | models that score a text with one number |
//! | [`foreign`] | models of other libraries behind the same contract |
//! | [`mod@device`] | the device that a model computes on |
//! | [`saved`] | saved states of sequences |
//! | [`prompt_file`] | files with the saved states of prompts |
//! | [`held`] | the number of tokens in a sequence |
//! | `cache`, `slices` | shared by both decoders: storage of keys and values; tokens of several batches in passes |
//! | [`whole_file`] | files that are written completely or not at all |
//!
//! Dependencies run one way: `source` uses `cpu` and `gpu`, and both use `description`; the two decoders know nothing
//! of each other.
#![forbid(unsafe_code)]

pub mod backend;
mod cache;
pub mod cpu;
pub mod description;
pub mod device;
pub mod draft_head;
mod error;
pub mod foreign;
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub mod gpu;
pub mod held;
pub mod language_model;
pub mod parallel;
pub mod prompt_file;
pub mod reward;
pub mod saved;
mod slices;
pub mod source;
pub mod whole_file;

pub use backend::{Backend, ModelFiles};
pub use cache::CacheLayout;
pub use cpu::CpuDecoder;
pub use description::check::BadConfig;
pub use description::config::DecoderConfig;
pub use description::gguf::convert::Converted;
pub use description::share::{BadSplit, Split};
pub use description::{config, rotary};
#[cfg(feature = "cuda")]
pub use device::gpus;
pub use device::{Device, device};
pub use draft_head::{DraftHead, DraftTarget};
pub use error::{BoxError, ModelError};
pub use foreign::{Foreign, Forward};
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
pub use gpu::GpuDecoder;
pub use held::Held;
pub use language_model::{Batch, BatchItem, LanguageModel, PageShape, Rows, SampleRequest, Sequence, Wanted};
pub use parallel::{Ranks, SharedModel, Worker};
pub use reward::RewardModel;
pub use saved::{SavedSection, StateId};
pub use source::chat::ChatSource;
pub use source::folder::{LoadedModel, ModelFolder};
#[cfg(feature = "hub")]
pub use source::hub;
pub use source::name::{Fetched, HubName};
pub use verdigris_collective::{self as collective, Deadlines};
pub use verdigris_kernels::Bytes;
pub use verdigris_kernels::Format;
#[cfg(feature = "cuda")]
pub use verdigris_kernels::cuda::About as AboutGpu;
pub use verdigris_kernels::machine;
pub use verdigris_text::shown;
