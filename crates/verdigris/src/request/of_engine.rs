//! Requests of an engine.

use verdigris_text::Message;

use crate::engine::Engine;
use crate::prompt::Prompt;
use crate::request::Request;

impl Engine {
    /// Begins a request that continues `prompt`. An empty prompt begins a new text.
    pub fn request(&self, prompt: impl Into<String>) -> Request<'_> {
        Request::new(self, Prompt::Text(prompt.into()))
    }

    /// Begins a request for the model's next message in a conversation, by its chat template. The content of messages
    /// is plain text: `<|im_end|>` in it does not end a message.
    pub fn chat(&self, messages: impl IntoIterator<Item = Message>) -> Request<'_> {
        Request::new(self, messages.into_iter().collect::<Vec<_>>().into())
    }
}
