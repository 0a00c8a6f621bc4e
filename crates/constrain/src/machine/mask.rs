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

/// What may come next takes too much work to find out: more than some tens of milliseconds for one mask, or 64 MiB of
/// states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuchWork {
    /// Where in the schema that is; empty for a regular expression.
    pub path: String,
}

impl fmt::Display for TooMuchWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what may come next takes too much work to find out")?;
        match &*self.path {
            "" => f.write_str(": make the regular expression simpler, with fewer repetitions inside each other"),
            path => write!(f, " at {path}: make the pattern there simpler"),
        }
    }
}

impl std::error::Error for TooMuchWork {}
