//! Values in a notation, read in pieces and written as JSON.

use super::notation::{Signs, Strings, Words};
use crate::vocabulary::Vocabulary;

/// The notation of a value and of the values in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueNotation<'n> {
    pub(super) words: Words,
    pub(super) strings: &'n Strings<Vec<u8>>,
    /// The signs of objects; `None` for those of JSON.
    pub(super) objects: Option<&'n Signs<Vec<u8>>>,
}

/// Reads one value.
#[derive(Debug, Default)]
pub(super) struct ValueReader {
    state: ValueState,
    /// For each open object or array, whether it is an object.
    open: Vec<bool>,
}

#[derive(Debug, Default)]
enum ValueState {
    /// At a value, or at a sign between values.
    #[default]
    Value,
    /// At a name without quotation marks, or at the end of its object.
    Name,
    /// In a string in quotation marks; whether the next character is escaped.
    Quoted(bool),
    /// In a string without escapes.
    Raw,
    /// In a number or word, up to here.
    Scalar(Vec<u8>),
}

impl ValueReader {
    /// Reads what is certain; returns the number of bytes that were read, and whether the value is complete. A number
    /// or word ends before a byte that cannot be part of it.
    pub(super) fn read(&mut self, text: &[u8], notation: ValueNotation<'_>, out: &mut Vec<u8>) -> (usize, bool) {
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let rest = &text[at..];
            let mut is_whole = false;
            match &mut self.state {
                ValueState::Value => match self.value(byte, rest, notation, out) {
                    Some((length, whole)) => (at, is_whole) = (at + length, whole),
                    None => break,
                },
                ValueState::Name if byte == b'}' => self.state = ValueState::Value,
                ValueState::Name => {
                    let after = notation.objects.map_or(&b""[..], |signs| &signs.after_name);
                    let Some(end) = find(rest, after) else { break };
                    out.extend(quoted(&rest[..end]));
                    out.push(b':');
                    at += end + after.len();
                    self.state = ValueState::Value;
                }
                ValueState::Quoted(is_escaped) => {
                    let ends = byte == b'"' && !*is_escaped;
                    *is_escaped = byte == b'\\' && !*is_escaped;
                    out.push(byte);
                    at += 1;
                    if ends {
                        is_whole = self.after_scalar();
                    }
                }
                ValueState::Raw => {
                    let close = if let Strings::Raw { close, .. } = notation.strings { &close[..] } else { b"\"" };
                    let (length, ends) = raw(rest, close, out);
                    at += length;
                    match ends {
                        true => is_whole = self.after_scalar(),
                        false => break,
                    }
                }
                ValueState::Scalar(scalar) if is_scalar(byte) => {
                    scalar.push(byte);
                    at += 1;
                }
                ValueState::Scalar(scalar) => {
                    out.extend(json_word(scalar, notation.words).unwrap_or(scalar));
                    is_whole = self.after_scalar();
                }
            }
            if is_whole {
                return (at, true);
            }
        }
        (at, false)
    }

    /// Reads a sign, or the beginning of a value; `None` if more must come first.
    fn value(
        &mut self,
        byte: u8,
        rest: &[u8],
        notation: ValueNotation<'_>,
        out: &mut Vec<u8>,
    ) -> Option<(usize, bool)> {
        if let Strings::Raw { open, .. } = notation.strings
            && !open.is_empty()
            && open[0] == byte
        {
            if rest.starts_with(open) {
                out.push(b'"');
                self.state = ValueState::Raw;
                return Some((open.len(), false));
            }
            return None;
        }
        let is_bare = notation.objects.is_some();
        match byte {
            b'"' => self.state = ValueState::Quoted(false),
            b'{' | b'[' => {
                self.open.push(byte == b'{');
                if byte == b'{' && is_bare {
                    self.state = ValueState::Name;
                }
            }
            b'}' | b']' => {
                self.open.pop();
                out.push(byte);
                return Some((1, self.open.is_empty()));
            }
            b',' if is_bare && self.open.last() == Some(&true) => self.state = ValueState::Name,
            _ if is_scalar(byte) => {
                self.state = ValueState::Scalar(Vec::new());
                return Some((0, false));
            }
            _ => (),
        }
        out.push(byte);
        Some((1, false))
    }

    /// Ends a string, number or word; returns whether it is the whole value.
    fn after_scalar(&mut self) -> bool {
        self.state = ValueState::Value;
        self.open.is_empty()
    }
}

