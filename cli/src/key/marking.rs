//! The marking of native keys, from options of several commands.

use std::fmt::Display;

use verdigris::watermark::{Context, ContextFunction};
use verdigris::{Gamma, GreenLists, Marking, Strength};

use crate::choice::Choice;
use crate::error::Failure;

/// The functions by which the tokens before a position choose its green list.
pub(crate) const FUNCTIONS: &[Choice<ContextFunction>] = &[
    ("all", ContextFunction::All, "All tokens together"),
    ("min", ContextFunction::Min, "The smallest of their hashes: edits hurt least"),
    ("self-salted", ContextFunction::SelfSalted, "The candidate takes part too: hardest to learn"),
];

/// The marking that options describe; the error is one line.
pub(crate) fn marking(
    gamma: f64,
    delta: f64,
    hard: bool,
    function: ContextFunction,
    width: usize,
) -> Result<Marking, Failure> {
    Ok(Marking::Lists(GreenLists {
        gamma: Gamma::new(gamma).map_err(usage)?,
        context: Context::new(function, width).map_err(usage)?,
        strength: strength(delta, hard)?,
    }))
}

pub(super) fn strength(delta: f64, hard: bool) -> Result<Strength, Failure> {
    if hard { Ok(Strength::Hard) } else { Strength::soft(delta).map_err(usage) }
}

/// The failure of an option with a value that is refused.
pub(super) fn usage(error: impl Display) -> Failure {
    Failure::Usage(error.to_string())
}
