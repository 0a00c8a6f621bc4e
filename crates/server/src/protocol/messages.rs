//! The messages of a conversation.

use std::collections::HashMap;

use serde_json::{Value, json};
use verdigris::Message;

use crate::protocol::fields::{Fields, read};
use crate::protocol::reasoning::IN_MESSAGES;
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
    items.into_iter().map(|(path, item)| message(body.within(item, path)?, &mut called)).collect()
}

/// The tool calls so far.
#[derive(Debug, Default)]
pub(crate) struct Called {
    /// The names of tools by the ids of calls.
    names: HashMap<String, String>,
    /// The ids of the last calls by the names of tools.
    last: HashMap<String, String>,
    /// The number of ids that were made or are taken.
    ids: usize,
}

impl Called {
    /// A tool call in the format of chat templates, with its arguments as an object.
    pub(crate) fn call(&mut self, id: String, name: String, arguments: Value) -> Value {
        let call = json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        self.last.insert(name.clone(), id.clone());
        self.names.insert(id, name);
        call
    }

    /// An id for a call without one, which is unlike those of other calls.
    pub(crate) fn new_id(&mut self) -> String {
        loop {
            let id = format!("call{:05}", self.ids);
            self.ids += 1;
            if !self.names.contains_key(&id) {
                return id;
            }
        }
    }

    /// The result of the last call of the tool whose name is at `path`.
    pub(crate) fn function_result(&self, name: &str, content: String, path: String) -> Result<Message, Refusal> {
        let Some(id) = self.last.get(name) else {
            let message = format!("{path} is {name:?}, but no earlier call is of this function");
            return Err(Refusal::field(path, "invalid_value", message));
        };
        Ok(Message::new("tool", content).with("tool_call_id", json!(id)).with("name", json!(name)))
    }

    /// The result of a tool for the call whose id is at `path`.
    pub(crate) fn result(&self, id: &str, content: String, path: String) -> Result<Message, Refusal> {
        let Some(name) = self.names.get(id) else {
            let message = format!("{path} is {id:?}, but no earlier call has this id");
            return Err(Refusal::field(path, "invalid_value", message));
        };
        Ok(Message::new("tool", content).with("tool_call_id", json!(id)).with("name", json!(name)))
    }
}

fn message(mut fields: Fields, called: &mut Called) -> Result<Message, Refusal> {
    let role: String = fields.need("role")?;
    let is_assistant = role == "assistant";
    let calls = if is_assistant { calls(&mut fields, called)? } else { Vec::new() };
    let reasoning = if is_assistant { reasoning(&mut fields)? } else { None };
    let content = match fields.value("content") {
        Some(content) => text(&fields, content, "content")?,
        // A message with calls needs no content.
        None if !calls.is_empty() || reasoning.is_some() => String::new(),
        None => return Err(fields.missing("content")),
    };
    let message = match role.as_str() {
        // Chat templates only know `system`, the older name of `developer`.
        "developer" => Message::system(content),
        "tool" => {
            let id: String = fields.need("tool_call_id")?;
            called.result(&id, content, fields.path("tool_call_id"))?
        }
        "function" => {
            let name: String = fields.need("name")?;
            called.function_result(&name, content, fields.path("name"))?
        }
        "system" | "user" | "assistant" => Message::new(role, content),
        _ => {
            let path = fields.path("role");
            let message =
                format!("{path} is {role:?}, but must be system, developer, user, assistant, tool or function");
            return Err(Refusal::field(path, "invalid_value", message));
        }
    };
    // Fields that clients add to messages, or send back from answers.
    fields.ignore(&["name", "refusal", "annotations", "parsed", "audio", "cache_control", "prefix"]);
    fields.end()?;
    let message = if calls.is_empty() { message } else { message.with("tool_calls", Value::Array(calls)) };
    Ok(with_reasoning(message, reasoning))
}

/// Takes the reasoning of an earlier answer, in any of its names.
fn reasoning(fields: &mut Fields) -> Result<Option<String>, Refusal> {
    let mut reasoning = None;
    for name in IN_MESSAGES {
        reasoning = reasoning.or(fields.take::<String>(name)?);
    }
    // Details of services that let models reason.
    fields.ignore(&["reasoning_details", "thinking_blocks"]);
    Ok(reasoning.filter(|text| !text.is_empty()))
}

