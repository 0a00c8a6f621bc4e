//! The conversation: messages of text, calls of tools with arguments as objects, their results, and reasoning.

use std::collections::{BTreeMap, HashMap, VecDeque};

use serde_json::{Map, Value, json};
use verdigris::Message;

use crate::protocol::fields::Fields;
use crate::protocol::messages::{Called, with_reasoning};
use crate::protocol::refusal::Refusal;

/// Takes the messages; there may be none.
pub(super) fn take(body: &mut Fields) -> Result<Vec<Message>, Refusal> {
    let items = body.items("messages")?.unwrap_or_default();
    let mut earlier = Earlier::default();
    items.into_iter().map(|(path, item)| message(body.within(item, path)?, &mut earlier)).collect()
}

/// The calls so far, by their numbers.
#[derive(Default)]
struct Earlier {
    called: Called,
    count: usize,
    /// The ids of calls without a result.
    open: BTreeMap<usize, String>,
    numbers: HashMap<String, usize>,
    /// The calls of each tool, of which some may have a result.
    of_tool: HashMap<String, VecDeque<usize>>,
}

impl Earlier {
    fn call(&mut self, id: Option<String>, name: String, arguments: Value) -> Value {
        let id = id.unwrap_or_else(|| self.called.new_id());
        self.open.insert(self.count, id.clone());
        self.numbers.insert(id.clone(), self.count);
        self.of_tool.entry(name.clone()).or_default().push_back(self.count);
        self.count += 1;
        self.called.call(id, name, arguments)
    }

    /// The result of the first call without one that has this id or name, or any.
    fn result(
        &mut self,
        id: Option<&str>,
        name: Option<&str>,
        content: String,
        path: String,
    ) -> Result<Message, Refusal> {
        let number = match (id, name) {
            (Some(id), _) => self.numbers.get(id).copied(),
            (None, Some(name)) => self.of_tool.get_mut(name).and_then(|numbers| {
                while numbers.front().is_some_and(|number| !self.open.contains_key(number)) {
                    numbers.pop_front();
                }
                numbers.pop_front()
            }),
            (None, None) => self.open.first_key_value().map(|(number, _)| *number),
        };
        let Some(id) = number.and_then(|number| self.open.remove(&number)) else {
            let message = format!("{path} is the result of a tool, but no earlier call is without one");
            return Err(Refusal::field(path, "invalid_value", message));
        };
        self.called.result(&id, content, path)
    }
}

fn message(mut fields: Fields, earlier: &mut Earlier) -> Result<Message, Refusal> {
    let role: String = fields.need("role")?;
    let content = fields.take::<String>("content")?.unwrap_or_default();
    let is_none = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    fields.unsupported("images", is_none, "leave it out: this server only reads text")?;
    let message = match role.as_str() {
        "system" | "user" => Message::new(role, content),
        "assistant" => {
            let thinking = fields.take::<String>("thinking")?.filter(|text| !text.is_empty());
            let message = with_reasoning(Message::assistant(content), thinking);
            let calls = calls(&mut fields, earlier)?;
            if calls.is_empty() { message } else { message.with("tool_calls", json!(calls)) }
        }
        "tool" => {
            let id = fields.take::<String>("tool_call_id")?;
            let name = fields.take::<String>("tool_name")?.or(fields.take::<String>("name")?);
            earlier.result(id.as_deref(), name.as_deref(), content, fields.path("role"))?
        }
        _ => {
            let path = fields.path("role");
            let message = format!("{path} is {role:?}, but must be system, user, assistant or tool");
            return Err(Refusal::field(path, "invalid_value", message));
        }
    };
    // Clients send all fields of a message, whatever its role is.
    fields.ignore(&["tool_calls", "tool_name", "tool_call_id", "name", "thinking"]);
    fields.end()?;
    Ok(message)
}

fn calls(fields: &mut Fields, earlier: &mut Earlier) -> Result<Vec<Value>, Refusal> {
    let calls = fields.items("tool_calls")?.unwrap_or_default();
    calls
        .into_iter()
        .map(|(path, call)| {
            let mut call = fields.within(call, path)?;
            let id = call.take("id")?;
            let mut function = call.object("function")?.ok_or_else(|| call.missing("function"))?;
            let name: String = function.need("name")?;
            let arguments = function.take::<Map<String, Value>>("arguments")?.unwrap_or_default();
            function.ignore(&["index", "description"]);
            function.end()?;
            call.ignore(&["type", "index"]);
            call.end()?;
            Ok(earlier.call(id, name, Value::Object(arguments)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(messages: Value) -> Result<Vec<Message>, Refusal> {
        take(&mut Fields::of(json!({"messages": messages}), "").unwrap())
    }

    #[test]
    fn results_belong_to_calls_by_name_or_order() {
        let call = |name: &str, arguments: Value| json!({"function": {"name": name, "arguments": arguments}});
        let got = taken(json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Add.", "images": null, "tool_calls": null},
            {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
                call("add", json!({"a": 1})), call("now", json!({})), call("add", json!({"a": 2})),
            ]},
            {"role": "tool", "tool_name": "now", "content": "noon"},
            {"role": "tool", "content": "1"},
            {"role": "tool", "content": "2"},
        ]));
        let told = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let calls = json!([
            told("call00000", "add", json!({"a": 1})),
            told("call00001", "now", json!({})),
            told("call00002", "add", json!({"a": 2})),
        ]);
        let result = |text: &str, id: &str, name: &str| {
            Message::new("tool", text).with("tool_call_id", json!(id)).with("name", json!(name))
        };
        let expected = [
            Message::system("Be brief."),
            Message::user("Add."),
            with_reasoning(Message::assistant(""), Some("Hm.".into())).with("tool_calls", calls),
            result("noon", "call00001", "now"),
            result("1", "call00000", "add"),
            result("2", "call00002", "add"),
        ];
        assert_eq!(got.unwrap(), expected);
        assert_eq!(taken(json!(null)), Ok(Vec::new()));
        for (message, param) in [
            (json!({"role": "tool", "content": "x"}), "messages[0].role"),
            (json!({"role": "robot", "content": "x"}), "messages[0].role"),
            (json!({"role": "user", "content": ["x"]}), "messages[0].content"),
            (json!({"role": "user", "content": "x", "images": ["aGk="]}), "messages[0].images"),
            (json!({"role": "user", "content": "x", "weight": 1}), "messages[0].weight"),
            (
                json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}),
                "messages[0].tool_calls[0].function.arguments",
            ),
        ] {
            assert_eq!(taken(json!([message])).unwrap_err().param.as_deref(), Some(param), "{message}");
        }
    }
}
