//! A model that is ready to write.

use std::path::PathBuf;
use std::process;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use verdigris::Engine as Model;
use verdigris_logits::TokenId;

use crate::error;
use crate::options::Options;
use crate::prompt;
use crate::request::Request;
use crate::tokenizer::Tokenizer;

/// The process whose threads compute models. One that was forked from it has none of them.
static PROCESS: OnceLock<u32> = OnceLock::new();

/// A model that is ready to write. It serves any number of requests, and threads may share it.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Engine {
    model: Arc<Model>,
    tokenizer: Py<Tokenizer>,
    source: String,
}

impl Engine {
    /// The model.
    pub(crate) fn model(&self) -> PyResult<&Arc<Model>> {
        in_its_process().map(|()| &self.model)
    }
}

/// Whether models can compute here.
pub(crate) fn in_its_process() -> PyResult<()> {
    match *PROCESS.get_or_init(process::id) == process::id() {
        true => Ok(()),
        false => Err(error::argument(
            "a model was loaded before this process was forked: load it after that, or start workers by \"spawn\"",
        )),
    }
}

#[pymethods]
impl Engine {
    /// Loads a model: a Hugging Face folder, a GGUF file, or the name of a model on the hub, which is fetched where it
    /// is not there yet. It computes on the CPU.
    #[staticmethod]
    fn load(py: Python<'_>, source: PathBuf) -> PyResult<Self> {
        in_its_process()?;
        let model = py.detach(|| Model::load(&source)).map_err(error::engine)?;
        let tokenizer = Py::new(py, Tokenizer::new(model.reader().tokenizer().clone()))?;
        Ok(Self { model: Arc::new(model), tokenizer, source: source.display().to_string() })
    }

    /// A request to go on from a prompt: a text, or its tokens. An empty text begins a new one. Options go by name; of
    /// most, what they do is what Verdigris' command line and transformers or vLLM call so.
    ///
    /// How much: max_tokens (256), min_tokens, stop (a text or several).
    /// The form: one of regex, choice (texts), json_schema (a dictionary, a string or a model of pydantic) and
    /// constraint (a Constraint over the engine's tokenizer).
    /// The mark: watermark (a Key), payload, entropy_threshold.
    /// What is drawn: seed, temperature (0.8), top_k, top_p (0.95), min_p, top_a, typical_p, epsilon_cutoff,
    /// eta_cutoff, xtc_probability, xtc_threshold, dynatemp_range, dynatemp_exponent, mirostat_tau, mirostat_eta,
    /// penalty_alpha.
    /// Penalties: repetition_penalty, presence_penalty, frequency_penalty, no_repeat_ngram_size, dry_multiplier,
    /// dry_base, dry_allowed_length, logit_bias (numbers by token), bad_words (texts), suppress_tokens.
    /// Speed: draft (a smaller Engine of the same tokenizer), lookup (True), draft_tokens.
    /// Beside the text: logprobs (so many of the most probable tokens).
    #[pyo3(signature = (prompt, **options))]
    fn request(&self, prompt: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
        Ok(Request::new(self.model()?.clone(), prompt::text(prompt)?, Options::read(options)?))
    }

    /// A request for the model's next message in a conversation, by its chat template: what the user says, or the
    /// messages so far, each a dictionary with `role` and `content`. Options are those of `request`.
    #[pyo3(signature = (messages, **options))]
    fn chat(&self, messages: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
        Ok(Request::new(self.model()?.clone(), prompt::conversation(messages)?, Options::read(options)?))
    }

    /// Its tokenizer: what keys are made for, and what texts are detected with.
    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> Py<Tokenizer> {
        self.tokenizer.clone_ref(py)
    }

    /// The tokens that end a text.
    #[getter]
    fn end(&self) -> Vec<TokenId> {
        self.model.end().to_vec()
    }

    /// The most tokens that prompt and text may have together.
    #[getter]
    fn context_length(&self) -> usize {
        self.model.context_length()
    }

    fn __repr__(&self) -> String {
        format!("Engine({:?}, {} tokens of context)", self.source, self.context_length())
    }
}
