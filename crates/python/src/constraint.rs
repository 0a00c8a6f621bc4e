//! Constraints: regular expressions, choices and JSON Schemas over a tokenizer.

use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::Value;
use verdigris::ReasoningSyntax;
use verdigris_detector::constrain::{
    Constraint as Inner, ForcedText, Language, NumberForms, Order, Whitespace, parse_schema,
};
use verdigris_detector::{Grammar, Reader, Style};
use verdigris_logits::TokenId;

use crate::error;
use crate::matcher::Matcher;
use crate::tokenizer::{Tokenizer, tokenizer};

/// A constraint on texts, over a tokenizer. It is compiled once for any number of texts.
#[pyclass(frozen, module = "verdigris")]
pub(crate) struct Constraint {
    inner: Inner,
    grammar: Arc<Grammar>,
    /// The grammars of existing texts, of which the first one that a text obeys counts.
    readings: Vec<Arc<Grammar>>,
    tokenizer: Py<Tokenizer>,
    description: String,
    /// The most tokens of a text.
    within: Option<usize>,
    forced: ForcedText,
}

impl Constraint {
    fn compile<E: std::fmt::Display + Send>(
        py: Python<'_>,
        given: Option<&Bound<'_, PyAny>>,
        end: Option<Vec<TokenId>>,
        description: String,
        grammar: impl FnOnce() -> Result<Grammar, E> + Send,
    ) -> PyResult<Self> {
        let tokenizer = tokenizer(py, given)?;
        let end = end.unwrap_or_else(|| if given.is_none() { vec![0] } else { Vec::new() });
        let size = tokenizer.get().size();
        if let Some(token) = end.iter().find(|&&token| token as usize >= size) {
            return Err(error::argument(format!("end has token {token}, but there are {size} tokens")));
        }
        let grammar = Arc::new(py.detach(grammar).map_err(error::constraint)?);
        let inner = py.detach(|| Inner::new(grammar.clone(), &tokenizer.get().lexicon(&end)));
        let readings = vec![grammar.clone()];
        Ok(Self { inner, grammar, readings, tokenizer, description, within: None, forced: ForcedText::Any })
    }

    /// The constraint over its tokenizer.
    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// A reader of texts under this constraint.
    pub(crate) fn of_reader(&self, reader: Reader) -> Reader {
        reader.of_grammars(self.readings.iter().cloned())
    }
}

/// Reads a JSON Schema: a string of JSON, a dictionary, or a pydantic model.
pub(crate) fn schema(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    let text: String = match given.extract() {
        Ok(text) => text,
        Err(_) => {
            let schema = match given.getattr_opt("model_json_schema")? {
                Some(method) => method.call0()?,
                None => given.clone(),
            };
            given.py().import("json")?.call_method1("dumps", (schema,))?.extract()?
        }
    };
    parse_schema(text.as_bytes()).map_err(|fault| error::constraint(format!("the schema: {fault}")))
}

/// The style of JSON.
fn style(closed: bool, any_order: bool, whitespace: &str, numbers: &str) -> PyResult<Style> {
    let mut style = Style::default();
    if closed {
        style = style.closed();
    }
    if any_order {
        style.order = Order::Any;
    }
    style.whitespace = match whitespace {
        "compact" => Whitespace::Compact,
        "spaced" => Whitespace::Spaced,
        "optional" => Whitespace::Optional,
        "free" => Whitespace::Free { most: 16 },
        other => {
            return Err(error::argument(format!(
                "whitespace is {other:?}, but must be compact, spaced, optional or free"
            )));
        }
    };
    style.numbers = match numbers {
        "plain" => NumberForms::Plain,
        "full" => NumberForms::Full,
        other => return Err(error::argument(format!("numbers is {other:?}, but must be plain or full"))),
    };
    Ok(style)
}

#[pymethods]
impl Constraint {
    /// Constrains texts as a whole to a regular expression, in the syntax of Rust's crate `regex`. `end` lists the
    /// tokens that end a text.
    #[staticmethod]
    #[pyo3(signature = (pattern, tokenizer=None, *, end=None))]
    fn regex(
        py: Python<'_>,
        pattern: &str,
        tokenizer: Option<&Bound<'_, PyAny>>,
        end: Option<Vec<TokenId>>,
    ) -> PyResult<Self> {
        Self::compile(py, tokenizer, end, format!("regex {pattern:?}"), || Grammar::regex(pattern))
    }

    /// Constrains texts to one of these.
    #[staticmethod]
    #[pyo3(signature = (texts, tokenizer=None, *, end=None))]
    fn choice(
        py: Python<'_>,
        texts: Vec<String>,
        tokenizer: Option<&Bound<'_, PyAny>>,
        end: Option<Vec<TokenId>>,
    ) -> PyResult<Self> {
        Self::compile(py, tokenizer, end, format!("one of {} texts", texts.len()), || Grammar::choice(&texts))
    }

