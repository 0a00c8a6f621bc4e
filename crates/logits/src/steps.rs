//! Steps on a row as data, for those who have the row elsewhere.
//!
//! What most transforms do is a set of tokens and a number. A row that records ([`Row::record`](crate::Row::record))
//! keeps what is done to it as such steps instead of doing it, so a GPU can do it where its row is.

use crate::{TokenId, TokenSet};

/// A step on a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Forbids what is not in the set: a bit for each token.
    Restrict(Words),
    /// Adds a number to the tokens of the set: a bit for each.
    Bias(Words, f32),
    /// Divides all by a number.
    Divide(f32),
    /// Divides what is positive by a number, and multiplies what is not, of some tokens: a word for each, with its id
    /// in the upper half. The ids are strictly ascending.
    Repetition(Words, f32),
    /// Takes a number from each of some tokens: a word for each, with its id in the upper half and the bits of the
    /// number, an `f32`, in the lower. The ids are strictly ascending.
    Subtract(Words),
    /// As [`TopK`](crate::warp::TopK).
    TopK(usize),
    /// As [`TopP`](crate::warp::TopP).
    TopP(f64),
    /// As [`MinP`](crate::warp::MinP).
    MinP(f64),
}

/// Which words of [`Steps::words`] belong to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The index of the first.
    pub from: usize,
    /// How many they are.
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

    /// The words that their sets are made of.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Forgets all steps and their words, and keeps the memory.
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
