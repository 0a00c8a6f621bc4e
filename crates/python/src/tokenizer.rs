//! Tokenizers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use verdigris_detector::constrain::Lexicon;
use verdigris_detector::{Reader, Tokenizer as Inner, text::TokenizerError};
use verdigris_logits::TokenId;

use crate::argument::{TextArgument, type_name};
use crate::error::{self, BadText, BadTokenizer};
use crate::pool;

/// The tokenizer of the models that are built into the program.
const TALE: &[u8] = include_bytes!("../../../fixtures/models/tale/tokenizer.json");

/// A tokenizer, which splits texts into tokens. Loading one takes a while, so keep it.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Tokenizer {
    inner: Arc<Inner>,
    /// The lexicon that constraints share, for the last requested end tokens.
    lexicon: Mutex<Option<Lexicon>>,
}

impl Tokenizer {
    /// Wraps a loaded tokenizer.
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, lexicon: Mutex::default() }
    }

    fn of(json: &[u8]) -> Result<Self, TokenizerError> {
        Ok(Self::new(Arc::new(Inner::from_json(json)?)))
    }

    /// A reader with this tokenizer.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.inner.clone())
    }

    /// The number of tokens.
    pub(crate) fn size(&self) -> usize {
        self.inner.vocabulary().size()
    }

    /// The lexicon for constraints with these end tokens.
    pub(crate) fn lexicon(&self, end: &[TokenId]) -> Lexicon {
        let mut kept = self.lexicon.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(lexicon) if lexicon.end() == end => lexicon.clone(),
            _ => kept.insert(Lexicon::new(self.inner.clone(), end)).clone(),
        }
    }
}

#[pymethods]
impl Tokenizer {
    /// Loads a `tokenizer.json`, or the one in a model folder.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = if path.is_dir() { path.join("tokenizer.json") } else { path };
        let wrong = |fault: String| BadTokenizer::new_err(format!("{}: {fault}", file.display()));
        py.detach(|| {
            let json = std::fs::read(&file).map_err(|error| wrong(error.to_string()))?;
            Self::of(&json).map_err(|error| wrong(error.to_string()))
        })
    }

    /// Loads a tokenizer from the contents of a `tokenizer.json`.
    #[staticmethod]
    fn from_json(py: Python<'_>, json: &str) -> PyResult<Self> {
        py.detach(|| Self::of(json.as_bytes())).map_err(|error| BadTokenizer::new_err(error.to_string()))
    }

    /// Converts a tokenizer of `transformers`, which must be a fast one.
    #[staticmethod]
    fn from_transformers(py: Python<'_>, tokenizer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Some(backend) = tokenizer.getattr_opt("backend_tokenizer")? else {
            return Err(BadTokenizer::new_err("this is not a fast tokenizer of `transformers`: give its file"));
        };
        Self::from_json(py, &backend.call_method0("to_str")?.extract::<String>()?)
    }

    /// The tokenizer of `tale`, `tale-small` and `tale-expert`, the models built into the program.
    #[staticmethod]
    fn tale(py: Python<'_>) -> PyResult<Py<Self>> {
        static KEPT: OnceLock<Py<Tokenizer>> = OnceLock::new();
        if let Some(kept) = KEPT.get() {
            return Ok(kept.clone_ref(py));
        }
        let made = Py::new(py, Self::of(TALE).map_err(|error| BadTokenizer::new_err(error.to_string()))?)?;
        Ok(KEPT.get_or_init(|| made).clone_ref(py))
    }

    /// The number of tokens.
    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.size()
    }

    /// The fingerprint that identifies the tokenizer in keys.
    #[getter]
    fn fingerprint(&self) -> &str {
        self.inner.vocabulary().fingerprint()
    }

    /// The tokens of a text.
    fn encode(&self, py: Python<'_>, text: TextArgument) -> PyResult<Vec<TokenId>> {
        pool::work(py, || self.inner.encode_long(&text))?.map_err(|error| BadText::new_err(error.to_string()))
    }

    /// The text of some tokens.
    fn decode(&self, tokens: Vec<TokenId>) -> String {
        self.inner.decode(&tokens)
    }

    fn __repr__(&self) -> String {
        format!("Tokenizer({} tokens, {:.8})", self.size(), self.fingerprint())
    }
}

/// Reads a tokenizer argument: a tokenizer, its path, or `None` for that of `tale`.
pub(crate) fn tokenizer(py: Python<'_>, given: Option<&Bound<'_, PyAny>>) -> PyResult<Py<Tokenizer>> {
    let Some(given) = given else { return Tokenizer::tale(py) };
    if let Ok(tokenizer) = given.cast::<Tokenizer>() {
        return Ok(tokenizer.clone().unbind());
    }
    if given.getattr_opt("backend_tokenizer")?.is_some() {
        return Py::new(py, Tokenizer::from_transformers(py, given)?);
    }
    match given.extract::<PathBuf>() {
        Ok(path) => Py::new(py, Tokenizer::load(py, path)?),
        Err(_) => {
            let found = type_name(given);
            Err(error::wrong_type(py, format!("a tokenizer is a Tokenizer or the path of one, not {found}")))
        }
    }
}
