//! A conversation, and what lines do to it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use verdigris::{Conversation, Engine, Key, Message, Service};

use crate::chat::command::Line;
use crate::chat::options::Chat;
use crate::error::Failure;
use crate::output::OutputFile;
use crate::terminal::say;

/// A conversation with a model.
pub(super) struct Talk<'c> {
    pub(super) chat: &'c Chat,
    pub(super) engine: &'c Engine,
    pub(super) service: &'c Service,
    pub(super) key: Option<&'c Key>,
    /// Set by Ctrl-C while an answer is written.
    pub(super) is_stopped: Arc<AtomicBool>,
    pub(super) is_terminal: bool,
    pub(super) state: State,
}

/// The part that lines change.
pub(super) struct State {
    pub(super) system: Option<String>,
    /// Messages and answers in turn.
    pub(super) messages: Vec<Message>,
    /// Whether names of control tokens in messages and in the system prompt are these tokens.
    pub(super) has_controls: bool,
    pub(super) is_marked: bool,
    /// The number of answers so far, with those that were written again.
    pub(super) answers: u64,
}

impl State {
    /// The prompt of the next answer.
    pub(super) fn conversation(&self) -> Conversation {
        let system = self.system.iter().map(|text| self.given(Message::system(text)));
        system.chain(self.messages.iter().cloned()).collect::<Vec<_>>().into()
    }

    /// A message of the user.
    fn given(&self, message: Message) -> Message {
        if self.has_controls { message.with_controls() } else { message }
    }

    /// Forgets the last answer, and returns it.
    fn forget_answer(&mut self) -> Result<Message, Failure> {
        let answer = self.messages.pop_if(|last| last.role == "assistant");
        answer.ok_or_else(|| Failure::Usage("nothing has been answered yet".into()))
    }
}

impl Talk<'_> {
    /// Does what a line says.
    pub(super) fn take(&mut self, line: Line) -> Result<(), Failure> {
        let state = &mut self.state;
        match line {
            Line::Message(text) => {
                let message = state.given(Message::user(text));
                state.messages.push(message);
                let answered = self.answer();
                if !matches!(answered, Ok(true)) {
                    self.state.messages.pop();
                }
                self.end(answered, "the message was forgotten")?;
            }
            Line::Regenerate => {
                let old = state.forget_answer()?;
                let answered = self.answer();
                if !matches!(answered, Ok(true)) {
                    self.state.messages.push(old);
                }
                self.end(answered, "the last answer was kept")?;
            }
            Line::Undo => {
                state.forget_answer()?;
                state.messages.pop();
            }
            Line::System(text) => state.system = text,
            Line::Clear => state.messages.clear(),
            Line::Mark(true) if self.key.is_none() => {
                return Err(Failure::Usage("marks need a key: start the program with --key FILE".into()));
            }
            Line::Mark(is_marked) => state.is_marked = is_marked,
            Line::Save(path) if path.exists() => {
                return Err(Failure::Usage(format!("{} exists already: give another name", path.display())));
            }
            Line::Save(path) => {
                let messages = state.conversation().messages;
                let text = serde_json::to_string_pretty(&messages).expect("messages are JSON") + "\n";
                OutputFile::new(&path, false, &[])?.write(|out| out.write_all(text.as_bytes()))?;
                say!("saved {} messages to {}", messages.len(), path.display());
            }
            Line::Help | Line::End => (),
        }
        Ok(())
    }

    /// Says what became of the conversation if an answer was stopped before it began. The cures of faults are those of
    /// a conversation.
    fn end(&self, answered: Result<bool, Failure>, kept: &str) -> Result<(), Failure> {
        match answered {
            Ok(is_answered) => {
                if !is_answered && self.is_terminal {
                    say!("stopped: {kept}");
                }
                Ok(())
            }
            Err(Failure::Verdigris(verdigris::Error::PromptTooLong { tokens, context })) => {
                Err(Failure::Usage(format!(
                    "the conversation has {tokens} tokens, and {context} fit with the answer: /undo and /clear forget \
                     messages; a larger -c may help"
                )))
            }
            Err(failure) => Err(failure),
        }
    }
}
