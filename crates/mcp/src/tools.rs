//! The tools: their descriptions, their arguments, and how they are called.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::detector::Detector;

const DETECT: &str = "detect";
const IDENTIFY: &str = "identify";
const MARK_STATUS: &str = "mark_status";

/// A call of a tool.
pub(crate) enum Call {
    Detect(Detect),
    Identify(Identify),
    MarkStatus(MarkStatus),
}

/// Why a call cannot be run.
pub(crate) enum BadCall {
    /// The server does not have the tool.
    Unknown,
    /// The reason that the arguments cannot be used.
    Arguments(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detect {
    text: String,
    key_id: Option<String>,
    passages: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identify {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MarkStatus {
    text: String,
    key_id: Option<String>,
}

impl Call {
    /// Reads a call.
    pub(crate) fn read(tool: &str, arguments: Option<JsonObject>) -> Result<Self, BadCall> {
        let arguments = Value::Object(arguments.unwrap_or_default());
        match tool {
            DETECT => read(arguments).map(Self::Detect),
            IDENTIFY => read(arguments).map(Self::Identify),
            MARK_STATUS => read(arguments).map(Self::MarkStatus),
            _ => Err(BadCall::Unknown),
        }
    }

    /// Runs it. Takes as long as judging the text; the error is the reason in one line.
    pub(crate) fn run(&self, detector: &Detector) -> Result<Value, String> {
        let (Self::Detect(Detect { text, .. })
        | Self::Identify(Identify { text })
        | Self::MarkStatus(MarkStatus { text, .. })) = self;
        detector.check(text)?;
        match self {
            Self::Detect(Detect { key_id, passages, .. }) => {
                detector.detect(text, key_id.as_deref(), passages.unwrap_or(false))
            }
            Self::Identify(_) => detector.identify(text),
            Self::MarkStatus(MarkStatus { key_id, .. }) => detector.mark_status(text, key_id.as_deref()),
        }
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, BadCall> {
    T::deserialize(arguments).map_err(|error| BadCall::Arguments(format!("the arguments cannot be used: {error}")))
}

/// All tools, for texts of at most `max_text` bytes.
pub(crate) fn all(max_text: usize) -> Vec<Tool> {
    let text = json!({"type": "string", "maxLength": max_text, "description": "The complete text, unchanged"});
    let key_id = json!({"type": "string", "description": "Test only the key with this id; by default all keys"});
    let passages = json!({"type": "boolean", "description": "Also look for marked passages inside the text"});
    let of = |name: &'static str, about: &'static str, properties: Value| {
        let schema = json!({
            "type": "object", "properties": properties, "required": ["text"], "additionalProperties": false,
        });
        let Value::Object(schema) = schema else { unreachable!("a schema is an object") };
        Tool::new(name, about, schema).with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
    };
    vec![
        of(
            DETECT,
            "Tests whether a text carries a watermark of this server's keys. Returns the verdict with its p-value, \
             corrected for all keys and readings. \"not marked\" only means that no mark of these keys was found; it \
             says nothing about the author.",
            json!({"text": text, "key_id": key_id, "passages": passages}),
        ),
        of(
            IDENTIFY,
            "Finds which of this server's keys a text was marked with, if any, and returns the best candidates.",
            json!({"text": text}),
        ),
        of(
            MARK_STATUS,
            "Says whether a detector can verify the mark of a text as it was delivered: watermarked, too_weak or \
             skipped, with the reason and the number of scored tokens.",
            json!({"text": text, "key_id": key_id}),
        ),
    ]
}
