//! Parsed JSON values, and whether an incomplete text may become a given value.
//!
//! Values are equal as defined by JSON Schema (core, 4.2.2): white space, the order of properties, escapes and the
//! notation of numbers do not matter. Of repeated names the last one counts, as in most parsers (RFC 8259, 4).

use super::json_text::{Decimal, bare_length, decoded, past_space, string_length};

/// The nesting depth below which values are not distinguished.
const MAX_DEPTH: usize = 128;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// `null`, `true` or `false`.
    Word(Vec<u8>),
    Number(Decimal),
    /// The content of a string.
    Text(Vec<u8>),
    Array(Vec<Value>),
    /// Properties, sorted by name.
    Object(Vec<(Vec<u8>, Value)>),
    /// A value that is nested too deeply.
    Deep,
}

/// The result of comparing an incomplete text with a value.
enum Compared<'v, 't> {
    /// It may become equal; if it is inside a scalar, that scalar of the value, and the text of the scalar so far.
    Open(Option<(&'v Value, &'t [u8])>),
    /// It begins with an equal value, which is followed by this.
    Same(&'t [u8]),
    Different,
}

impl Value {
    /// Parses the value of a complete text.
    pub(super) fn of(text: &[u8]) -> Self {
        Self::read(&mut &*text, 0)
    }

    fn read(text: &mut &[u8], depth: usize) -> Self {
        *text = past_space(text);
        if depth == MAX_DEPTH {
            *text = past_value(text).unwrap_or_default();
            return Self::Deep;
        }
        match text.first() {
            Some(b'[') => {
                let mut items = Vec::new();
                while let Some(rest) = next_part(text, b']') {
                    *text = rest;
                    items.push(Self::read(text, depth + 1));
                }
                Self::Array(items)
            }
            Some(b'{') => {
                let mut properties: Vec<(Vec<u8>, Self)> = Vec::new();
                while let Some(rest) = next_part(text, b'}') {
                    let (name, after) = rest.split_at(string_length(rest).unwrap_or(rest.len()));
                    *text = past_colon(after).unwrap_or_default();
                    properties.push((decoded(&name[1..]), Self::read(text, depth + 1)));
                }
                // Of repeated names, keep the last.
                properties.reverse();
                properties.sort_by(|(a, _), (b, _)| a.cmp(b));
                properties.dedup_by(|(a, _), (b, _)| a == b);
                Self::Object(properties)
            }
            Some(b'"') => {
                let (string, rest) = text.split_at(string_length(text).unwrap_or(text.len()));
                *text = rest;
                Self::Text(decoded(&string[1..]))
            }
            _ => {
                let (bare, rest) = text.split_at(bare_length(text));
                *text = rest;
                match bare.first() {
                    Some(b'-' | b'0'..=b'9') => Self::Number(Decimal::of(bare)),
                    _ => Self::Word(bare.to_vec()),
                }
            }
        }
    }

    /// The canonical text of the value.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write(&mut text);
        text
    }

