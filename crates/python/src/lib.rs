//! The module `verdigris._verdigris` of the wheel: generation, detection and constraints for Python.
//!
//! | module | holds |
//! |---|---|
//! | `error` | exceptions, with the messages of Rust's errors |
//! | `argument` | arguments with their own error messages |
//! | `pool` | threads that work while the interpreter lock is released |
//! | `tokenizer`, `key`, `ring` | tokenizers and keys |
//! | `keys` | key arguments |
//! | `look` | options of detection |
//! | `detection` | the verdict on a text |
//! | `text_column` | columns of texts, from lists and Arrow |
//! | `many` | detection in many texts, with results as Arrow |
//! | `identify`, `payload` | the key that wrote a text, and its payload |
//! | `bitmask` | sets of tokens in the caller's memory |
//! | `constraint`, `matcher` | constraints, and texts under them |
//! | `mark` | marks on rows of logits of other engines |
//! | `engine`, `engine_methods`, `prompt` | a loaded model, its methods, and its prompts |
//! | `options`, `request` | requests and their options |
//! | `stream`, `written` | a text as a stream, and when it is finished |
#![forbid(unsafe_code)]

mod argument;
mod bitmask;
mod constraint;
mod detection;
mod engine;
mod engine_methods;
mod error;
mod fields;
mod identify;
mod key;
mod keys;
mod look;
mod many;
mod mark;
mod matcher;
mod options;
mod payload;
mod pool;
mod prompt;
mod request;
mod ring;
mod stream;
mod text_column;
mod tokenizer;
mod written;

use pyo3::prelude::*;

/// The compiled part of the package `verdigris`, which should be imported instead.
#[pymodule]
fn _verdigris(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::register(module)?;
    module.add_class::<tokenizer::Tokenizer>()?;
    module.add_class::<key::Key>()?;
    module.add_class::<ring::Ring>()?;
    module.add_class::<detection::Detection>()?;
    module.add_class::<detection::Passage>()?;
    module.add_class::<many::Detections>()?;
    module.add_class::<identify::Candidate>()?;
    module.add_class::<payload::Payload>()?;
    module.add_class::<constraint::Constraint>()?;
    module.add_class::<matcher::Matcher>()?;
    module.add_class::<mark::Mark>()?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<written::Written>()?;
    module.add_class::<written::MarkCheck>()?;
    module.add_class::<written::TokenLogprobs>()?;
    module.add_class::<written::Logprob>()?;
    module.add_function(wrap_pyfunction!(detection::detect, module)?)?;
    module.add_function(wrap_pyfunction!(many::detect_many, module)?)?;
    module.add_function(wrap_pyfunction!(identify::identify, module)?)?;
    module.add_function(wrap_pyfunction!(payload::payload, module)?)?;
    Ok(())
}
