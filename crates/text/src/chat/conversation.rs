//! Conversations: messages, and the tools that a model may call in them.

use serde::Serialize;
use serde_json::{Map, Value};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The speaker: `system`, `user` or `assistant` in most templates, and `tool` in those that support tools.
    pub role: String,
    /// The text of the message.
    pub content: String,
    /// Other fields that templates read: `tool_calls` in messages of the model, `tool_call_id` and `name` in those of
    /// tools.
    #[serde(flatten)]
    pub more: Map<String, Value>,
    /// Whether names of control tokens in its text are these tokens: see [`Message::with_controls`].
    #[serde(skip)]
    has_controls: bool,
}

impl Message {
    /// Creates a message with any role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), more: Map::new(), has_controls: false }
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// Creates a message with instructions for the model.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }

    /// Adds another field that templates read.
    pub fn with(mut self, name: impl Into<String>, value: Value) -> Self {
        self.more.insert(name.into(), value);
        self
    }

    /// Turns names of control tokens in its text into these tokens, which are plain text otherwise. So the text can end
    /// its message and begin others: only for texts of users that may write the whole prompt.
    pub fn with_controls(mut self) -> Self {
        self.has_controls = true;
        self
    }
}

/// The conversation that a model continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The messages, the oldest first.
    pub messages: Vec<Message>,
    /// The tools that may be called, in OpenAI's format: `{"type": "function", "function": {"name": ..., "description":
    /// ..., "parameters": SCHEMA}}`. A template without support for tools ignores them.
    pub tools: Vec<Value>,
    /// Further variables of the template, such as `enable_thinking`. They do not replace those that every template has:
    /// the messages, the tools, the begin and end tokens.
    pub arguments: Map<String, Value>,
    /// How the prompt ends.
    pub turn: Turn,
}

/// How the prompt of a conversation ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turn {
    /// With the beginning of the model's next message.
    #[default]
    #[doc(alias = "add_generation_prompt")]
    Next,
    /// After the last message: the model decides what comes next.
    After,
    /// Within the last message, after its text: the model continues it.
    #[doc(alias = "continue_final_message")]
    Within,
}

impl<M: Into<Vec<Message>>> From<M> for Conversation {
    fn from(messages: M) -> Self {
        Self { messages: messages.into(), ..Self::default() }
    }
}

impl Conversation {
    /// The total number of bytes of all texts in it.
    pub(super) fn bytes(&self) -> usize {
        let mut bytes = 0;
        self.each_text(&mut |text| bytes += text.len());
        bytes
    }

    /// Whether it contains a character.
    pub(super) fn contains(&self, character: char) -> bool {
        let mut is_in = false;
        self.each_text(&mut |text| is_in |= text.contains(character));
        is_in
    }

    fn each_text(&self, each: &mut dyn FnMut(&str)) {
        for Message { role, content, more, .. } in &self.messages {
            each(role);
            each(content);
            more.iter().for_each(|(name, value)| {
                each(name);
                texts(value, each);
            });
        }
        self.tools.iter().chain(self.arguments.values()).for_each(|value| texts(value, each));
    }

    /// Replaces all texts except those [with controls](Message::with_controls); the names of fields are unchanged,
    /// except within nested objects, which a client wrote.
    pub(super) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        let messages = self.messages.iter().map(|Message { role, content, more, has_controls }| Message {
            role: change(role),
            content: if *has_controls { content.clone() } else { change(content) },
            more: more.iter().map(|(name, value)| (name.clone(), mapped(value, &change))).collect(),
            has_controls: *has_controls,
        });
        let tools = self.tools.iter().map(|tool| mapped(tool, &change));
        let arguments = self.arguments.iter().map(|(name, value)| (name.clone(), mapped(value, &change)));
        let (messages, tools) = (messages.collect(), tools.collect());
        Self { messages, tools, arguments: arguments.collect(), turn: self.turn }
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