    fn write(&self, text: &mut Vec<u8>) {
        let comma = |text: &mut Vec<u8>, at: usize| {
            if at > 0 {
                text.push(b',');
            }
        };
        match self {
            Self::Word(word) => text.extend_from_slice(word),
            Self::Number(Decimal { is_negative, digits, exponent }) => {
                if *is_negative {
                    text.push(b'-');
                }
                text.extend_from_slice(if digits.is_empty() { b"0" } else { digits });
                if *exponent != 0 {
                    text.extend_from_slice(format!("e{exponent}").as_bytes());
                }
            }
            Self::Text(content) => quote(content, text),
            Self::Array(items) => {
                text.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    comma(text, at);
                    item.write(text);
                }
                text.push(b']');
            }
            Self::Object(properties) => {
                text.push(b'{');
                for (at, (name, value)) in properties.iter().enumerate() {
                    comma(text, at);
                    quote(name, text);
                    text.push(b':');
                    value.write(text);
                }
                text.push(b'}');
            }
            Self::Deep => text.extend_from_slice(b"deep"),
        }
    }

    /// Whether an incomplete text is equal, or may become so without repeating a name.
    pub(super) fn may_be(&self, text: &[u8]) -> bool {
        match self.compare(text) {
            Compared::Open(_) => true,
            Compared::Same(rest) => past_space(rest).is_empty(),
            Compared::Different => false,
        }
    }

    /// The scalar of the value that the incomplete text is inside of and may become, and its start in the text.
    pub(super) fn begun_scalar(&self, text: &[u8]) -> Option<(&Self, usize)> {
        match self.compare(text) {
            Compared::Open(Some((scalar, begun))) => Some((scalar, text.len() - begun.len())),
            _ => None,
        }
    }

    /// Whether an incomplete scalar may become this one; `None` if it has ended.
    pub(super) fn may_be_begun(&self, text: &[u8]) -> Option<bool> {
        match self.compare(text) {
            Compared::Open(_) => Some(true),
            Compared::Different => Some(false),
            Compared::Same(_) => None,
        }
    }

    fn compare<'v, 't>(&'v self, text: &'t [u8]) -> Compared<'v, 't> {
        let text = past_space(text);
        if text.is_empty() {
            return Compared::Open(None);
        }
        match self {
            Self::Deep => past_value(text).map_or(Compared::Open(None), Compared::Same),
            Self::Word(word) => {
                let (bare, rest) = text.split_at(bare_length(text));
                match rest.is_empty() {
                    true if word.starts_with(bare) => Compared::Open(Some((self, text))),
                    false if word == bare => Compared::Same(rest),
                    _ => Compared::Different,
                }
            }
            Self::Number(number) => {
                let (bare, rest) = text.split_at(bare_length(text));
                let is_number = matches!(text[0], b'-' | b'0'..=b'9');
                match rest.is_empty() {
                    true if is_number && number.may_begin(bare) => Compared::Open(Some((self, text))),
                    false if is_number && *number == Decimal::of(bare) => Compared::Same(rest),
                    _ => Compared::Different,
                }
            }
            Self::Text(content) => match (text[0], string_length(text)) {
                (b'"', None) if content.starts_with(&decoded(&text[1..])) => Compared::Open(Some((self, text))),
                (b'"', Some(length)) if *content == decoded(&text[1..length]) => Compared::Same(&text[length..]),
                _ => Compared::Different,
            },
            Self::Array(items) => {
                let Some(mut rest) = text.strip_prefix(b"[") else { return Compared::Different };
                for (at, item) in items.iter().enumerate() {
                    rest = past_space(rest);
                    if at > 0 {
                        match rest.split_first() {
                            Some((b',', after)) => rest = after,
                            Some(_) => return Compared::Different,
                            None => return Compared::Open(None),
                        }
                    }
                    match item.compare(rest) {
                        Compared::Same(after) => rest = after,
                        other => return other,
                    }
                }
                match past_space(rest).split_first() {
                    Some((b']', after)) => Compared::Same(after),
                    Some(_) => Compared::Different,
                    None => Compared::Open(None),
                }
            }
            Self::Object(properties) => compare_object(properties, text),
        }
    }
}

fn compare_object<'v, 't>(properties: &'v [(Vec<u8>, Value)], text: &'t [u8]) -> Compared<'v, 't> {
    let Some(mut rest) = text.strip_prefix(b"{") else { return Compared::Different };
    let mut left = vec![true; properties.len()];
    loop {
        rest = past_space(rest);
        match rest.first() {
            None => return Compared::Open(None),
            Some(b'}') if !left.contains(&true) => return Compared::Same(&rest[1..]),
            Some(b'}') => return Compared::Different,
            Some(b',') => rest = past_space(&rest[1..]),
            _ => {}
        }
        if rest.is_empty() {
            return if left.contains(&true) { Compared::Open(None) } else { Compared::Different };
        }
        let Some(length) = string_length(rest) else {
            let begun = decoded(&rest[1..]);
            let mut names = properties.iter().zip(&left).filter(|(_, left)| **left).map(|((name, _), _)| name);
            return if names.any(|name| name.starts_with(&begun)) { Compared::Open(None) } else { Compared::Different };
        };
        let (name, after) = rest.split_at(length);
        let name = decoded(&name[1..]);
        let Ok(at) = properties.binary_search_by(|(known, _)| (**known).cmp(&name)) else {
            return Compared::Different;
        };
        left[at] = false;
        let Some(after) = past_colon(after) else { return Compared::Open(None) };
        match properties[at].1.compare(after) {
            Compared::Same(after) => rest = after,
            other => return other,
        }
    }
}

