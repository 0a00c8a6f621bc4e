//! The messages of a conversation.

use serde_json::Value;
use verdigris::Message;

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// Takes the messages of a chat: at least one, with text alone.
pub(crate) fn take(body: &mut Fields, name: &str) -> Result<Vec<Message>, Refusal> {
    let items = body.items(name)?.ok_or_else(|| body.missing(name))?;
    if items.is_empty() {
        let path = body.path(name);
        return Err(Refusal::field(&path, "invalid_value", format!("{path} is empty: give at least one message")));
    }
    items.into_iter().map(|(path, item)| message(Fields::of(item, path)?)).collect()
}

fn message(mut fields: Fields) -> Result<Message, Refusal> {
    let role: String = fields.need("role")?;
    // The templates of models know `developer`, OpenAI's newer word for it, by its older one.
    let role = match role.as_str() {
        "developer" => "system",
        "system" | "user" | "assistant" => &role,
        _ => {
            let path = fields.path("role");
            let message = format!("{path} is {role:?}, but must be system, developer, user or assistant");
            return Err(Refusal::field(path, "invalid_value", message));
        }
    };
    let path = fields.path("content");
    let content = fields.value("content").ok_or_else(|| fields.missing("content"))?;
    let message = Message::new(role, text(content, path)?);
    fields.ignore(&["name"]);
    fields.end()?;
    Ok(message)
}

/// Text, or an array of parts of text, one after the other.
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
                let message = format!("{path} is {kind:?}, but this server reads text alone");
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
