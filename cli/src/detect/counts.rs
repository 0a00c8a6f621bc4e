//! How many texts were judged, by outcome.

use std::process::ExitCode;

use verdigris::Outcome;

/// The numbers of texts of each outcome, and of those that could not be judged.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) marked: u64,
    pub(super) not: u64,
    pub(super) short: u64,
    pub(super) forged: u64,
    pub(super) faulty: u64,
    /// Texts that left too little choice. Only a single text is weighed, so none of many is known to be one.
    not_enough: u64,
}

impl Counts {
    /// Adds a text.
    pub(super) fn add(&mut self, outcome: Option<Outcome>) {
        *match outcome {
            Some(Outcome::Marked | Outcome::MarkedInPart) => &mut self.marked,
            Some(Outcome::NotMarked) => &mut self.not,
            Some(Outcome::NotEnough) => &mut self.not_enough,
            Some(Outcome::TooShort) => &mut self.short,
            Some(Outcome::Forged) => &mut self.forged,
            None => &mut self.faulty,
        } += 1;
    }

    pub(super) fn texts(&self) -> u64 {
        self.marked + self.not + self.short + self.forged + self.faulty + self.not_enough
    }

    /// The exit status: that of the strongest evidence, or 2 for no verdict.
    pub(super) fn status(&self) -> ExitCode {
        ExitCode::from(match (self.marked, self.not + self.forged) {
            (1.., _) => 0,
            (0, 1..) => 1,
            (0, 0) => 2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_evidence_decides() {
        use Outcome::{Forged, Marked, MarkedInPart, NotEnough, NotMarked, TooShort};
        for (outcomes, status) in [
            (&[Some(NotMarked), None, Some(MarkedInPart)][..], 0),
            (&[Some(Marked)], 0),
            (&[Some(TooShort), Some(Forged)], 1),
            (&[Some(NotMarked)], 1),
            (&[Some(NotEnough), Some(TooShort), None], 2),
            (&[], 2),
        ] {
            let mut counts = Counts::default();
            outcomes.iter().for_each(|&outcome| counts.add(outcome));
            assert_eq!((counts.status(), counts.texts()), (ExitCode::from(status), outcomes.len() as u64));
        }
    }
}
