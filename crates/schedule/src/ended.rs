//! The end of a text.

use verdigris_decoding::{Acceptance, Stop};

/// The end of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The reason that it ended; `None` if it was [cancelled](crate::Schedule::cancel).
    pub stop: Option<Stop>,
    /// The acceptance of drafts; `None` if nothing was drafted.
    pub acceptance: Option<Acceptance>,
    /// The name of the rule that judged drafts, if it changed the distribution of the text.
    pub lossy: Option<&'static str>,
}
