//! Conversations: messages, and the tools that a model may call in them.

use serde::Serialize;
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant` in most templates, and `tool` in those that know tools.
    pub role: String,
    /// The text of the message.
    pub content: String,
    /// What else templates read: `tool_calls` of what the model said, `tool_call_id` and `name` of what a tool gave.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Message {
    /// A message of any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), more: Map::new() }
    }

    /// What the one who asks says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// What the model is told to be.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// What the model has said.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }

    /// The same with something else that templates read.
    pub fn with(mut self, name: impl Into<String>, value: Value) -> Self {
        self.more.insert(name.into(), value);
        self
    }
}

/// What a model answers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// What was said, the oldest first.
    pub messages: Vec<Message>,
    /// The tools that may be called, each as OpenAI describes one: `{"type": "function", "function": {"name": ...,
    /// "description": ..., "parameters": SCHEMA}}`. A template that knows none leaves them out.
    pub tools: Vec<Value>,
}

impl<M: Into<Vec<Message>>> From<M> for Conversation {
    fn from(messages: M) -> Self {
        Self { messages: messages.into(), tools: Vec::new() }
    }
}

impl Conversation {
    /// The bytes of all that somebody wrote.
    pub(super) fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.each_text(&mut |text| bytes += text.len());
        bytes
    }

    /// Whether a character is somewhere in it.
    pub(super) fn contains(&self, character: char) -> bool {
        let mut is_in = false;
        self.each_text(&mut |text| is_in |= text.contains(character));
        is_in
    }

    fn each_text(&self, each: &mut dyn FnMut(&str)) {
        for Message { role, content, more } in &self.messages {
            each(role);
            each(content);
            more.iter().for_each(|(name, value)| {
                each(name);
                texts(value, each);
            });
        }
        self.tools.iter().for_each(|tool| texts(tool, each));
    }

    /// The same with other texts; names of fields are left as they are, but for those of objects that somebody wrote.
    pub(super) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        let messages = self.messages.iter().map(|Message { role, content, more }| Message {
            role: change(role),
            content: change(content),
            more: more.iter().map(|(name, value)| (name.clone(), mapped(value, &change))).collect(),
        });
        let tools = self.tools.iter().map(|tool| mapped(tool, &change));
        Self { messages: messages.collect(), tools: tools.collect() }
    }
}

fn texts(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, each)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            each(name);
            texts(value, each);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn mapped(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => items.iter().map(|item| mapped(item, change)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (change(name), mapped(value, change))).collect(),
        other => other.clone(),
    }
}
