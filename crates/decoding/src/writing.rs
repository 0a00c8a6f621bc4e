//! A text that is being written, however it is done.

use verdigris_logits::TokenId;

use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::limits::Stop;
use crate::plain::Plain;
use crate::speculative::{Acceptance, Speculative};
use crate::target::DecodeError;

/// Hands over the tokens of a text, one after the other, and then says what ended it.
pub trait Writing: Iterator<Item = Result<TokenId, DecodeError>> {
    /// What ended the text; `None` while it goes on.
    fn stop(&self) -> Option<Stop>;

    /// How drafting went so far; `None` where nothing is drafted.
    fn acceptance(&self) -> Option<Acceptance>;

    /// How the token came that was handed over last.
    fn provenance(&self) -> Provenance;
}

/// How a token came to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provenance {
    /// By a call of the model.
    #[default]
    Computed,
    /// By a call of the model, in the place of a draft that did not stand.
    Corrected,
    /// As a draft that stood.
    Drafted {
        /// In which of its drafter's [ways](crate::drafter::Drafter::ways) it was drafted.
        way: u8,
    },
    /// Without a call: a step allowed nothing else.
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
