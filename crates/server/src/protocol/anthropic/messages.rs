//! The conversation: messages of text, calls of tools, their results, and reasoning, in blocks.

use serde_json::{Value, json};
use verdigris::Message;

use super::tools;
use crate::protocol::fields::{Fields, read};
use crate::protocol::messages::{Called, with_reasoning};
use crate::protocol::refusal::Refusal;

/// The beginning of a block that Claude Code adds to its instructions for Anthropic's accounts. It differs in each
/// request, so that no two prompts would begin alike.
const BILLING: &str = "x-anthropic-billing-header";

/// Takes the instructions, as at most one message.
pub(super) fn take_system(body: &mut Fields) -> Result<Vec<Message>, Refusal> {
    let Some(system) = body.value("system") else { return Ok(Vec::new()) };
    let texts = texts(body, system, "system")?;
    let texts: Vec<String> = texts.into_iter().filter(|text| !text.starts_with(BILLING)).collect();
    Ok(if texts.is_empty() { Vec::new() } else { vec![Message::system(texts.join("\n"))] })
}

/// Takes the messages, of which there is at least one.
pub(super) fn take(body: &mut Fields, messages: &mut Vec<Message>) -> Result<(), Refusal> {
    let items = body.items("messages")?.ok_or_else(|| body.missing("messages"))?;
    if items.is_empty() {
        let message = "messages is empty: give at least one message";
        return Err(Refusal::field("messages", "invalid_value", message));
    }
    let mut called = Called::default();
    items.into_iter().try_for_each(|(path, item)| message(body.within(item, path)?, &mut called, messages))
}

fn message(mut fields: Fields, called: &mut Called, messages: &mut Vec<Message>) -> Result<(), Refusal> {
    let role: String = fields.need("role")?;
    if !matches!(role.as_str(), "user" | "assistant" | "system") {
        let path = fields.path("role");
        let message = format!("{path} is {role:?}, but must be user, assistant or system");
        return Err(Refusal::field(path, "invalid_value", message));
    }
    let content = fields.value("content").ok_or_else(|| fields.missing("content"))?;
    let mut blocks = Blocks::default();
    match content {
        Value::String(text) => blocks.texts.push(text),
        other => {
            let path = fields.path("content");
            for (at, block) in read::<Vec<Value>>(other, path.clone())?.into_iter().enumerate() {
                blocks.block(fields.within(block, format!("{path}[{at}]"))?, &role, called, messages)?;
            }
        }
    }
    fields.end()?;
    blocks.end(role, messages);
    Ok(())
}

/// The blocks of a message.
#[derive(Default)]
struct Blocks {
    texts: Vec<String>,
    reasoning: Vec<String>,
    calls: Vec<Value>,
    has_results: bool,
}

impl Blocks {
    fn block(
        &mut self,
        mut block: Fields,
        role: &str,
        called: &mut Called,
        messages: &mut Vec<Message>,
    ) -> Result<(), Refusal> {
        let kind: String = block.need("type")?;
        match (kind.as_str(), role) {
            ("text", _) => self.texts.push(block.need("text")?),
            ("thinking", "assistant") => {
                self.reasoning.push(block.need("thinking")?);
                block.ignore(&["signature"]);
            }
            // Only Anthropic's models can read it.
            ("redacted_thinking", "assistant") => block.ignore(&["data"]),
            ("tool_use", "assistant") => {
                let (id, name): (String, String) = (block.need("id")?, block.need("name")?);
                self.calls.push(called.call(id, name, tools::input(&mut block)?));
                block.ignore(&["caller"]);
            }
            // Results come before the words of their message, as separate messages.
            ("tool_result", "user") => {
                let id: String = block.need("tool_use_id")?;
                let content = match block.value("content") {
                    None => String::new(),
                    Some(content) => texts(&block, content, "content")?.join("\n"),
                };
                messages.push(called.result(&id, content, block.path("tool_use_id"))?);
                self.has_results = true;
                // The content says what failed.
                block.ignore(&["is_error"]);
            }
            _ => {
                let path = block.path("type");
                let message = format!("{path} is {kind:?}, which this server does not support in a message of {role}");
                return Err(Refusal::field(path, "unsupported_content", message));
            }
        }
        block.ignore(&["cache_control", "citations"]);
        block.end()
    }

