//! Checkpoints of sharded trainings as Hugging Face model folders: what DeepSpeed's ZeRO and
//! `torch.distributed.checkpoint` save, in pieces, one file or more for each rank.
//!
//! | module | holds |
//! |---|---|
//! | [`checkpoint`] | a checkpoint of any kind: which kind it is, and the model's weights in it |
//! | [`model_folder`] | those weights as a model folder, which is there whole or not at all |
//! | `zero`, `dcp` | the two kinds: how a weight is put together |
//! | `weight` | a weight that lies in several files |
//! | `torch_file` | what `torch.save` writes: a pickle and storages in an archive |
//! | [`pickle`] | Python's pickles as data |
//! | `file` | files as memory |
//!
//! Arrows run down the table.
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
