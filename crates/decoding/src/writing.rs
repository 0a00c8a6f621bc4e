//! The common interface of all ways of writing a text.

use verdigris_logits::TokenId;

use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::limits::Stop;
use crate::plain::Plain;
pub use crate::provenance::Provenance;
use crate::speculative::{Acceptance, Speculative};
use crate::target::DecodeError;

/// Returns the tokens of a text one after the other, and then the reason that it ended.
pub trait Writing: Iterator<Item = Result<TokenId, DecodeError>> {
    /// The reason that the text ended, or `None` while it continues.
    fn stop(&self) -> Option<Stop>;

    /// The acceptance of drafts so far, or `None` if nothing is drafted.
    fn acceptance(&self) -> Option<Acceptance>;

    /// The provenance of the token returned last.
    fn provenance(&self) -> Provenance;
}

impl Writing for Plain {
    fn stop(&self) -> Option<Stop> {
        Plain::stop(self)
    }

    fn acceptance(&self) -> Option<Acceptance> {
        None
    }

    fn provenance(&self) -> Provenance {
        Plain::provenance(self)
    }
}

impl<D: Drafter, C: Chance> Writing for Speculative<D, C> {
    fn stop(&self) -> Option<Stop> {
        Speculative::stop(self)
    }

    fn acceptance(&self) -> Option<Acceptance> {
        Some(Speculative::acceptance(self))
    }

    fn provenance(&self) -> Provenance {
        Speculative::provenance(self)
    }
}