    /// Constrains texts to a grammar in one of the languages "gbnf", "ebnf" and "lark".
    #[staticmethod]
    #[pyo3(signature = (text, language, tokenizer=None, *, end=None))]
    fn grammar(
        py: Python<'_>,
        text: &str,
        language: &str,
        tokenizer: Option<&Bound<'_, PyAny>>,
        end: Option<Vec<TokenId>>,
    ) -> PyResult<Self> {
        let parsed: Language =
            language.parse().map_err(|unknown| error::argument(format!("{unknown}, not {language:?}")))?;
        let description = format!("a grammar in {language}");
        let constraint = Self::compile(py, tokenizer, end, description, || Grammar::parse(parsed, text))?;
        match constraint.inner.missing_control() {
            Some(name) => {
                let fault = format!("the grammar has {name}, which is not a control token of the tokenizer");
                Err(error::constraint(fault))
            }
            None => Ok(constraint),
        }
    }

    /// Constrains texts to JSON that satisfies a schema: a string of JSON, a dictionary, or a pydantic model.
    #[staticmethod]
    #[pyo3(signature = (schema, tokenizer=None, *, end=None, closed=false, any_order=false, whitespace="optional",
                        numbers="plain"))]
    #[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
    fn json_schema(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        tokenizer: Option<&Bound<'_, PyAny>>,
        end: Option<Vec<TokenId>>,
        closed: bool,
        any_order: bool,
        whitespace: &str,
        numbers: &str,
    ) -> PyResult<Self> {
        let style = style(closed, any_order, whitespace, numbers)?;
        let schema = self::schema(schema)?;
        Self::compile(py, tokenizer, end, "a JSON Schema".into(), || Grammar::json_schema(&schema, style))
    }

    /// The same constraint for texts of at most `tokens` tokens, which are led to their end in time.
    fn within(&self, py: Python<'_>, tokens: usize) -> PyResult<Self> {
        let inner = py.detach(|| {
            let inner = self.inner.within(tokens);
            inner.check().map(|()| inner)
        });
        let inner = inner.map_err(error::constraint)?;
        Ok(Self { inner, within: Some(tokens), ..self.copy(py) })
    }

    /// The same constraint, with forced text split into tokens as the tokenizer splits it.
    fn canonical(&self, py: Python<'_>) -> Self {
        let forced = ForcedText::Canonical;
        Self { inner: self.inner.forced_text(forced), forced, ..self.copy(py) }
    }

    /// The same constraint on the answer of a text that may have a thought before it, with the markers of a format:
    /// "think", "harmony" and so on.
    fn with_thought(&self, py: Python<'_>, format: &str) -> PyResult<Self> {
        let syntax = ReasoningSyntax::named(format).ok_or_else(|| {
            let names = ReasoningSyntax::names().collect::<Vec<_>>().join(", ");
            error::argument(format!("format is {format:?}, but must be one of {names}"))
        })?;
        let answer = Grammar::clone(&self.grammar);
        let description = format!("{} after a thought", self.description);
        let (tokenizer, end) = (self.tokenizer.bind(py).as_any(), Some(self.end()));
        let mut readings = Vec::new();
        let whole = Self::compile(py, Some(tokenizer), end, description, || {
            readings = answer.clone().readings_with_thought(syntax)?.map(Arc::new).into();
            answer.with_thought(syntax)
        })?;
        let inner = whole.inner.forced_text(self.forced);
        let whole = Self { inner, readings, forced: self.forced, ..whole };
        match self.within {
            Some(tokens) => whole.within(py, tokens),
            None => Ok(whole),
        }
    }

    /// Starts a text under this constraint, after a prompt.
    #[pyo3(signature = (prompt=Vec::new()))]
    fn matcher(&self, prompt: Vec<TokenId>) -> Matcher {
        Matcher::new(&self.inner, self.vocabulary_size(), self.within, &prompt)
    }

    /// The number of tokens of the tokenizer.
    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.tokenizer.get().size()
    }

    /// The number of 32-bit words in a row of a bitmask.
    #[getter]
    fn bitmask_words(&self) -> usize {
        self.vocabulary_size().div_ceil(32)
    }

    /// The tokens that end a text.
    #[getter]
    fn end(&self) -> Vec<TokenId> {
        self.inner.lexicon().end().to_vec()
    }

    /// Returns the same object, since constraints are immutable.
    fn __copy__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __deepcopy__(this: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        this
    }

    fn __repr__(&self) -> String {
        format!("Constraint({}, {} tokens)", self.description, self.vocabulary_size())
    }
}

impl Constraint {
    fn copy(&self, py: Python<'_>) -> Self {
        Self {
            inner: self.inner.clone(),
            grammar: self.grammar.clone(),
            readings: self.readings.clone(),
            tokenizer: self.tokenizer.clone_ref(py),
            description: self.description.clone(),
            within: self.within,
            forced: self.forced,
        }
    }
}
