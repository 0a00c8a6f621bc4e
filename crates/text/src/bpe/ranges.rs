//! The ranges of tokens in a word.

use std::ops::Range;
use std::str::CharIndices;

/// The ranges of tokens that cover a word one after the other. A token that has a part of a character covers all of it.
pub(super) struct Ranges<'t, L> {
    rest: CharIndices<'t>,
    /// Returns the length of a character in the names of tokens.
    length: L,
    /// The last character that was covered, and its end in the names of tokens.
    character: Range<usize>,
    end: usize,
    /// The end of the last token, in the names of tokens.
    covered: usize,
}

impl<'t, L: Fn(char) -> usize> Ranges<'t, L> {
    /// Begins at the beginning of a word. A prefix whose name has `lead` bytes has the range `first`.
    pub(super) fn new(word: &'t str, lead: usize, first: Range<usize>, length: L) -> Self {
        Self { rest: word.char_indices(), length, character: first, end: lead, covered: 0 }
    }

    /// The range of the next token, whose name has the given length in bytes.
    pub(super) fn next(&mut self, length: usize) -> Range<usize> {
        while self.end <= self.covered && self.step() {}
        let start = self.character.start;
        self.covered += length;
        while self.end < self.covered && self.step() {}
        start..self.character.end
    }

    /// Covers one more character, if there is one.
    fn step(&mut self) -> bool {
        let Some((at, c)) = self.rest.next() else { return false };
        self.character = at..at + c.len_utf8();
        self.end += (self.length)(c);
        true
    }
}
