//! Converts checkpoints of sharded training to Hugging Face model folders: those of DeepSpeed's ZeRO and of
//! `torch.distributed.checkpoint`, which are saved in pieces, one or more files per rank.
//!
//! | module | contents |
//! |---|---|
//! | [`checkpoint`] | a checkpoint of any kind: detection of the kind, and the model's weights |
//! | [`model_folder`] | writes the weights as a model folder, completely or not at all |
//! | `zero`, `dcp` | the two kinds: how weights are assembled |
//! | `weight` | a weight that is spread over several files |
//! | `torch_file` | files of `torch.save`: a pickle and storages in an archive |
//! | [`pickle`] | Python's pickles as data |
//! | `file` | memory-mapped files |
//!
//! Modules use only modules below them in the table.
#![forbid(unsafe_code)]

pub mod checkpoint;
mod dcp;
mod error;
mod file;
pub mod model_folder;
pub mod pickle;
mod torch_file;
mod weight;
mod zero;

pub use checkpoint::{Checkpoint, Kind};
pub use error::CheckpointError;
pub use model_folder::{ModelFiles, ModelFolder, Written};
pub use pickle::{Pickle, PickleError};
pub use safetensors::Dtype;
pub use torch_file::{TorchFile, tensor::Tensor};
pub use weight::Weight;
