//! Reads the text of a grammar character by character.

use super::fault::{BadGrammar, Position, Result};

/// The maximum length of a grammar in bytes.
const MAX_TEXT: usize = 4 << 20;

/// The text of a grammar from some position on.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'t> {
    rest: &'t str,
    at: Position,
    /// Whether only white space comes before on the line.
    begins_line: bool,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self> {
        if text.len() > MAX_TEXT {
            return Err(BadGrammar::TooLarge);
        }
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(Self { rest, at: Position { line: 1, column: 1 }, begins_line: true })
    }

    pub(super) fn position(&self) -> Position {
        self.at
    }

    /// Whether only white space comes before on the line.
    pub(super) fn begins_line(&self) -> bool {
        self.begins_line
    }

    /// The text that is left.
    pub(super) fn rest(&self) -> &'t str {
        self.rest
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        self.begins_line = character == '\n' || self.begins_line && character.is_whitespace();
        match character {
            '\n' => self.at = Position { line: self.at.line + 1, column: 1 },
            _ => self.at.column += 1,
        }
        Some(character)
    }

    /// Skips the given number of bytes, which must be whole characters.
    pub(super) fn skip(&mut self, bytes: usize) {
        let left = self.rest.len() - bytes;
        while self.rest.len() > left {
            self.next();
        }
    }

    /// Skips a text if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let comes = self.rest.starts_with(text);
        if comes {
            self.skip(text.len());
        }
        comes
    }

    /// Takes characters as long as they fit.
    pub(super) fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'t str {
        let length = self.rest.find(|character| !fits(character)).unwrap_or(self.rest.len());
        let taken = &self.rest[..length];
        self.skip(length);
        taken
    }

    /// Takes a decimal number, if one comes next.
    pub(super) fn number(&mut self) -> Result<Option<u32>> {
        let at = self.at;
        let digits = self.take_while(|character| character.is_ascii_digit());
        match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) if digits.is_empty() => Ok(None),
            Err(_) => at.wrong(format!("the number {} is too large", shown(digits)), "write a smaller one"),
        }
    }

    /// Takes exactly `digits` hexadecimal digits as a character.
    pub(super) fn hexadecimal(&mut self, digits: usize) -> Result<char> {
        let at = self.at;
        let number = self.rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(number) = number.and_then(|text| u32::from_str_radix(text, 16).ok()) else {
            return at.wrong("an escape is incomplete", format!("write {digits} hexadecimal digits"));
        };
        self.skip(digits);
        match char::from_u32(number) {
            Some(character) => Ok(character),
            None => at.wrong(
                format!("{number:#x} is not a character"),
                "write a code point up to 10ffff that is not a surrogate",
            ),
        }
    }

    /// The next character in words, for errors.
    pub(super) fn found(&self) -> String {
        match self.peek() {
            None => "the end of the grammar".into(),
            Some('\n') => "the end of the line".into(),
            Some(character) => format!("{character:?}"),
        }
    }
}

/// A part of a grammar in an error: at most 40 characters.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(40) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// The remedy for operators that have another one, or none, before them.
pub(super) const REPEAT_WHAT: &str = "write what is repeated before it, and parentheses around it if it is repeated";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_lines_and_columns() {
        let mut scanner = Scanner::new("\u{feff}éa\nb").unwrap();
        assert_eq!(scanner.take_while(|character| character != 'b'), "éa\n");
        assert_eq!(scanner.position(), Position { line: 2, column: 1 });
        assert_eq!((scanner.next(), scanner.found()), (Some('b'), "the end of the grammar".into()));
        assert_eq!(Scanner::new(&" ".repeat(MAX_TEXT + 1)).err(), Some(BadGrammar::TooLarge));
    }

    #[test]
    fn numbers_and_escapes() {
        let number = |text| Scanner::new(text).unwrap().number();
        assert_eq!((number("12a"), number("a")), (Ok(Some(12)), Ok(None)));
        assert!(number("4294967296").is_err());
        let escape = |text, digits| Scanner::new(text).unwrap().hexadecimal(digits);
        assert_eq!(escape("e9", 2), Ok('é'));
        for (text, digits) in [("e", 2), ("+9", 2), ("d800", 4), ("éé", 2)] {
            assert!(escape(text, digits).is_err(), "{text}");
        }
    }
}
