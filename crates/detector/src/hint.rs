//! What else to try, where a text was found not to be marked.

use verdigris_watermark::normalize::letter_case::{self, LetterCase};

use crate::judge::Judgement;
use crate::verdict::Outcome;

/// Texts of so many tokens may have a marked passage that the whole hides.
const LONG: u64 = 400;

/// What else to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The letters of the text are not those of sentences. Sentence case is tried, and names have other tokens there.
    ChangedCase(LetterCase),
    /// A text of this length may have a marked passage, and none was looked for.
    Passages,
}

impl Hint {
    /// What to try with the text of a judgement; nothing where a mark was found, or the text is too short.
    pub fn of(text: &str, judgement: &Judgement<'_>) -> Option<Self> {
        if judgement.outcome() != Outcome::NotMarked {
            return None;
        }
        let passages = (!judgement.searched && Self::may_hide_a_passage(judgement)).then_some(Self::Passages);
        letter_case::changed(text).map(Self::ChangedCase).or(passages)
    }

    /// The hint as a sentence without its full stop. `passages` says how the front end searches for passages.
    pub fn advice(self, passages: &str) -> String {
        match self {
            Self::ChangedCase(case) => {
                let case = match case {
                    LetterCase::Capitals => "in capitals",
                    LetterCase::Title => "in Title Case",
                };
                format!(
                    "the text is {case}, which makes other tokens of its words: with its letters as they were \
                     written, more of a mark is found"
                )
            }
            Self::Passages => passages.to_owned(),
        }
    }

    /// Whether a part of a text could be marked unseen.
    pub fn may_hide_a_passage(judgement: &Judgement<'_>) -> bool {
        judgement.evidence.tokens >= LONG
    }
}
