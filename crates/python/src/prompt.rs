//! Prompts.

use pyo3::prelude::*;
use pyo3::types::PyString;
use serde_json::{Map, Value};
use verdigris::logits::TokenId;
use verdigris::{Message, Prompt};

use crate::argument::TextArgument;
use crate::error;

/// Reads a prompt: a text, or its tokens.
pub(crate) fn text(given: &Bound<'_, PyAny>) -> PyResult<Prompt> {
    if given.is_instance_of::<PyString>() {
        return Ok(Prompt::Text(given.extract::<TextArgument>()?.to_string()));
    }
    match given.extract::<Vec<TokenId>>() {
        Ok(tokens) => Ok(tokens.into()),
        Err(_) => Err(error::wrong_type(given.py(), "a prompt is a text or a list of tokens; messages go to chat")),
    }
}

/// Reads a conversation: the user's message, or a list of messages.
pub(crate) fn conversation(given: &Bound<'_, PyAny>) -> PyResult<Prompt> {
    if given.is_instance_of::<PyString>() {
        return Ok(vec![Message::user(given.extract::<TextArgument>()?.to_string())].into());
    }
    let json: String = given.py().import("json")?.call_method1("dumps", (given,))?.extract()?;
    let messages: Vec<Map<String, Value>> = serde_json::from_str(&json)
        .map_err(|_| error::argument("messages are a text, or a list of dictionaries with role and content"))?;
    let messages = messages.into_iter().enumerate().map(|(number, mut fields)| {
        let mut take = |name: &str| match fields.remove(name) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(error::argument(format!("message {number} has no {name} that is a text"))),
        };
        let message = Message::new(take("role")?, take("content")?);
        Ok(fields.into_iter().fold(message, |message, (name, value)| message.with(name, value)))
    });
    Ok(messages.collect::<PyResult<Vec<_>>>()?.into())
}
