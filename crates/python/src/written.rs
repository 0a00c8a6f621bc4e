//! Written texts.

use pyo3::prelude::*;
use verdigris::{Engine as Model, Error, Key as Secret, Stop};
use verdigris_logits::TokenId;

use crate::error;

/// A written text, with the fields of `verdigris generate --json`.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct Written {
    /// The text, without the prompt and without a stop string.
    text: String,
    /// Its tokens.
    tokens: Vec<TokenId>,
    /// The number of tokens of the prompt.
    prompt_tokens: usize,
    /// The reason that it ended: `end`, `length`, `context`, `stop_string` or, if it was interrupted, `cancelled`.
    stop: &'static str,
    /// The stop string that ended it.
    stop_string: Option<String>,
    /// Whether the text satisfies its constraint; `None` without a constraint.
    complete: Option<bool>,
    /// Whether its tokens ran out and the constraint closed it: its last values may be cut or made up.
    closed: bool,
    /// The seed that it was sampled with.
    seed: u64,
    /// The number of calls of the model; `None` if nothing was drafted.
    calls: Option<usize>,
    /// The number of drafted tokens; `None` if nothing was drafted.
    drafted: Option<usize>,
    /// The number of accepted drafts; `None` if nothing was drafted.
    accepted: Option<usize>,
    /// The log-probabilities of each token; `None` unless `logprobs` was requested.
    logprobs: Option<Vec<TokenLogprobs>>,
    /// The result of detection in the text; `None` without a key.
    mark: Option<MarkCheck>,
}

/// The result of detection in the delivered text, with its key: `mark` of `verdigris generate --json`.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct MarkCheck {
    /// `watermarked` if the p-value is at or below the level of detection, else `too_weak` or `skipped`.
    status: &'static str,
    /// The reason that it is not watermarked; `None` if it is.
    reason: Option<&'static str>,
    /// The number of scored tokens.
    scored: u64,
    /// The logarithm of the p-value to base 10.
    log10_p: f64,
}

/// The log-probabilities at the position of a token.
#[pyclass(frozen, get_all, module = "verdigris")]
#[derive(Clone)]
pub(crate) struct TokenLogprobs {
    /// The token that was written.
    chosen: Logprob,
    /// The most probable tokens, the best first.
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
    /// 1 for the most probable token, 2 for the next.
    rank: usize,
}

impl Written {
    /// Converts a text that a model has written, with the result of detection with its key.
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
    fn reason(&self) -> Option<Stop> {
        match self.stop {
            "end" => Some(Stop::End),
            "length" => Some(Stop::Length),
            "context" => Some(Stop::Context),
            "stop_string" => Some(Stop::StopString),
            _ => None,
        }
    }

    /// The text, which must satisfy its constraint.
    pub(crate) fn into_whole(self) -> PyResult<String> {
        match self.closed || self.complete == Some(false) {
            true => Err(error::engine(Error::CutShort { tokens: self.tokens.len(), stop: self.reason() })),
            false => Ok(self.text),
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
