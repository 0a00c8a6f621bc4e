//! A decoder as data: what it is, and its weights as they are stored. Both engines, `cpu` and `gpu`, run this.
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | the shape and the choices of a decoder |
//! | `check` | whether its numbers describe one |
//! | [`rotary`], `alibi` | positions as angles, and as slopes |
//! | `matrix`, `stored` | weights as they are stored: a part of a file in memory |
//! | `adapter` | what an adapter makes of some weights |
//! | `weight` | a matrix as a decoder uses it: as it is stored, and what an adapter makes of it |
//! | `parts` | the weights of a decoder, each at its place |
//! | `checkpoint` | named weights in files, and an adapter of them |
//! | [`share`] | which part of it each of several ranks has |
//! | `families` | how each architecture names its choices and its weights |
//! | `gguf` | files of llama.cpp: description, tokenizer and weights in one |

pub(crate) mod adapter;
pub(crate) mod alibi;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub mod config;
pub(crate) mod families;
pub(crate) mod gguf;
pub(crate) mod matrix;
pub(crate) mod parts;
pub mod rotary;
pub mod share;
pub(crate) mod stored;
pub(crate) mod weight;
