//! Texts in JSON: a record on each line, or one array of them.

use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::document::{Document, DocumentError, DocumentText, Fields, MAX_TEXT, of_record};

/// The longest record: it has room for the longest text with escapes, and for other fields.
const MAX_RECORD: u64 = 2 * MAX_TEXT;

/// The texts of JSON lines, named by line number. A faulty line does not stop the others.
pub(super) fn lines(name: String, mut input: impl BufRead, fields: Fields) -> impl Iterator<Item = Document> {
    let (mut number, mut ended) = (0u64, false);
    std::iter::from_fn(move || {
        while !ended {
            number += 1;
            let name = format!("{name}:{number}");
            let mut line = Vec::new();
            match input.by_ref().take(MAX_RECORD).read_until(b'\n', &mut line) {
                Ok(0) => ended = true,
                Ok(n) if n as u64 == MAX_RECORD && line.last() != Some(&b'\n') => {
                    ended = input.skip_until(b'\n').is_err();
                    return Some(Document::faulty(name, too_long("line")));
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => return Some(record(name, "line", line.trim_ascii_end(), &fields)),
                Err(error) => {
                    ended = true;
                    return Some(Document::faulty(name, error));
                }
            }
        }
        None
    })
}

fn too_long(what: &str) -> String {
    format!("the {what} is longer than {} MiB", MAX_RECORD >> 20)
}

/// The texts of one array, named by position, or the text of one object.
pub(super) fn array(name: String, input: impl BufRead, fields: Fields) -> impl Iterator<Item = Document> {
    let mut elements = Elements::of(input);
    let mut number = 0u64;
    std::iter::from_fn(move || {
        if elements.ended {
            return None;
        }
        number += 1;
        let name = format!("{name}:{number}");
        match elements.next_element() {
            Ok(element) => element.map(|element| record(name, "element", element.trim_ascii(), &fields)),
            Err(fault) => {
                elements.ended = true;
                Some(Document::faulty(name, fault))
            }
        }
    })
}

/// The records that JSON holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Records {
    /// An array of objects, the first of which has a text.
    Array,
    /// One object with a text.
    One,
}

impl Records {
    /// The records in some JSON, if it holds any.
    pub(super) fn of(input: impl BufRead, fields: &Fields) -> Option<Self> {
        let mut elements = Elements::of(input);
        let element = elements.next_element().ok()??;
        let is_record = element.trim_ascii().starts_with(b"{")
            && record(String::new(), "element", element.trim_ascii(), fields).text.is_ok();
        is_record.then_some(if elements.is_object { Self::One } else { Self::Array })
    }
}

/// The elements of an array, one at a time in memory, or one object.
struct Elements<R> {
    input: R,
    began: bool,
    /// Whether the end of the array was read.
    closed: bool,
    ended: bool,
    is_object: bool,
}

impl<R: BufRead> Elements<R> {
    fn of(input: R) -> Self {
        Self { input, began: false, closed: false, ended: false, is_object: false }
    }

