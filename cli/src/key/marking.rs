//! The marking of native keys, from options of several commands.

use std::fmt::Display;

use clap::ValueEnum;
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
    Ok(Marking {
        gamma: Gamma::new(gamma).map_err(usage)?,
        context: Context::new(function.into(), width).map_err(usage)?,
        strength: strength(delta, hard)?,
    })
}

pub(super) fn strength(delta: f64, hard: bool) -> Result<Strength, Failure> {
    if hard { Ok(Strength::Hard) } else { Strength::soft(delta).map_err(usage) }
}

/// The failure of an option with a value that is refused.
pub(super) fn usage(error: impl Display) -> Failure {
    Failure::Usage(error.to_string())
}
