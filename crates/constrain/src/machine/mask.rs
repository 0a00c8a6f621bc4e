//! What a text may do next, and why that may be unknown.

use std::fmt;
use std::sync::Arc;

use verdigris_logits::TokenSet;

/// What a text may do at a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The tokens that it can go on with.
    pub tokens: Arc<TokenSet>,
    /// Whether the text may end here.
    pub accepts: bool,
}

/// Why it is not known what may come next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverBudget {
    /// It takes too much work to find out: more than some tens of milliseconds for one mask, or 64 MiB of states.
    Work {
        /// Where in the schema that is; empty for a regular expression.
        path: String,
    },
    /// The texts that are being written have come to too many states, or to states that hold too much.
    Memory {
        /// Where in the schema the text stands; empty for a regular expression.
        path: String,
        /// How many bytes states may take.
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