/// Writes a string in quotation marks, escaped only as far as needed to find its end.
fn quote(content: &[u8], text: &mut Vec<u8>) {
    text.push(b'"');
    for &byte in content {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
}

/// The next part of an array or an object, after the bracket or comma before it; at the end `None`, with the text moved
/// past the closing bracket.
fn next_part<'t>(text: &mut &'t [u8], end: u8) -> Option<&'t [u8]> {
    let rest = past_space(text);
    match rest.split_first() {
        Some((b'[' | b'{' | b',', rest)) => {
            let rest = past_space(rest);
            if rest.first() == Some(&end) {
                *text = &rest[1..];
                return None;
            }
            (!rest.is_empty()).then_some(rest)
        }
        Some((_, rest)) => {
            *text = rest;
            None
        }
        None => None,
    }
}

fn past_colon(text: &[u8]) -> Option<&[u8]> {
    past_space(text).split_first().map(|(_, rest)| rest)
}

/// The text after a value, if the value is complete.
fn past_value(mut text: &[u8]) -> Option<&[u8]> {
    let mut depth = 0usize;
    loop {
        text = past_space(text);
        let length = match text.first()? {
            b'[' | b'{' => {
                depth += 1;
                1
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                1
            }
            b',' | b':' => 1,
            b'"' => string_length(text)?,
            _ => bare_length(text),
        };
        text = &text[length..];
        if depth == 0 {
            return Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: &[&str] = &[
        r#"{"a": [1, {"b": "x\\\"}"}], "c": null}"#,
        r#"{"c":null,"a":[1,{"b":"x\\\"}"}]}"#,
        "{ \"a\" :[ 1.0 ,{\"b\":\"\\u0078\\\\\\u0022}\"} ],\n\"c\": null }",
        r#"{"c":null,"a":[100e-2,{"b":"x\\\"}"}]}"#,
    ];

    #[test]
    fn what_writes_the_same_value_is_the_same_and_all_else_is_not() {
        for a in SAME {
            for b in SAME {
                assert_eq!(Value::of(a.as_bytes()), Value::of(b.as_bytes()), "{a} {b}");
            }
            let value = Value::of(a.as_bytes());
            assert_eq!(value.text(), Value::of(SAME[0].as_bytes()).text());
            assert_eq!(value, Value::of(&value.text()));
            for other in ["{}", "[]", r#"{"a":[1,{"b":"x\\\"}"}]}"#, r#"{"a":[12,{"b":"x\\\"}"}],"c":null}"#, "null"] {
                assert!(!value.may_be(other.as_bytes()), "{a} {other}");
                assert_ne!(value, Value::of(other.as_bytes()));
            }
        }
        for (a, b) in [("0", "-0.0"), ("10", "1e1"), ("0.50", "5E-1"), (r#"{"a":1,"a":2}"#, r#"{"a":2}"#)] {
            assert_eq!(Value::of(a.as_bytes()).text(), Value::of(b.as_bytes()).text(), "{a} {b}");
        }
        for (a, b) in [("1", "-1"), ("10", "100"), ("true", "\"true\""), (r#"["a","b"]"#, r#"["a\",\"b"]"#)] {
            assert_ne!(Value::of(a.as_bytes()).text(), Value::of(b.as_bytes()).text(), "{a} {b}");
        }
    }

    #[test]
    fn every_beginning_may_become_the_same() {
        for a in SAME {
            for b in SAME {
                let value = Value::of(b.as_bytes());
                for end in 0..=a.len() {
                    assert!(value.may_be(&a.as_bytes()[..end]), "{} {b}", &a[..end]);
                }
            }
            for other in ["[", "{\"b", "{\"a\":[2", "{\"a\":[1,{\"c", "{\"c\":null}", "{\"c\":nul}", "{\"a\":[1]"] {
                assert!(!Value::of(a.as_bytes()).may_be(other.as_bytes()), "{other} {a}");
            }
        }
    }

    #[test]
    fn what_is_nested_too_deep_counts_as_the_same() {
        let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(Value::of(deep("1").as_bytes()), Value::of(deep("2, 3").as_bytes()));
        assert!(Value::of(deep("1").as_bytes()).may_be(&deep("\"]\"").as_bytes()[..250]));
        assert_ne!(Value::of(b"[[1]]"), Value::of(b"[[2]]"));
        let far = "[".repeat(1_000_000);
        assert!(Value::of(deep("1").as_bytes()).may_be(far.as_bytes()));
    }
}
