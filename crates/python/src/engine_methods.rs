//! The methods of a loaded model.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use verdigris::Engine as Model;
use verdigris_logits::TokenId;

use crate::engine::{Engine, in_its_process};
use crate::error;
use crate::options::Options;
use crate::prompt;
use crate::request::Request;
use crate::tokenizer::Tokenizer;

#[pymethods]
impl Engine {
    /// Loads a model: a Hugging Face folder, a GGUF file, or the name of a model on the hub, which is downloaded unless
    /// it is cached. It runs on the CPU.
    #[staticmethod]
    fn load(py: Python<'_>, source: PathBuf) -> PyResult<Self> {
        in_its_process()?;
        let model = py.detach(|| Model::load(&source)).map_err(error::engine)?;
        let tokenizer = Py::new(py, Tokenizer::new(model.reader().tokenizer().clone()))?;
        Ok(Self { model: Arc::new(model), tokenizer, source: source.display().to_string() })
    }

    /// Returns a request that continues a prompt: a text, or its tokens. An empty text begins a new one. Options are
    /// keyword arguments, and most have the names and meanings of Verdigris' command line and transformers or vLLM.
    ///
    /// Length: max_tokens (256), min_tokens, stop (a text or several).
    /// Prompt: token_healing (True: its last tokens are chosen again with the text, for prompts that end inside a
    /// word). Constraint: one of regex, choice (texts), json_schema (a dictionary, a string or a pydantic model) and
    /// constraint (a Constraint over the engine's tokenizer). Mark: watermark (a Key), payload, entropy_threshold,
    /// mark_after (nats). Sampling: seed, temperature (0.8), top_k, top_p (0.95), min_p, top_a, typical_p,
    /// epsilon_cutoff, eta_cutoff, xtc_probability, xtc_threshold, dynatemp_range, dynatemp_exponent, mirostat_tau,
    /// mirostat_eta, penalty_alpha. Penalties: repetition_penalty, presence_penalty, frequency_penalty,
    /// no_repeat_ngram_size, dry_multiplier, dry_base, dry_allowed_length, logit_bias (numbers by token), bad_words
    /// (texts), suppress_tokens. Speed: draft (a smaller Engine of the same tokenizer), lookup (True), draft_tokens.
    /// Output: logprobs (the number of most probable tokens to return).
    #[pyo3(signature = (prompt, **options))]
    fn request(&self, prompt: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
        Ok(Request::new(self.model()?.clone(), prompt::text(prompt)?, Options::read(options)?))
    }

    /// Returns a request for the model's next message in a conversation, by its chat template. `messages` is the user's
    /// message, or all messages so far, each a dictionary with `role` and `content`. Options are those of `request`.
    #[pyo3(signature = (messages, **options))]
    fn chat(&self, messages: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Request> {
        Ok(Request::new(self.model()?.clone(), prompt::conversation(messages)?, Options::read(options)?))
    }

    /// The tokenizer, which keys are made for and texts are detected with.
    #[getter]
    fn tokenizer(&self, py: Python<'_>) -> Py<Tokenizer> {
        self.tokenizer.clone_ref(py)
    }

    /// The tokens that end a text.
    #[getter]
    fn end(&self) -> Vec<TokenId> {
        self.model.end().to_vec()
    }

    /// The maximum number of tokens of prompt and text together.
    #[getter]
    fn context_length(&self) -> usize {
        self.model.context_length()
    }

    fn __repr__(&self) -> String {
        format!("Engine({:?}, {} tokens of context)", self.source, self.context_length())
    }
}
