//! A decoder as data: its description, and its weights as they are stored. Both engines, `cpu` and `gpu`, run this.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | the shape and the choices of a decoder |
//! | [`blocks`] | its layers: attention and the like, feed-forward networks, mixtures of experts |
//! | `check` | whether a configuration describes a decoder |
//! | [`rotary`], `alibi` | positions as angles, and as slopes |
//! | `matrix`, `stored_tensor` | weights as they are stored: part of a file in memory |
//! | `adapter` | an adapter's changes of weights |
//! | `weight` | a matrix as a decoder uses it: as it is stored, with an adapter's change |
//! | `parts` | the weights of a decoder, by their roles |
//! | `tensors` | all weights of a decoder, one after the other |
//! | `checkpoint` | named weights in files, with an adapter |
//! | [`share`] | the part of a decoder that each of several ranks has |
//! | `families` | the names that each architecture uses for its choices and its weights |
//! | `gguf` | files of llama.cpp: description, tokenizer and weights in one |

pub(crate) mod adapter;
pub(crate) mod alibi;
pub mod blocks;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub mod config;
pub(crate) mod families;
pub(crate) mod gguf;
pub(crate) mod matrix;
pub(crate) mod parts;
pub mod rotary;
pub mod share;
pub(crate) mod stored_tensor;
pub(crate) mod tensors;
pub(crate) mod weight;
