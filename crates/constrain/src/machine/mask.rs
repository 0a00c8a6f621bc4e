//! Masks, and the reasons why one may be unknown.

use std::fmt;
use std::sync::Arc;

use verdigris_logits::TokenSet;

/// The continuations of a text that are allowed in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The tokens that may come next.
    pub tokens: Arc<TokenSet>,
    /// Whether the text may end here.
    pub accepts: bool,
}

/// The reason why it is not known what may come next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverBudget {
    /// Finding out takes too much work: more than some tens of milliseconds for one mask, or 64 MiB of states.
    Work {
        /// The location in the schema; empty for a regular expression.
        path: String,
    },
    /// The texts that are being written have reached too many states, or states that take too much memory.
    Memory {
        /// The location of the text in the schema; empty for a regular expression.
        path: String,
        /// The maximum number of bytes of states.
        most: usize,
    },
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work { path } if path.is_empty() => f.write_str(
                "what may come next takes too much work to find out: make the regular expression simpler, with fewer \
                 repetitions inside each other",
            ),
            Self::Work { path } => write!(
                f,
                "what may come next takes too much work to find out at {path}: simplify the pattern or the alternatives there"
            ),
            Self::Memory { path, most } => {
                write!(f, "what was written takes more than {} MiB to keep in mind", most >> 20)?;
                match &**path {
                    "" => f.write_str(": write a shorter text"),
                    path => write!(f, " at {path}: write a shorter text, or give its arrays a maxItems"),
                }
            }
        }
    }
}

impl std::error::Error for OverBudget {}