    /// Adds the message. Several in a row with one role are one message, as in Anthropic's service.
    fn end(self, role: String, messages: &mut Vec<Message>) {
        let Self { texts, reasoning, calls, has_results } = self;
        if has_results && texts.is_empty() {
            return;
        }
        let text = texts.join("\n");
        let reasoning = Some(reasoning.join("\n")).filter(|text| !text.is_empty());
        let is_plain = reasoning.is_none() && calls.is_empty();
        if let Some(last) = messages.last_mut().filter(|last| last.role == role && last.more.is_empty() && is_plain) {
            last.content.push_str("\n\n");
            last.content.push_str(&text);
            return;
        }
        let message = with_reasoning(Message::new(role, text), reasoning);
        messages.push(if calls.is_empty() { message } else { message.with("tool_calls", json!(calls)) });
    }
}

/// The texts of a string or of text blocks, the value of the field `name` of an object.
fn texts(of: &Fields, content: Value, name: &str) -> Result<Vec<String>, Refusal> {
    let path = of.path(name);
    let blocks = match content {
        Value::String(text) => return Ok(vec![text]),
        other => read::<Vec<Value>>(other, path.clone())?,
    };
    let text = |(at, block): (usize, Value)| {
        let mut block = of.within(block, format!("{path}[{at}]"))?;
        let kind: String = block.need("type")?;
        if kind != "text" {
            let path = block.path("type");
            let message = format!("{path} is {kind:?}, but this server only supports text");
            return Err(Refusal::field(path, "unsupported_content", message));
        }
        let text = block.need::<String>("text")?;
        block.ignore(&["cache_control", "citations"]);
        block.end()?;
        Ok(text)
    };
    blocks.into_iter().enumerate().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: Value) -> Result<Vec<Message>, Refusal> {
        let mut body = Fields::of(body, "").unwrap();
        let mut messages = take_system(&mut body)?;
        take(&mut body, &mut messages)?;
        Ok(messages)
    }

    #[test]
    fn blocks_are_messages_of_templates() {
        let got = taken(json!({
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=0f"},
                {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Be kind."},
            ],
            "messages": [
                {"role": "user", "content": "Add."},
                {"role": "user", "content": [{"type": "text", "text": "Now."}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "redacted_thinking", "data": "d"},
                    {"type": "text", "text": "Yes."},
                    {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c2", "content": "noon", "is_error": false},
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "2"}]},
                    {"type": "text", "text": "Well?"},
                ]},
                {"role": "assistant", "content": "Two."},
            ],
        }));
        let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let result = |text: &str, id: &str, name: &str| {
            Message::new("tool", text).with("tool_call_id", json!(id)).with("name", json!(name))
        };
        let expected = [
            Message::system("Be brief.\nBe kind."),
            Message::user("Add.\n\nNow."),
            with_reasoning(Message::assistant("Yes."), Some("Hm.".into()))
                .with("tool_calls", json!([call("c1", "add", json!({"a": 1})), call("c2", "now", json!({}))])),
            result("noon", "c2", "now"),
            result("2", "c1", "add"),
            Message::user("Well?"),
            Message::assistant("Two."),
        ];
        assert_eq!(got.unwrap(), expected);
        assert_eq!(taken(json!({"system": "", "messages": [{"role": "user", "content": "a"}]})).unwrap().len(), 2);
    }

    #[test]
    fn other_conversations_are_refused() {
        let user = |block: Value| json!([{"role": "user", "content": [block]}]);
        for (messages, param) in [
            (json!(null), "messages"),
            (json!([]), "messages"),
            (json!([{"role": "tool", "content": "x"}]), "messages[0].role"),
            (json!([{"role": "user"}]), "messages[0].content"),
            (json!([{"role": "user", "content": 3}]), "messages[0].content"),
            (user(json!({"type": "image", "source": {}})), "messages[0].content[0].type"),
            (user(json!({"type": "thinking", "thinking": "x"})), "messages[0].content[0].type"),
            (user(json!({"type": "text"})), "messages[0].content[0].text"),
            (user(json!({"type": "text", "text": "a", "size": 1})), "messages[0].content[0].size"),
            (user(json!({"type": "tool_result", "tool_use_id": "c"})), "messages[0].content[0].tool_use_id"),
            (
                json!([{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": "x"}]}]),
                "messages[0].content[0].input",
            ),
        ] {
            let refusal = taken(json!({"messages": messages})).unwrap_err();
            assert_eq!(refusal.param.as_deref(), Some(param), "{messages}");
        }
        let image = json!({"system": [{"type": "image"}], "messages": [{"role": "user", "content": "a"}]});
        assert_eq!(taken(image).unwrap_err().param.as_deref(), Some("system[0].type"));
    }
}
