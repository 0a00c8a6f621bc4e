//! `verdigris chat`: a conversation at the terminal.

mod answer;
mod command;
mod input;
mod options;
mod talk;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use verdigris::schedule::Capacity;
use verdigris::{Key, Service};

use crate::chat::command::{HELP, Line};
use crate::chat::input::Input;
pub(crate) use crate::chat::options::Chat;
use crate::chat::talk::{State, Talk};
use crate::error::Failure;
use crate::terminal::{headed, say, shown_line};

/// The most tokens of a conversation that are kept between its turns.
const KEPT: usize = 1 << 15;

impl Chat {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let key = self.key.as_deref().map(Key::load).transpose()?;
        self.reasoning.check_mark(key.is_some())?;
        if !self.run.quiet {
            self.engine.warn();
        }
        let engine = self.engine.engine()?;
        let engine = match &self.chat_template {
            None => engine,
            Some(path) => {
                let fault = |source| Failure::Text { name: path.display().to_string(), source: Box::new(source) };
                engine.with_chat_template(crate::text::read(path)?).map_err(fault)?
            }
        };
        engine.chat_template()?;
        if let Some(key) = &key {
            engine.reader().fits(key).map_err(verdigris::Error::Detect)?;
            if key.payload_bits().is_some() {
                let message = "this key carries a payload, and answers of a chat have none: name another key".into();
                return Err(Failure::Usage(message));
            }
            // A key that marks nothing, such as a published one, is refused before the first message.
            key.variant(0).embed()?;
        }
        let tokens = engine.context_length().min(KEPT);
        // What was read of a conversation is kept for its next turn.
        let capacity = Capacity { kept: tokens, ..Capacity::of_texts(&**engine.model(), 1, tokens) };
        let service = Service::start(&engine, capacity);
        let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let is_stopped = Arc::new(AtomicBool::new(false));
        #[cfg(unix)]
        if is_terminal {
            // If this fails, Ctrl-C ends the program.
            let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, is_stopped.clone());
        }
        let mut input = Input::new(is_terminal)?;
        let state = State {
            system: self.system.clone(),
            messages: Vec::new(),
            has_controls: self.tokens,
            is_marked: key.is_some(),
            answers: 0,
        };
        let (chat, engine, service, key) = (&self, &engine, &service, key.as_ref());
        let mut talk = Talk { chat, engine, service, key, is_stopped, is_terminal, state };
        if is_terminal && !self.run.quiet {
            say!("{}: write a message, or /help", self.engine.model_name());
        }
        while let Some(text) = input.next()? {
            match Line::of(&text) {
                Ok(Line::Message(text)) if text.is_empty() => (),
                Ok(Line::End) => break,
                Ok(Line::Help) => say!("{HELP}"),
                Ok(line) => {
                    if let Err(failure) = talk.take(line) {
                        match (is_terminal, failure) {
                            // A fault ends no conversation.
                            (true, Failure::Output(fault)) => return Err(fault.into()),
                            (true, failure) => headed("error", shown_line(&failure.to_string())),
                            (false, failure) => return Err(failure),
                        }
                    }
                }
                Err(fault) if is_terminal => headed("error", fault),
                Err(fault) => return Err(Failure::Usage(fault)),
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
