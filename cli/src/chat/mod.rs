//! `verdigris chat`: a conversation at the terminal.

mod answer;
mod command;
mod input;
mod talk;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use verdigris::schedule::Capacity;
use verdigris::{Key, Service};

use crate::chat::command::{HELP, Line};
use crate::chat::input::Input;
use crate::chat::talk::{State, Talk};
use crate::engine::EngineOptions;
use crate::error::Failure;
use crate::number::whole;
use crate::reasoning::ReasoningOptions;
use crate::run::RunOptions;
use crate::sampling::SamplingOptions;
use crate::terminal::{headed, say, shown_line};

/// The most tokens of a conversation that are kept between its turns.
const KEPT: usize = 1 << 15;

/// Talk with a model: each line is a message, and the answer is written as it is generated
#[derive(Args)]
#[command(after_help = "\
Lines that begin with / are commands; /help lists them. A message of several lines is put between two lines of three \
quotation marks. Ctrl-C stops an answer, which stays in the conversation; Ctrl-D ends the program. The thought of a \
model that reasons is shown dimmed.

Without a terminal, each line of standard input is a message, and standard output has the answers, a line end after \
each.

Examples:
  verdigris chat -m Qwen/Qwen3-0.6B
  verdigris chat -m smollm2.gguf --system \"Be brief.\" -k my.key
  echo \"What is a spar?\" | verdigris chat -m smollm2.gguf --temperature 0")]
pub(crate) struct Chat {
    /// The system prompt
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    system: Option<String>,
    /// Mark answers with this key; /mark off stops it
    #[arg(short, long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Maximum number of tokens of an answer, with its thought
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1024, value_parser = whole::<usize>)]
    max_tokens: usize,
    /// The random seed of the first answer; the next ones have the seeds after it
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>)]
    seed: Option<u64>,
    #[command(flatten)]
    run: RunOptions,
    // Groups with a heading come last, because a heading applies to all options after it.
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten, next_help_heading = "Reasoning")]
    reasoning: ReasoningOptions,
    #[command(flatten, next_help_heading = "Sampling")]
    sampling: SamplingOptions,
}

impl Chat {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let key = self.key.as_deref().map(Key::load).transpose()?;
        let engine = self.engine.engine()?;
        engine.chat_template()?;
        if let Some(key) = &key {
            engine.reader().fits(key).map_err(verdigris::Error::Detect)?;
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
        let state = State { system: self.system.clone(), messages: Vec::new(), is_marked: key.is_some(), answers: 0 };
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
