//! Decoding: drawing a text from its law.
//!
//! A [`Target`] is the law of the next token given the tokens so far. [`Plain`] draws from it one token at a
//! time. Whatever else will draw faster must draw from the same target: speed never changes the law.
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | the law: model, transforms, sampler, seed |
//! | [`plain`] | one token a step |
//! | [`steer`] | a model moved by experts |
//! | [`limits`] | when a text ends |
#![forbid(unsafe_code)]

pub mod limits;
pub mod plain;
pub mod steer;
#[cfg(test)]
mod table;
pub mod target;

pub use limits::{Limits, Stop};
pub use plain::Plain;
pub use steer::{Pair, Steered};
pub use target::{DecodeError, Target};
