//! All serializations of some JSON values: without white space, with properties in any order.

use serde_json::Value;

use super::Language;

/// The serializations of some values.
pub struct Writings<'a> {
    values: Vec<&'a Value>,
}

/// The comparison of a text with the serializations of a value.
enum Outcome {
    /// It is a proper prefix of one.
    Begins,
    /// It begins with one; the number of bytes left.
    Whole(usize),
    Differs,
}

impl<'a> Writings<'a> {
    /// The serializations of all given values.
    pub fn new(values: impl IntoIterator<Item = &'a Value>) -> Self {
        Self { values: values.into_iter().collect() }
    }
}

impl Language for Writings<'_> {
    type State = Vec<u8>;

    fn start(&self) -> Option<Vec<u8>> {
        (!self.values.is_empty()).then(Vec::new)
    }

    fn next(&self, state: &Vec<u8>, byte: u8) -> Option<Vec<u8>> {
        let text = [&state[..], &[byte]].concat();
        let begins = |value: &&Value| match read(value, &text) {
            Outcome::Begins => true,
            Outcome::Whole(left) => left == 0,
            Outcome::Differs => false,
        };
        self.values.iter().any(begins).then_some(text)
    }

    fn accepts(&self, state: &Vec<u8>) -> bool {
        self.values.iter().any(|value| matches!(read(value, state), Outcome::Whole(0)))
    }
}

fn read(value: &Value, text: &[u8]) -> Outcome {
    match value {
        Value::Array(items) => {
            let Some(mut rest) = text.strip_prefix(b"[") else { return missing(text) };
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    let Some(after) = rest.strip_prefix(b",") else { return missing(rest) };
                    rest = after;
                }
                match read(item, rest) {
                    Outcome::Whole(left) => rest = &rest[rest.len() - left..],
                    other => return other,
                }
            }
            literal("]", rest)
        }
        Value::Object(properties) => {
            let Some(mut rest) = text.strip_prefix(b"{") else { return missing(text) };
            let mut open: Vec<(&String, &Value)> = properties.iter().collect();
            while !open.is_empty() {
                if open.len() < properties.len() {
                    let Some(after) = rest.strip_prefix(b",") else { return missing(rest) };
                    rest = after;
                }
                let name = |name: &String| Value::from(name.as_str()).to_string() + ":";
                let found = open.iter().position(|(key, _)| rest.starts_with(name(key).as_bytes()));
                let Some(at) = found else {
                    let begins = open.iter().any(|(key, _)| name(key).as_bytes().starts_with(rest));
                    return if begins { Outcome::Begins } else { Outcome::Differs };
                };
                let (key, value) = open.swap_remove(at);
                rest = &rest[name(key).len()..];
                match read(value, rest) {
                    Outcome::Whole(left) => rest = &rest[rest.len() - left..],
                    other => return other,
                }
            }
            literal("}", rest)
        }
        scalar => literal(&scalar.to_string(), text),
    }
}

/// The outcome where a character is missing: the text ends, or it has another one.
fn missing(text: &[u8]) -> Outcome {
    if text.is_empty() { Outcome::Begins } else { Outcome::Differs }
}

fn literal(expected: &str, text: &[u8]) -> Outcome {
    match text.strip_prefix(expected.as_bytes()) {
        Some(rest) => Outcome::Whole(rest.len()),
        None if expected.as_bytes().starts_with(text) => Outcome::Begins,
        None => Outcome::Differs,
    }
}

/// Whether all numbers of a value have a single plain serialization, without an exponent.
pub fn is_plain(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            !text.contains(['e', 'E']) && !text.ends_with(".0") && text != "-0" && text.len() < 15
        }
        Value::Array(items) => items.iter().all(is_plain),
        Value::Object(properties) => properties.values().all(is_plain),
        _ => true,
    }
}