    /// The bytes of the next element; `None` after the last.
    fn next_element(&mut self) -> Result<Option<Vec<u8>>, String> {
        if self.closed {
            return self.end().map(|()| None);
        }
        let first = !std::mem::replace(&mut self.began, true);
        match if first { self.word()? } else { Some(b'[') } {
            Some(b'[') => {}
            Some(b'{') => return self.object().map(Some),
            _ => return Err("it is not an array of texts: it does not begin with [".into()),
        }
        let mut element = Vec::new();
        let (mut depth, mut quoted, mut escaped) = (0u64, false, false);
        loop {
            let buffer = self.input.fill_buf().map_err(|error| error.to_string())?;
            if buffer.is_empty() {
                return Err("the array does not end: the file is cut short".into());
            }
            let end = buffer.iter().position(|&byte| {
                match byte {
                    _ if escaped => escaped = false,
                    b'\\' if quoted => escaped = true,
                    b'"' => quoted = !quoted,
                    _ if quoted => {}
                    b'[' | b'{' => depth += 1,
                    b',' | b']' if depth == 0 => return true,
                    b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                false
            });
            let taken = end.unwrap_or(buffer.len());
            element.extend_from_slice(&buffer[..taken]);
            let last = end.map(|end| buffer[end] == b']');
            self.input.consume(taken + usize::from(end.is_some()));
            if element.len() as u64 > MAX_RECORD {
                return Err(too_long("element"));
            }
            let Some(last) = last else { continue };
            self.closed = last;
            return match last && first && element.trim_ascii().is_empty() {
                true => self.end().map(|()| None),
                false => Ok(Some(element)),
            };
        }
    }

    /// Checks that nothing comes after the array.
    fn end(&mut self) -> Result<(), String> {
        self.ended = true;
        match self.word()? {
            None => Ok(()),
            Some(_) => Err("there is more after the end of the array: give one array, or JSON lines".into()),
        }
    }

    /// Reads the rest of an object, which is the only element.
    fn object(&mut self) -> Result<Vec<u8>, String> {
        (self.ended, self.is_object) = (true, true);
        let mut object = vec![b'{'];
        self.input.by_ref().take(MAX_RECORD).read_to_end(&mut object).map_err(|error| error.to_string())?;
        if object.len() as u64 > MAX_RECORD {
            return Err(too_long("object"));
        }
        Ok(object)
    }

    /// The next byte that is not white space.
    fn word(&mut self) -> Result<Option<u8>, String> {
        loop {
            let buffer = self.input.fill_buf().map_err(|error| error.to_string())?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let (at, found) = match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
                Some(at) => (at + 1, Some(buffer[at])),
                None => (buffer.len(), None),
            };
            self.input.consume(at);
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}

/// The text of one record: a string, or an object with the text in a field.
fn record(name: String, what: &str, json: &[u8], fields: &Fields) -> Document {
    let mut input = serde_json::Deserializer::from_slice(json);
    let read = Record(fields).deserialize(&mut input).and_then(|found| input.end().map(|()| found));
    match read {
        Ok((id, text)) => {
            Document { name, id, text: text.and_then(of_record).map(DocumentText::Whole).map_err(DocumentError::Text) }
        }
        Err(error) if error.is_data() => {
            Document::faulty(name, format!("the {what} holds no text: {}", reason(&error)))
        }
        Err(error) => {
            Document::faulty(name, format!("the {what} is not JSON: {} at column {}", reason(&error), error.column()))
        }
    }
}

/// The message of an error without its line, which is always the first.
fn reason(error: &serde_json::Error) -> String {
    let mut reason = error.to_string();
    if let Some(at) = reason.rfind(" at line ") {
        reason.truncate(at);
    }
    reason
}

/// Reads a record's id and text, and skips its other fields.
struct Record<'a>(&'a Fields);

type IdAndText = (Option<Value>, Result<String, String>);

impl<'de> DeserializeSeed<'de> for Record<'_> {
    type Value = IdAndText;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<IdAndText, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Record<'_> {
    type Value = IdAndText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a text, or a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<IdAndText, E> {
        Ok((None, Ok(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IdAndText, A::Error> {
        let (mut id, mut text) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            if key == self.0.text {
                text = Some(map.next_value::<Value>()?);
            } else if key == self.0.id {
                id = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let field = &self.0.text;
        let text = match text {
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(format!("the field {field:?} is {}, not a string", kind(&other))),
            None => Err(format!("there is no field {field:?}: choose one with --column")),
        };
        Ok((id, text))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(documents: impl Iterator<Item = Document>) -> Vec<String> {
        let text = |document: Document| match document.text {
            Ok(DocumentText::Whole(text)) => {
                format!("{} {:?} {text}", document.name, document.id.map(|id| id.to_string()))
            }
            Ok(DocumentText::Long(_)) => "long".into(),
            Err(fault) => format!("{} ! {fault}", document.name),
        };
        documents.map(text).collect()
    }

    fn fields() -> Fields {
        Fields { text: "text".into(), id: "id".into(), named: false }
    }

    #[test]
    fn lines_are_counted_as_they_stand_in_the_file() {
        let input =
            "{\"text\": \"a\", \"id\": 7, \"more\": [1, {}]}\n\n\"b\"\r\n{\"text\": \"c\n3\n{\"text\": \"d\"} x\n";
        let found = show(lines("f".into(), input.as_bytes(), fields()));
        assert_eq!(found[0], "f:1 Some(\"7\") a");
        assert_eq!(found[1], "f:3 None b");
        assert!(found[2].starts_with("f:4 ! the line is not JSON: EOF while parsing a string at column "), "{found:?}");
        assert!(
            found[3].contains("f:5 ! the line holds no text: invalid type: integer `3`, expected an object"),
            "{found:?}"
        );
        assert!(found[4].contains("f:6 ! the line is not JSON: trailing characters at column 15"), "{found:?}");
        assert!(found.iter().all(|line| !line.contains("at line")), "{found:?}");
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let long = std::io::repeat(b'x').take(MAX_RECORD + 10);
        let input = std::io::BufReader::new(long.chain(&b"\n\"next\"\n"[..]));
        let found = show(lines("f".into(), input, fields()));
        assert_eq!(found, ["f:1 ! the line is longer than 32 MiB", "f:2 None next"]);
    }

    #[test]
    fn arrays_are_cut_into_their_elements() {
        let array = |json: &str| {
            // A buffer of three bytes, so that every state crosses the end of a buffer.
            let input = std::io::BufReader::with_capacity(3, std::io::Cursor::new(json.to_owned()));
            show(array("f".into(), input, fields()))
        };
        let found = array(r#" [ "a,]\"[", {"text": "b", "id": ["x", {}]} , 5 ]"#);
        assert_eq!(found[..2], ["f:1 None a,]\"[", "f:2 Some(\"[\\\"x\\\",{}]\") b"]);
        assert!(found[2].contains("f:3 ! the element holds no text: invalid type: integer `5`"), "{found:?}");
        assert_eq!(found.len(), 3);
        assert!(array("[]").is_empty() && array(" [ \n ] ").is_empty());
        assert_eq!(array("[\"a\""), ["f:1 ! the array does not end: the file is cut short"]);
        let more = "there is more after the end of the array: give one array, or JSON lines";
        assert_eq!(array("[\"a\"]\n[\"b\"]"), ["f:1 None a".to_owned(), format!("f:2 ! {more}")]);
        assert_eq!(array("[] x"), [format!("f:1 ! {more}")]);
        assert_eq!(array("5"), ["f:1 ! it is not an array of texts: it does not begin with ["]);
        assert_eq!(array("{}"), ["f:1 ! there is no field \"text\": choose one with --column"]);
        assert_eq!(array(" {\"text\": \"a, [b]\",\n \"id\": 1}\n"), ["f:1 Some(\"1\") a, [b]"]);
        assert!(array("[\"a\",]")[1].contains("the element is not JSON"));
        let records = |json: &str| Records::of(json.as_bytes(), &fields());
        assert_eq!(records(" [{\"text\": \"a\"}, 5"), Some(Records::Array));
        assert_eq!(records(" {\"text\": \"a\"} "), Some(Records::One));
        for other in
            ["[\"a\"]", "[{\"says\": \"a\"}]", "{\"says\": \"a\"}", "{\"text\": 5}", "{\"text\": \"a\"", "5", ""]
        {
            assert_eq!(records(other), None, "{other}");
        }
    }
}
