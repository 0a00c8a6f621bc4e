//! The arguments of a call, read in pieces and written as JSON.

use std::collections::HashMap;

use super::notation::{JSON, Kinds, Nested, Notation, Strings};
use super::value::{ValueNotation, ValueReader, find, is_number, json_word, plain, quoted, raw};

/// The types of the parameters of a tool.
pub(super) type ParameterKinds = HashMap<String, Kinds>;

/// Reads the arguments of one call.
#[derive(Debug, Default)]
pub(super) struct ArgumentsReader {
    state: ArgumentsState,
    value: ValueReader,
    /// Whether a parameter has been read.
    has_some: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum ArgumentsState {
    /// At a parameter, or at the end.
    #[default]
    Next,
    Name,
    /// At a value of these types.
    Begin(Kinds),
    Value,
    /// In a string that ends with the parameter.
    Text,
    /// After a value.
    After,
}

/// How far a text has got with a sign.
enum Sign {
    Whole,
    Begun,
    Other,
}

/// Compares the beginning of a text with a sign.
fn sign(text: &[u8], sign: &[u8]) -> Sign {
    match (text.starts_with(sign), sign.starts_with(text)) {
        (true, _) => Sign::Whole,
        (false, true) => Sign::Begun,
        (false, false) => Sign::Other,
    }
}

impl ArgumentsReader {
    /// Reads what is certain; returns the number of bytes that were read, and whether the arguments are complete.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        notation: Option<&Notation<Vec<u8>>>,
        kinds: Option<&ParameterKinds>,
        out: &mut Vec<u8>,
    ) -> (usize, bool) {
        let Some(notation) = notation else {
            return self.value.read(text, ValueNotation { words: JSON, strings: &Strings::Quoted, objects: None }, out);
        };
        let mut at = 0;
        loop {
            match self.step(&text[at..], notation, kinds, out) {
                Some((length, is_whole)) => {
                    at += length;
                    if is_whole {
                        return (at, true);
                    }
                }
                None => return (at, false),
            }
        }
    }

    /// Reads one part; `None` if more must come first. A text that disobeys the grammar is not read further.
    fn step(
        &mut self,
        text: &[u8],
        notation: &Notation<Vec<u8>>,
        kinds: Option<&ParameterKinds>,
        out: &mut Vec<u8>,
    ) -> Option<(usize, bool)> {
        let signs = &notation.parameters;
        let length = match self.state {
            ArgumentsState::Next => {
                let between = if self.has_some { &signs.between[..] } else { b"" };
                let next = [between, &signs.before_name].concat();
                match (sign(text, &signs.close), sign(text, &next)) {
                    (Sign::Whole, _) => {
                        out.extend_from_slice(if self.has_some { b"}" } else { b"{}" });
                        return Some((signs.close.len(), true));
                    }
                    (Sign::Other, Sign::Whole) => self.state = ArgumentsState::Name,
                    _ => return None,
                }
                next.len()
            }
            ArgumentsState::Name => {
                let end = find(text, &signs.after_name)?;
                let name = plain(&text[..end]);
                out.extend_from_slice(if self.has_some { b", " } else { b"{" });
                out.extend(quoted(name.as_bytes()));
                out.extend_from_slice(b": ");
                let any = Kinds::NULL.or(Kinds::BOOLEAN).or(Kinds::NUMBER).or(Kinds::STRING);
                let any = any.or(Kinds::ARRAY).or(Kinds::OBJECT);
                self.has_some = true;
                self.state = ArgumentsState::Begin(kinds.and_then(|kinds| kinds.get(&name)).copied().unwrap_or(any));
                end + signs.after_name.len()
            }
            ArgumentsState::Begin(kinds) => return self.begin(kinds, text, notation, out),
            ArgumentsState::Value => {
                let (length, is_whole) = self.value.read(text, value_notation(notation), out);
                if is_whole {
                    (self.state, self.value) = (ArgumentsState::After, ValueReader::default());
                }
                return (is_whole || length > 0).then_some((length, false));
            }
            ArgumentsState::Text => {
                let (length, is_whole) = raw(text, &signs.after_value, out);
                if is_whole {
                    self.state = ArgumentsState::Next;
                }
                return (length > 0).then_some((length, false));
            }
            ArgumentsState::After => {
                let Sign::Whole = sign(text, &signs.after_value) else { return None };
                self.state = ArgumentsState::Next;
                signs.after_value.len()
            }
        };
        Some((length, false))
    }

    /// Begins a value, whose sign, first characters or whole text say its type.
    fn begin(
        &mut self,
        kinds: Kinds,
        text: &[u8],
        notation: &Notation<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Option<(usize, bool)> {
        let before_string = match &notation.strings {
            Strings::Quoted => None,
            Strings::Raw { open, .. } => Some(open),
        };
        if let Some(open) = before_string.filter(|_| !notation.before_others.is_empty()) {
            return match (sign(text, open), sign(text, &notation.before_others)) {
                (Sign::Whole, _) => {
                    out.push(b'"');
                    self.state = ArgumentsState::Text;
                    Some((open.len(), false))
                }
                (_, Sign::Whole) => {
                    self.state = ArgumentsState::Value;
                    Some((notation.before_others.len(), false))
                }
                _ => None,
            };
        }
        let is_marked = before_string.is_none_or(|open| !open.is_empty());
        let is_nested = match text.first() {
            Some(b'{') => kinds.has(Kinds::OBJECT),
            Some(b'[') => kinds.has(Kinds::ARRAY),
            _ => false,
        };
        if is_marked || !kinds.has(Kinds::STRING) || is_nested {
            self.state = ArgumentsState::Value;
            return Some((0, false));
        }
        if !kinds.has_others() {
            out.push(b'"');
            self.state = ArgumentsState::Text;
            return Some((0, false));
        }
        let length = find(text, &notation.parameters.after_value)?;
        let value = &text[..length];
        let word = json_word(value, notation.words);
        let of_word = |word: &[u8]| if word == b"null" { Kinds::NULL } else { Kinds::BOOLEAN };
        match word.filter(|word| kinds.has(of_word(word))) {
            Some(word) => out.extend_from_slice(word),
            None if kinds.has(Kinds::NUMBER) && is_number(value) => out.extend_from_slice(value),
            None => out.extend(quoted(value)),
        }
        self.state = ArgumentsState::After;
        Some((length, false))
    }
}

/// The notation of the values of parameters, except for strings without marks.
fn value_notation(notation: &Notation<Vec<u8>>) -> ValueNotation<'_> {
    let (strings, objects) = match &notation.nested {
        Nested::Json => (&Strings::Quoted, None),
        Nested::Same(objects) => (&notation.strings, objects.as_ref()),
    };
    ValueNotation { words: notation.words, strings, objects }
}
