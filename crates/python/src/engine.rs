//! A loaded model.

use std::process;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use verdigris::Engine as Model;

use crate::error;
use crate::tokenizer::Tokenizer;

/// The process whose threads run models. A forked process does not have these threads.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// A loaded model. It serves any number of requests, and can be shared by threads.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Engine {
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: Py<Tokenizer>,
    pub(crate) source: String,
}

impl Engine {
    /// The model, for whatever runs it.
    pub(crate) fn model(&self) -> PyResult<&Arc<Model>> {
        in_its_process().map(|()| &self.model)
    }
}

/// Checks that models can run in this process.
pub(crate) fn in_its_process() -> PyResult<()> {
    match *PROCESS.get_or_init(process::id) == process::id() {
        true => Ok(()),
        false => Err(error::argument(
            "a model was loaded before this process was forked: load it after the fork, or start workers by \"spawn\"",
        )),
    }
}