/// Whether a byte can be part of a number or word.
fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_')
}

/// JSON's name of a word, if it is one.
pub(super) fn json_word(text: &[u8], words: Words) -> Option<&'static [u8]> {
    let names = ["null", "false", "true"];
    let found = words.iter().position(|words| words.iter().any(|word| word.as_bytes() == text))?;
    Some(names[found].as_bytes())
}

/// Whether a text is a number of JSON.
pub(super) fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    let (leading, mut rest) = (text.first() == Some(&b'0') && whole > 1, &text[whole..]);
    if whole == 0 || leading {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let exponent = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}

/// Writes the text before a sign as the inside of a JSON string, as far as it is certain, and the quotation mark after
/// it; returns the number of bytes that were read, and whether the sign was found.
pub(super) fn raw(text: &[u8], close: &[u8], out: &mut Vec<u8>) -> (usize, bool) {
    let found = find(text, close);
    let length = found.unwrap_or_else(|| text.len() - begun(text, close));
    let quoted = quoted(&text[..length]);
    out.extend_from_slice(&quoted[1..quoted.len() - 1]);
    if found.is_none() {
        return (length, false);
    }
    out.push(b'"');
    (length + close.len(), true)
}

/// A text as a JSON string.
pub(super) fn quoted(text: &[u8]) -> Vec<u8> {
    serde_json::Value::from(plain(text)).to_string().into_bytes()
}

/// A text without its control tokens.
pub(super) fn plain(text: &[u8]) -> String {
    let [begin, end] = Vocabulary::CONTROL;
    let mut is_control = false;
    let kept = text.iter().copied().filter(|&byte| {
        let is_sign = byte == begin || byte == end;
        is_control = if is_sign { byte == begin } else { is_control };
        !is_sign && !is_control
    });
    String::from_utf8_lossy(&kept.collect::<Vec<u8>>()).into_owned()
}

/// The first position of `part` in `text`.
pub(super) fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    match part.first() {
        None => Some(0),
        Some(first) => (0..(text.len() + 1).saturating_sub(part.len()))
            .find(|&at| text[at] == *first && text[at..].starts_with(part)),
    }
}

/// The number of bytes at the end of `text` that are a proper prefix of `mark`.
pub(super) fn begun(text: &[u8], mark: &[u8]) -> usize {
    let most = text.len().min(mark.len().saturating_sub(1));
    (1..=most).rev().find(|&length| text.ends_with(&mark[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_json() {
        for text in ["0", "-0", "10", "1.5", "-1.50", "1e5", "2E+10", "3.1e-7", "123456789012345678901234567890"] {
            assert!(is_number(text.as_bytes()), "{text}");
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok());
        }
        for text in ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "0x1", "1 ", " 1", "1.5.2", "NaN", "1_000"] {
            assert!(!is_number(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn signs_are_found_as_they_come() {
        assert_eq!(
            (find(b"abcab", b"ab"), find(b"abc", b"bc"), find(b"ab", b"abc"), find(b"", b"")),
            (Some(0), Some(1), None, Some(0))
        );
        assert_eq!(
            (begun(b"xab", b"abc"), begun(b"xabc", b"abc"), begun(b"aab", b"ab"), begun(b"x", b"")),
            (2, 0, 0, 0)
        );
        assert_eq!(plain(b"a\xff<|x|>\xfeb"), "ab");
    }
}
