//! Steps on a row as data, for rows that are elsewhere.
//!
//! Most transforms apply a number to a set of tokens. A row that records ([`Row::record`](crate::Row::record)) stores
//! such steps instead of applying them, so a GPU can apply them where its row is.

use crate::{TokenId, TokenSet};

/// A step on a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Forbids tokens outside the set, which has a bit for each token.
    Restrict(Words),
    /// Adds a number to the tokens of the set, which has a bit for each token.
    Bias(Words, f32),
    /// Divides all logits by a number.
    Divide(f32),
    /// Divides the logits of some tokens by a number if they are positive, and multiplies them otherwise: a word for
    /// each token, with its id in the upper half. The ids are strictly ascending.
    Repetition(Words, f32),
    /// Subtracts a number from each of some tokens: a word for each, with its id in the upper half and the bits of the
    /// number, an `f32`, in the lower. The ids are strictly ascending.
    Subtract(Words),
    /// As [`TopK`](crate::warp::TopK).
    TopK(usize),
    /// As [`TopP`](crate::warp::TopP).
    TopP(f64),
    /// As [`MinP`](crate::warp::MinP).
    MinP(f64),
    /// As [`EpsilonCutoff`](crate::warp::EpsilonCutoff).
    EpsilonCutoff(f64),
    /// As [`EtaCutoff`](crate::warp::EtaCutoff).
    EtaCutoff(f64),
    /// As [`TopA`](crate::warp::TopA).
    TopA(f64),
    /// As [`Xtc`](crate::warp::Xtc) where it excludes tokens, with its threshold.
    Xtc(f64),
    /// As [`TypicalP`](crate::warp::TypicalP).
    TypicalP(f64),
}

impl Step {
    /// Whether the tokens that it forbids depend on the other logits.
    pub fn is_cut(&self) -> bool {
        match self {
            Self::Restrict(_) | Self::Bias(..) | Self::Divide(_) | Self::Repetition(..) | Self::Subtract(_) => false,
            Self::TopK(_) | Self::TopP(_) | Self::MinP(_) | Self::EpsilonCutoff(_) | Self::EtaCutoff(_) => true,
            Self::TopA(_) | Self::Xtc(_) | Self::TypicalP(_) => true,
        }
    }
}

/// The words of [`Steps::words`] that belong to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The index of the first word.
    pub from: usize,
    /// The number of words.
    pub count: usize,
}

/// Steps in order, with their words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    steps: Vec<Step>,
    words: Vec<u64>,
}

impl Steps {
    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The words that the sets of the steps consist of.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Removes all steps and their words, but keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.words.clear();
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// The words of one of the steps.
    pub(crate) fn words_of(&self, set: Words) -> &[u64] {
        &self.words[set.from..set.from + set.count]
    }

    fn add_words(&mut self, words: impl IntoIterator<Item = u64>) -> Words {
        let from = self.words.len();
        self.words.extend(words);
        Words { from, count: self.words.len() - from }
    }

    pub(crate) fn restrict(&mut self, set: &TokenSet) {
        let set = self.add_words(set.words().iter().copied());
        self.steps.push(Step::Restrict(set));
    }

    pub(crate) fn bias(&mut self, set: &TokenSet, delta: f32) {
        let set = self.add_words(set.words().iter().copied());
        self.steps.push(Step::Bias(set, delta));
    }

    /// Ids must be strictly ascending.
    pub(crate) fn repetition(&mut self, tokens: impl Iterator<Item = TokenId>, by: f32) {
        let set = self.add_words(tokens.map(|token| u64::from(token) << 32));
        self.steps.push(Step::Repetition(set, by));
    }

    /// Ids must be strictly ascending.
    pub(crate) fn subtract(&mut self, each: impl Iterator<Item = (TokenId, f32)>) {
        let set = self.add_words(each.map(|(token, number)| u64::from(token) << 32 | u64::from(number.to_bits())));
        self.steps.push(Step::Subtract(set));
    }
}
