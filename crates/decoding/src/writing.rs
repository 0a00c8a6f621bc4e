//! The common interface of all ways of writing a text.

use verdigris_logits::TokenId;

use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::limits::Stop;
use crate::plain::Plain;
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

/// The origin of a written token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provenance {
    /// Computed by a call of the model.
    #[default]
    Computed,
    /// Computed by a call of the model, instead of a draft that was rejected.
    Corrected,
    /// An accepted draft.
    Drafted {
        /// The drafter's [way](crate::drafter::Drafter::ways) of drafting that produced it.
        way: u8,
    },
    /// Decided without a call: a transform allowed no other token.
    Decided,
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
