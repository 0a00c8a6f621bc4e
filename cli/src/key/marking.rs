//! The marking of native keys, from options of several commands.

use clap::ValueEnum;
use verdigris::watermark::strength::BadDelta;
use verdigris::watermark::{Context, ContextFunction};
use verdigris::{Gamma, Marking, Strength};

use crate::error::Failure;

/// The function by which the tokens before a position choose its green list.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Function {
    /// All tokens together
    All,
    /// The smallest of their hashes: edits hurt least
    Min,
    /// The candidate takes part too: hardest to learn
    SelfSalted,
}

impl From<Function> for ContextFunction {
    fn from(function: Function) -> Self {
        match function {
            Function::All => Self::All,
            Function::Min => Self::Min,
            Function::SelfSalted => Self::SelfSalted,
        }
    }
}

/// The marking that options describe; the error is one line.
pub(crate) fn marking(
    gamma: f64,
    delta: f64,
    hard: bool,
    function: Function,
    width: usize,
) -> Result<Marking, Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::Usage(error.to_string());
    Ok(Marking {
        gamma: Gamma::new(gamma).map_err(|error| usage(&error))?,
        context: Context::new(function.into(), width).map_err(|error| usage(&error))?,
        strength: strength(delta, hard)?,
    })
}

pub(super) fn strength(delta: f64, hard: bool) -> Result<Strength, Failure> {
    let usage = |error: BadDelta| Failure::Usage(error.to_string());
    if hard { Ok(Strength::Hard) } else { Strength::soft(delta).map_err(usage) }
}
