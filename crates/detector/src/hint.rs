//! Suggestions for texts in which no mark was found.

use verdigris_watermark::normalize::letter_case::{self, LetterCase};

use crate::judge::Judgement;
use crate::verdict::Outcome;

/// From this number of tokens, a text may have a marked passage that its evidence as a whole does not show.
const LONG: u64 = 400;

/// A suggestion for a text in which no mark was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The letter case is not that of sentences. Sentence case was tried, but names have other tokens there.
    ChangedCase(LetterCase),
    /// A text of this length may have a marked passage, and passages were not searched for.
    Passages,
}

impl Hint {
    /// Returns the suggestion for the text of a judgement; `None` if a mark was found or the text is too short.
    pub fn of(text: &str, judgement: &Judgement<'_>) -> Option<Self> {
        if judgement.outcome() != Outcome::NotMarked {
            return None;
        }
        let passages = (!judgement.searched && Self::may_hide_a_passage(judgement)).then_some(Self::Passages);
        letter_case::changed(text).map(Self::ChangedCase).or(passages)
    }

    /// Returns the hint as a sentence without its full stop. `passages` says how the front end searches for passages.
    pub fn advice(self, passages: &str) -> String {
        match self {
            Self::ChangedCase(case) => {
                let case = match case {
                    LetterCase::Capitals => "in capitals",
                    LetterCase::Title => "in Title Case",
                };
                format!(
                    "the text is {case}, which changes its tokens: in its original letter case, more of a mark is \
                     found"
                )
            }
            Self::Passages => passages.to_owned(),
        }
    }

    /// Whether the text is long enough to have a marked passage that its evidence as a whole does not show.
    pub fn may_hide_a_passage(judgement: &Judgement<'_>) -> bool {
        judgement.evidence.tokens >= LONG
    }
}
