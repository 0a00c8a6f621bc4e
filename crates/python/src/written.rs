//! A text as it was written.

use pyo3::prelude::*;
use verdigris::{Engine as Model, Error, Key as Secret, Stop};
use verdigris_logits::TokenId;

use crate::error;

/// A text, and how it was written: the fields of `verdigris generate --json`.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct Written {
    /// The text, without the prompt and without a stop string.
    text: String,
    /// Its tokens.
    tokens: Vec<TokenId>,
    /// The number of tokens of the prompt.
    prompt_tokens: usize,
    /// What ended it: `end`, `length`, `context`, `stop_string` or, where it was interrupted, `cancelled`.
    stop: &'static str,
    /// The stop string that ended it.
    stop_string: Option<String>,
    /// Whether the text has the whole form that was asked for; `None` where none was.
    complete: Option<bool>,
    /// Whether its tokens ran out inside the form, which closed it: its last values may be cut or made up.
    closed: bool,
    /// The seed of its draws.
    seed: u64,
    /// Calls of the model, tokens drafted and drafts that stood; `None` where nothing was drafted.
    calls: Option<usize>,
    /// As `calls`.
    drafted: Option<usize>,
    /// As `calls`.
    accepted: Option<usize>,
    /// What each token was expected to be; `None` where `logprobs` was not asked for.
    logprobs: Option<Vec<TokenLogprobs>>,
    /// What a detector finds in the text; `None` where it was written without a key.
    mark: Option<MarkCheck>,
}

/// What a detector with the key finds in a text as it is delivered: `mark` of `verdigris generate --json`.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct MarkCheck {
    /// `watermarked` where the p-value is at or below the level of detection, else `too_weak` or `skipped`.
    status: &'static str,
    /// Why it is not watermarked; `None` where it is.
    reason: Option<&'static str>,
    /// The tokens that were scored.
    scored: u64,
    /// The logarithm of the p-value to base 10.
    log10_p: f64,
}

/// What a token was expected to be.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct TokenLogprobs {
    /// The token that was written.
    chosen: Logprob,
    /// The most probable ones, the best first.
    top: Vec<Logprob>,
}

/// A token and its probability.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct Logprob {
    /// The token.
    token: TokenId,
    /// Its text.
    text: String,
    /// The natural logarithm of its probability.
    logprob: f64,
    /// How many tokens were more probable, and one.
    rank: usize,
}

impl Written {
    /// The text that a model has written, and what is found in it with the key that it was written with.
    pub(crate) fn new(written: verdigris::Written, model: &Model, key: Option<&Secret>) -> Result<Self, Error> {
        let check = key.map(|key| model.mark_check(key, &written, verdigris::Level::DEFAULT)).transpose()?;
        let logprobs = |of: Vec<verdigris::TokenLogprobs>| of.into_iter().map(TokenLogprobs::from).collect();
        Ok(Self {
            text: written.text,
            tokens: written.tokens,
            prompt_tokens: written.prompt_tokens,
            stop: match written.stop {
                Some(Stop::End) => "end",
                Some(Stop::Length) => "length",
                Some(Stop::Context) => "context",
                Some(Stop::StopString) => "stop_string",
                None => "cancelled",
            },
            stop_string: written.stop_string,
            complete: written.complete,
            closed: written.closed,
            seed: written.seed,
            calls: written.acceptance.map(|acceptance| acceptance.calls),
            drafted: written.acceptance.map(|acceptance| acceptance.drafted),
            accepted: written.acceptance.map(|acceptance| acceptance.accepted),
            logprobs: written.logprobs.map(logprobs),
            mark: check.map(MarkCheck::from),
        })
    }
}

impl From<verdigris::MarkCheck> for MarkCheck {
    fn from(of: verdigris::MarkCheck) -> Self {
        Self { status: of.status.name(), reason: of.reason, scored: of.scored, log10_p: of.log10_p }
    }
}

impl From<verdigris::TokenLogprobs> for TokenLogprobs {
    fn from(of: verdigris::TokenLogprobs) -> Self {
        Self { chosen: of.chosen.into(), top: of.top.into_iter().map(Logprob::from).collect() }
    }
}

impl From<verdigris::Logprob> for Logprob {
    fn from(of: verdigris::Logprob) -> Self {
        Self { token: of.token, text: of.text, logprob: of.logprob, rank: of.rank }
    }
}

impl Written {
    /// The text, which must have the whole form that was asked for.
    pub(crate) fn into_whole(self) -> PyResult<String> {
        match self.complete {
            _ if self.closed => Err(error::engine(Error::CutShort { tokens: self.tokens.len() })),
            Some(false) => Err(error::engine(Error::CutShort { tokens: self.tokens.len() })),
            _ => Ok(self.text),
        }
    }
}

#[pymethods]
impl Written {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("Written({:?}, {} tokens, seed {})", self.text, self.tokens.len(), self.seed)
    }
}

#[pymethods]
impl MarkCheck {
    fn __repr__(&self) -> String {
        format!("MarkCheck({}, {} scored, p 1e{:.1})", self.status, self.scored, self.log10_p)
    }
}

#[pymethods]
impl Logprob {
    fn __repr__(&self) -> String {
        format!("Logprob({:?}, {:.3})", self.text, self.logprob)
    }
}
