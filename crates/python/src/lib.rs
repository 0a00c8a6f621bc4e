//! The module `verdigris._verdigris` of the wheel: writing, detection and constraints for Python.
//!
//! | module | holds |
//! |---|---|
//! | `error` | exceptions, with the words of Rust's errors |
//! | `argument` | arguments whose faults are ours to name |
//! | `pool` | the threads that work while the interpreter is released |
//! | `tokenizer`, `key`, `ring` | what texts are read with |
//! | `keys` | what may be given as a key |
//! | `look` | how a text is looked at |
//! | `detection` | what a text is under some keys |
//! | `texts` | columns of texts, out of lists and Arrow |
//! | `many` | many texts at a time, and what they came to as Arrow |
//! | `identify`, `payload` | which key wrote a text, and which number |
//! | `bitmask` | sets of tokens in a caller's memory |
//! | `constraint`, `matcher` | rules in every token |
//! | `mark` | the mark on rows of logits that another system has |
//! | `engine`, `prompt` | a model that is ready to write, and what stands before a text |
//! | `options`, `request` | what is to be written, and how |
//! | `stream`, `written` | a text as it comes, and as it was written |
#![forbid(unsafe_code)]

mod argument;
mod bitmask;
mod constraint;
mod detection;
mod engine;
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
mod texts;
mod tokenizer;
mod written;

use pyo3::prelude::*;

/// What the package `verdigris` is made of; import that.
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
