//! The messages of a conversation.

use std::collections::HashMap;

use serde_json::{Value, json};
use verdigris::Message;

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;
use crate::protocol::tools;

/// Takes the messages of a chat: at least one, with only text and tool calls.
pub(crate) fn take(body: &mut Fields, name: &str) -> Result<Vec<Message>, Refusal> {
    let items = body.items(name)?.ok_or_else(|| body.missing(name))?;
    if items.is_empty() {
        let path = body.path(name);
        return Err(Refusal::field(&path, "invalid_value", format!("{path} is empty: give at least one message")));
    }
    let mut called = Called::default();
    items.into_iter().map(|(path, item)| message(Fields::of(item, path)?, &mut called)).collect()
}

/// The tool calls so far: the name of the tool by the id of the call.
#[derive(Debug, Default)]
pub(crate) struct Called(HashMap<String, String>);

impl Called {
    /// A tool call in the format of chat templates, with its arguments as an object.
    pub(crate) fn call(&mut self, id: String, name: String, arguments: Value) -> Value {
        let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        self.0.insert(id, name);
        call
    }

    /// The result of a tool for the call whose id is at `path`.
    pub(crate) fn result(&self, id: &str, content: String, path: String) -> Result<Message, Refusal> {
        let Some(name) = self.0.get(id) else {
            let message = format!("{path} is {id:?}, but no earlier call has this id");
            return Err(Refusal::field(path, "invalid_value", message));
        };
        Ok(Message::new("tool", content).with("tool_call_id", json!(id)).with("name", json!(name)))
    }
}

fn message(mut fields: Fields, called: &mut Called) -> Result<Message, Refusal> {
    let role: String = fields.need("role")?;
    let calls = if role == "assistant" { calls(&mut fields, called)? } else { Vec::new() };
    let path = fields.path("content");
    let content = match fields.value("content") {
        Some(content) => text(content, path)?,
        // A message with calls needs no content.
        None if !calls.is_empty() => String::new(),
        None => return Err(fields.missing("content")),
    };
    let message = match role.as_str() {
        // Chat templates only know `system`, the older name of `developer`.
        "developer" => Message::system(content),
        "tool" => {
            let id: String = fields.need("tool_call_id")?;
            called.result(&id, content, fields.path("tool_call_id"))?
        }
        "system" | "user" | "assistant" => Message::new(role, content),
        _ => {
            let path = fields.path("role");
            let message = format!("{path} is {role:?}, but must be system, developer, user, assistant or tool");
            return Err(Refusal::field(path, "invalid_value", message));
        }
    };
    // Fields that the official client adds to answers.
    fields.ignore(&["name", "refusal", "annotations", "parsed"]);
    fields.end()?;
    Ok(if calls.is_empty() { message } else { message.with("tool_calls", Value::Array(calls)) })
}

/// Takes the calls of an assistant message.
fn calls(fields: &mut Fields, called: &mut Called) -> Result<Vec<Value>, Refusal> {
    let calls = fields.items("tool_calls")?.unwrap_or_default();
    calls
        .into_iter()
        .map(|(path, call)| {
            let mut call = Fields::of(call, path)?;
            let id: String = call.need("id")?;
            call.take::<String>("type")?;
            let mut function = call.object("function")?.ok_or_else(|| call.missing("function"))?;
            let name: String = function.need("name")?;
            let arguments = function.need::<String>("arguments")?;
            let arguments = tools::arguments(&arguments, function.path("arguments"))?;
            function.ignore(&["parsed_arguments"]);
            function.end()?;
            call.ignore(&["index"]);
            call.end()?;
            Ok(called.call(id, name, arguments))
        })
        .collect()
}

/// Text, or the concatenation of an array of text parts.
pub(crate) fn text(content: Value, path: String) -> Result<String, Refusal> {
    let parts = match content {
        Value::String(text) => return Ok(text),
        other => read::<Vec<Value>>(other, path.clone())?,
    };
    parts
        .into_iter()
        .enumerate()
        .map(|(at, part)| {
            let mut part = Fields::of(part, format!("{path}[{at}]"))?;
            let kind: String = part.need("type")?;
            if !matches!(kind.as_str(), "text" | "input_text" | "output_text") {
                let path = part.path("type");
                let message = format!("{path} is {kind:?}, but this server only supports text");
                return Err(Refusal::field(path, "unsupported_content", message));
            }
            let text = part.need::<String>("text")?;
            part.ignore(&["annotations", "logprobs"]);
            part.end()?;
            Ok(text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(messages: Value) -> Result<Vec<Message>, Refusal> {
        take(&mut Fields::of(json!({"messages": messages}), "").unwrap(), "messages")
    }

    #[test]
    fn text_comes_whole_or_in_parts() {
        let got = taken(json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c"},
        ]));
        assert_eq!(got.unwrap(), [Message::system("Be brief."), Message::user("ab"), Message::assistant("c")]);
    }

    /// The format is that of chat templates: arguments are objects, and results have the tool's name.
    #[test]
    fn calls_of_tools_are_part_of_it() {
        let call = json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}});
        let got = taken(json!([
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": null, "refusal": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "2"}]},
        ]));
        let call = json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 1}}});
        let expected = [
            Message::user("Add."),
            Message::assistant("").with("tool_calls", json!([call])),
            Message::new("tool", "2").with("tool_call_id", json!("c1")).with("name", json!("add")),
        ];
        assert_eq!(got.unwrap(), expected);
        let assistant = |calls: Value| json!([{"role": "assistant", "tool_calls": calls}]);
        for (messages, param) in [
            (json!([{"role": "tool", "content": "2"}]), "messages[0].tool_call_id"),
            (json!([{"role": "tool", "content": "2", "tool_call_id": "c1"}]), "messages[0].tool_call_id"),
            (json!([{"role": "user", "content": "x", "tool_calls": [call]}]), "messages[0].tool_calls"),
            (assistant(json!([])), "messages[0].content"),
            (assistant(json!([{"id": "c1"}])), "messages[0].tool_calls[0].function"),
            (
                assistant(json!([{"id": "c1", "function": {"name": "add", "arguments": {}}}])),
                "messages[0].tool_calls[0].function.arguments",
            ),
            (
                assistant(json!([{"id": "c1", "function": {"name": "add", "arguments": "{"}}])),
                "messages[0].tool_calls[0].function.arguments",
            ),
        ] {
            assert_eq!(taken(messages.clone()).unwrap_err().param.as_deref(), Some(param), "{messages}");
        }
    }

    #[test]
    fn what_is_no_conversation_is_refused() {
        for (messages, param) in [
            (json!(null), "messages"),
            (json!([]), "messages"),
            (json!("hello"), "messages"),
            (json!(["hello"]), "messages[0]"),
            (json!([{"content": "x"}]), "messages[0].role"),
            (json!([{"role": "robot", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user"}]), "messages[0].content"),
            (json!([{"role": "user", "content": 7}]), "messages[0].content"),
            (json!([{"role": "user", "content": [{"type": "image_url"}]}]), "messages[0].content[0].type"),
            (json!([{"role": "user", "content": [{"type": "text"}]}]), "messages[0].content[0].text"),
            (json!([{"role": "user", "content": "x", "weight": 1}]), "messages[0].weight"),
        ] {
            assert_eq!(taken(messages.clone()).unwrap_err().param.as_deref(), Some(param), "{messages}");
        }
    }
}
