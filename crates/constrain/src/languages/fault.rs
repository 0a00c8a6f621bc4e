//! The reason why a grammar in a grammar language cannot be used.

use crate::automata::budget::Budget;

/// A grammar that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGrammar {
    /// It is not well-formed.
    #[error("the grammar is wrong at line {line}, column {column}: {cause}: {cure}")]
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// The cause.
        cause: String,
        /// The remedy.
        cure: String,
    },
    /// It has a construct that is not supported.
    #[error("the grammar has {construct} at line {line}, column {column}, which is not supported: {cure}")]
    Unsupported {
        /// The line, counted from 1.
        line: usize,
        /// The character in the line, counted from 1.
        column: usize,
        /// The construct.
        construct: String,
        /// The reason, or what to write instead.
        cure: String,
    },
    /// No text obeys it.
    #[error(
        "no text obeys the grammar: every rule needs an alternative that ends, and in Lark a terminal takes all it can"
    )]
    Empty,
    /// It takes too much work or memory to build.
    #[error("the grammar is too large: use fewer or shorter rules, and repeat less")]
    TooLarge,
    /// The caller has cancelled the work.
    #[error("the grammar was cancelled, since its result is not needed any more")]
    Cancelled,
}

pub(super) type Result<T, E = BadGrammar> = std::result::Result<T, E>;

/// A position in the text of a grammar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Position {
    /// The error that the grammar is not well-formed here.
    pub(super) fn wrong<T>(self, cause: impl Into<String>, cure: impl Into<String>) -> Result<T> {
        let Self { line, column } = self;
        Err(BadGrammar::Syntax { line, column, cause: cause.into(), cure: cure.into() })
    }

    /// The error that a construct is not supported.
    pub(super) fn unsupported<T>(self, construct: impl Into<String>, cure: impl Into<String>) -> Result<T> {
        let Self { line, column } = self;
        Err(BadGrammar::Unsupported { line, column, construct: construct.into(), cure: cure.into() })
    }
}

/// The error of what took more than a budget.
pub(super) fn over(budget: &Budget) -> BadGrammar {
    if budget.is_cancelled() { BadGrammar::Cancelled } else { BadGrammar::TooLarge }
}

/// Takes units of a budget.
pub(super) fn take(budget: &Budget, units: u64) -> Result<()> {
    if budget.take(units) { Ok(()) } else { Err(over(budget)) }
}
