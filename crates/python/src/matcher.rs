//! A text under a constraint, token by token.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use verdigris_detector::constrain::{Constraint, Cursor};
use verdigris_logits::steps::Step;
use verdigris_logits::{Row, Steps, TokenId, Transform};

use crate::argument::Token;
use crate::bitmask;
use crate::error;

/// The state of a text under a constraint.
#[pyclass(module = "verdigris")]
pub(crate) struct Matcher {
    constraint: Constraint,
    vocabulary: usize,
    /// The most tokens of the text.
    within: Option<usize>,
    at: MatcherState,
    /// The state before each token.
    before: Vec<MatcherState>,
    /// Scratch space for masks.
    scratch: Mutex<(Row, Steps)>,
}

/// The state of a text at a position. Copies are cheap.
#[derive(Clone)]
struct MatcherState {
    cursor: Cursor,
    /// Like the cursor, and also tracks the number of tokens left.
    state: <Constraint as Transform>::State,
    ended: bool,
}

impl Matcher {
    pub(crate) fn new(constraint: &Constraint, vocabulary: usize, within: Option<usize>, prompt: &[TokenId]) -> Self {
        let (cursor, state) = (constraint.cursor(prompt), constraint.start(prompt));
        let at = MatcherState { cursor, state, ended: false };
        let scratch = Mutex::default();
        Self { constraint: constraint.clone(), vocabulary, within, at, before: Vec::new(), scratch }
    }

    /// Whether the text has all its tokens, and is complete.
    fn is_full(&self) -> bool {
        self.within.is_some_and(|tokens| self.before.len() >= tokens) && self.at.cursor.is_accepting()
    }

    /// The words of the set of allowed next tokens.
    fn allowed(&mut self) -> PyResult<Vec<u64>> {
        let mut words = vec![0; self.vocabulary.div_ceil(64)];
        if self.at.ended || self.is_full() {
            for &token in self.constraint.lexicon().end() {
                words[token as usize / 64] |= 1 << (token % 64);
            }
            return Ok(words);
        }
        let Self { constraint, vocabulary, at, scratch, .. } = self;
        let (row, steps) = scratch.get_mut().unwrap_or_else(PoisonError::into_inner);
        row.record(*vocabulary, steps, |row| constraint.apply(&at.state, row));
        for step in steps.steps() {
            if let Step::Restrict(set) = *step {
                let set = &steps.words()[set.from..][..set.count];
                words.fill(0);
                let shared = set.len().min(words.len());
                words[..shared].copy_from_slice(&set[..shared]);
            }
        }
        if words.iter().all(|&word| word == 0)
            && !at.cursor.is_accepting()
            && let Some(fault) = constraint.fault()
        {
            return Err(error::constraint(fault));
        }
        Ok(words)
    }
}

#[pymethods]
impl Matcher {
    /// Writes the allowed next tokens into a row of a bitmask: an array of `int32`, in which token `i` is bit `i % 32`
    /// of word `i / 32`. After the end of the text only end tokens are allowed.
    #[pyo3(signature = (bitmask, row=0))]
    fn fill_bitmask(&mut self, py: Python<'_>, bitmask: &Bound<'_, PyAny>, row: usize) -> PyResult<()> {
        let words = py.detach(|| self.allowed())?;
        bitmask::write_row(py, bitmask, row, &words, self.vocabulary)
    }

    /// The allowed next tokens.
    fn allowed_tokens(&mut self) -> PyResult<Vec<TokenId>> {
        let words = self.allowed()?;
        let tokens = 0..self.vocabulary as TokenId;
        Ok(tokens.filter(|&token| words[token as usize / 64] >> (token % 64) & 1 == 1).collect())
    }

    /// Accepts a token. Returns `False`, and changes nothing, if the token is not allowed.
    fn accept(&mut self, token: Token) -> PyResult<bool> {
        let Some(token) = token.0 else { return Ok(false) };
        let ends = self.constraint.lexicon().end().contains(&token);
        let mut continues =
            !self.at.ended && (token as usize) < self.vocabulary && self.at.cursor.mask().tokens.contains(token);
        // Near its most tokens, a text is led to its end.
        if continues && self.within.is_some() {
            continues = !self.is_full() && self.allowed()?[token as usize / 64] >> (token % 64) & 1 == 1;
        }
        if !continues && !(ends && (self.at.ended || self.at.cursor.is_accepting())) {
            return Ok(false);
        }
        self.before.push(self.at.clone());
        if continues {
            self.at.cursor.advance(token);
            self.constraint.advance(&mut self.at.state, token);
        } else {
            self.at.ended = true;
        }
        Ok(true)
    }

    /// Removes the last tokens.
    #[pyo3(signature = (tokens=1))]
    fn rollback(&mut self, tokens: usize) -> PyResult<()> {
        let Some(left) = self.before.len().checked_sub(tokens) else {
            let written = self.before.len();
            return Err(error::argument(format!("{tokens} tokens cannot be taken back: there are {written}")));
        };
        if tokens > 0 {
            self.at = self.before[left].clone();
            self.before.truncate(left);
        }
        Ok(())
    }

    /// Whether the text may end here.
    fn is_accepting(&self) -> bool {
        self.at.ended || self.at.cursor.is_accepting()
    }

    /// Whether the text has ended, or can only end here.
    fn is_finished(&self) -> bool {
        let mask = self.at.cursor.mask();
        self.at.ended || self.is_full() || (mask.accepts && mask.tokens.is_empty())
    }

    /// The forced next tokens, as the tokenizer splits their text; empty if there is a choice.
    fn forced(&self) -> Vec<TokenId> {
        if self.at.ended { Vec::new() } else { self.at.cursor.forced() }
    }

    /// Explains why a token is allowed next, or why not.
    fn explain(&self, token: Token) -> PyResult<String> {
        let Some(token) = token.0.filter(|&token| (token as usize) < self.vocabulary) else {
            return Err(error::argument(format!("there is no such token among {}", self.vocabulary)));
        };
        Ok(self.at.cursor.explain(token).to_string())
    }

    /// The number of accepted tokens.
    fn __len__(&self) -> usize {
        self.before.len()
    }

    /// A fork of the text.
    fn __copy__(&self) -> Self {
        let (constraint, at, before) = (self.constraint.clone(), self.at.clone(), self.before.clone());
        Self { constraint, vocabulary: self.vocabulary, within: self.within, at, before, scratch: Mutex::default() }
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }

    fn __repr__(&self) -> String {
        let state = if self.is_finished() {
            "finished"
        } else if self.is_accepting() {
            "may end"
        } else {
            "continues"
        };
        format!("Matcher({} tokens, {state})", self.before.len())
    }
}