/// The message with its reasoning, in the names that templates read.
pub(super) fn with_reasoning(message: Message, reasoning: Option<String>) -> Message {
    let Some(reasoning) = reasoning else { return message };
    IN_MESSAGES.iter().fold(message, |message, name| message.with(*name, json!(reasoning)))
}

/// Takes the calls of an assistant message.
fn calls(fields: &mut Fields, called: &mut Called) -> Result<Vec<Value>, Refusal> {
    let mut calls = calls_of_tools(fields, called)?;
    if let Some(mut function) = fields.object("function_call")? {
        let name: String = function.need("name")?;
        let arguments = tools::arguments(&function.need::<String>("arguments")?, function.path("arguments"))?;
        function.end()?;
        let id = called.new_id();
        calls.push(called.call(id, name, arguments));
    }
    Ok(calls)
}

fn calls_of_tools(fields: &mut Fields, called: &mut Called) -> Result<Vec<Value>, Refusal> {
    let calls = fields.items("tool_calls")?.unwrap_or_default();
    calls
        .into_iter()
        .map(|(path, call)| {
            let mut call = fields.within(call, path)?;
            let id: String = call.need("id")?;
            call.take::<String>("type")?;
            let mut function = call.object("function")?.ok_or_else(|| call.missing("function"))?;
            let name: String = function.need("name")?;
            let arguments = function.need::<String>("arguments")?;
            let arguments = tools::arguments(&arguments, function.path("arguments"))?;
            function.ignore(&["parsed_arguments"]);
            function.end()?;
            call.ignore(&["index", "cache_control"]);
            call.end()?;
            Ok(called.call(id, name, arguments))
        })
        .collect()
}

/// Text, or the concatenation of an array of text parts: the value of the field `name` of an object.
pub(crate) fn text(of: &Fields, content: Value, name: &str) -> Result<String, Refusal> {
    let path = of.path(name);
    let parts = match content {
        Value::String(text) => return Ok(text),
        other => read::<Vec<Value>>(other, path.clone())?,
    };
    parts
        .into_iter()
        .enumerate()
        .map(|(at, part)| {
            let mut part = of.within(part, format!("{path}[{at}]"))?;
            let kind: String = part.need("type")?;
            if !matches!(kind.as_str(), "text" | "input_text" | "output_text") {
                let path = part.path("type");
                let message = format!("{path} is {kind:?}, but this server only supports text");
                return Err(Refusal::field(path, "unsupported_content", message));
            }
            let text = part.need::<String>("text")?;
            part.ignore(&["annotations", "logprobs", "cache_control"]);
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
    fn reasoning_and_function_calls_of_earlier_answers_are_kept() {
        let got = taken(json!([
            {"role": "user", "content": "Add."},
            {"role": "assistant", "reasoning": "Hm.", "content": "Yes.", "audio": null, "cache_control": {}},
            {"role": "assistant", "content": null, "function_call": {"name": "add", "arguments": "{}"}},
            {"role": "function", "name": "add", "content": "2"},
        ]));
        let call = json!({"id": "call00000", "type": "function", "function": {"name": "add", "arguments": {}}});
        let expected = [
            Message::user("Add."),
            Message::assistant("Yes.").with("reasoning_content", json!("Hm.")).with("reasoning", json!("Hm.")),
            Message::assistant("").with("tool_calls", json!([call])),
            Message::new("tool", "2").with("tool_call_id", json!("call00000")).with("name", json!("add")),
        ];
        assert_eq!(got.unwrap(), expected);
        for (message, param) in [
            (json!({"role": "function", "name": "add", "content": "2"}), "messages[0].name"),
            (json!({"role": "user", "content": "x", "reasoning": "y"}), "messages[0].reasoning"),
            (json!({"role": "assistant", "content": "x", "reasoning": 1}), "messages[0].reasoning"),
        ] {
            assert_eq!(taken(json!([message])).unwrap_err().param.as_deref(), Some(param), "{message}");
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
