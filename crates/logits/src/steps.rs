//! Steps on a row as data, for those who have the row elsewhere.
//!
//! What most transforms do is a set of tokens and a number. A [`Row`] that records ([`Row::record`])
//! keeps what is done to it as such steps instead of doing it, so a GPU can do it where its row is.

use crate::{Row, TokenId, TokenSet};

/// A step on a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Forbids what is not in the set: a bit for each token.
    Restrict(Set),
    /// Adds a number to the tokens of the set: a bit for each.
    Bias(Set, f32),
    /// Divides all by a number.
    Divide(f32),
    /// Divides what is positive by a number, and multiplies what is not, of some tokens: a word for each, with its id in the upper
    /// half. The ids are strictly ascending.
    Repetition(Set, f32),
    /// Takes a number from each of some tokens: a word for each, with its id in the upper half and the bits of the number, an
    /// `f32`, in the lower. The ids are strictly ascending.
    Subtract(Set),
    /// As [`TopK`](crate::warp::TopK).
    TopK(usize),
    /// As [`TopP`](crate::warp::TopP).
    TopP(f64),
    /// As [`MinP`](crate::warp::MinP).
    MinP(f64),
}

/// Which of the words of [`Steps::words`] belong to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
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

    fn add_words(&mut self, words: impl IntoIterator<Item = u64>) -> Set {
        let from = self.words.len();
        self.words.extend(words);
        Set { from, count: self.words.len() - from }
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

    /// Does the steps to a row that is here.
    pub fn apply(&self, row: &mut Row) {
        let words = |set: Set| &self.words[set.from..set.from + set.count];
        let token_set = |set: Set| {
            let mut tokens = TokenSet::new(64 * set.count);
            tokens.fill_words(|all| all.copy_from_slice(words(set)));
            tokens
        };
        for step in &self.steps {
            match *step {
                Step::Restrict(set) => row.restrict(&token_set(set)),
                Step::Bias(set, delta) => row.bias(&token_set(set), delta),
                Step::Divide(by) => row.divide(by),
                Step::Repetition(set, by) => row.repetition(words(set).iter().map(|word| (word >> 32) as TokenId), by),
                Step::Subtract(set) => {
                    let each = |word: &u64| ((word >> 32) as TokenId, f32::from_bits(*word as u32));
                    row.subtract(words(set).iter().map(each));
                }
                Step::TopK(k) => row.top_k(k),
                Step::TopP(p) => row.top_p(p),
                Step::MinP(p) => row.min_p(p),
            }
        }
    }
}
