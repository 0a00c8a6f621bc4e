//! The ranges of tokens in a text.

use std::ops::Range;
use std::str::CharIndices;

/// The ranges of tokens that cover a text one after the other. A token that has a part of a character covers all of it.
pub(super) struct Ranges<'t> {
    rest: CharIndices<'t>,
    /// The length of a space in the names of tokens.
    space: usize,
    /// The last character that was covered, and its end in the names of tokens.
    character: Range<usize>,
    end: usize,
    /// The end of the last token, in the names of tokens.
    covered: usize,
}

impl<'t> Ranges<'t> {
    /// Begins at the beginning of a text, before which a space of `lead` bytes may have been added. It has the range of
    /// the first character.
    pub(super) fn new(text: &'t str, lead: usize, space: usize) -> Self {
        let first = if lead > 0 { text.chars().next().map_or(0, char::len_utf8) } else { 0 };
        Self { rest: text.char_indices(), space, character: 0..first, end: lead, covered: 0 }
    }

    /// The range of the next token, which has the given length in bytes.
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
        self.end += if c == ' ' { self.space } else { c.len_utf8() };
        true
    }
}
