//! The content of a text: words and tool calls.

use std::sync::Arc;

use serde_json::{Map, Value};
use verdigris::Written;
use verdigris::text::calls::{CallFormat, CallReader, ParsedPart};

use crate::answer::new_name;

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The id that the tool's result refers to.
    pub(crate) id: String,
    /// The name of the tool.
    pub(crate) name: String,
    /// The arguments, JSON that obeys the tool's schema.
    pub(crate) arguments: String,
}

impl Call {
    /// A new call without arguments. Its id has nine letters and digits, since some templates accept no others.
    pub(crate) fn begin(name: String) -> Self {
        Self { id: new_name::<9>(), name, arguments: String::new() }
    }

    /// The arguments as an object.
    pub(crate) fn input(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_else(|_| Value::Object(Map::new()))
    }
}

/// The words and tool calls of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

impl Content {
    /// Reads a complete text. A call that was cut short, by a stop string or because the tokens ran out, stays text.
    pub(crate) fn of(written: &Written, format: Option<&Arc<CallFormat>>) -> Self {
        let (mut reader, mut parts, mut content) = (CallReader::new(format.cloned()), Vec::new(), Self::default());
        written.parts().for_each(|part| reader.push_part(part, &mut parts));
        let cut = reader.finish(&mut parts);
        for part in parts {
            match (part, content.calls.last_mut()) {
                (ParsedPart::Text(text), _) => content.text.push_str(&text),
                (ParsedPart::Call(name), _) => content.calls.push(Call::begin(name)),
                (ParsedPart::Arguments(piece), Some(call)) => call.arguments.push_str(&piece),
                (ParsedPart::Arguments(_), None) | (ParsedPart::CallEnd, _) => (),
            }
        }
        if let Some(cut) = cut {
            if cut.is_begun {
                content.calls.pop();
            }
            content.text.push_str(&cut.text);
        }
        content
    }
}
