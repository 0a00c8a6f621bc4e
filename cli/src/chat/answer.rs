//! One answer, written as it is generated.

use std::io::Write;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use verdigris::{Event, Level, MarkCheck, Message, Prompt, Request, Written};

use crate::chat::talk::Talk;
use crate::error::Failure;
use crate::terminal::{say, shown};

/// The time after which a wait looks whether the answer was stopped.
const STOPPED: Duration = Duration::from_millis(50);

impl Talk<'_> {
    /// Writes the answer to the conversation, and adds it. `false` if it was stopped before its text began.
    pub(super) fn answer(&mut self) -> Result<bool, Failure> {
        let chat = self.chat;
        let prompt = Prompt::Chat(self.state.conversation());
        let mut request = self.engine.request("").prompt(prompt).max_tokens(chat.max_tokens);
        request = chat.ctx_size.filter(|&tokens| tokens > 0).into_iter().fold(request, Request::context);
        request = chat.reasoning.apply(chat.sampling.apply(request));
        if let Some(key) = self.key.filter(|_| self.state.is_marked) {
            request = request.watermark(key);
        }
        if let Some(seed) = chat.seed {
            request = request.seed(seed.wrapping_add(self.state.answers));
        }
        self.state.answers += 1;
        self.is_stopped.store(false, Ordering::Relaxed);
        let (sender, events) = mpsc::channel();
        let is_stopped = self.is_stopped.clone();
        let text = request.submit(self.service, move |event| {
            let is_over = is_stopped.load(Ordering::Relaxed);
            match sender.send(event) {
                Ok(()) if !is_over => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        })?;
        let mut page = Page { is_terminal: self.is_terminal, in_thought: false, answer: String::new() };
        let mut written = None;
        loop {
            // While the prompt is read there are no events.
            let event = match events.recv_timeout(STOPPED) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) if !self.is_stopped.load(Ordering::Relaxed) => continue,
                Err(_) => break,
            };
            match event {
                Event::Begun => (),
                Event::Reasoning(piece) => page.thought(&piece.text)?,
                Event::Text(piece) => page.text(&piece.text)?,
                Event::End(ending) => written = Some(ending.at_once()),
                Event::Failed(error) => return Err(error.into()),
            }
            if self.is_stopped.load(Ordering::Relaxed) {
                break;
            }
        }
        drop(text);
        page.end()?;
        let answer = std::mem::take(&mut page.answer);
        if written.is_none() && answer.is_empty() {
            return Ok(false);
        }
        if self.is_terminal && !chat.run.quiet {
            let (how, check) = self.said_of(&answer, written.as_ref())?;
            let dim = anstyle::Style::new().dimmed();
            let mark = check.map(|check| format!(", {}", said(&check))).unwrap_or_default();
            say!("{dim}{how}{mark}{dim:#}");
        }
        self.state.messages.push(Message::assistant(answer));
        Ok(true)
    }

    /// How an answer ended, and whether its mark is found, if it should have one. An answer that was stopped has
    /// nothing but its text.
    fn said_of(&self, answer: &str, written: Option<&Written>) -> Result<(String, Option<MarkCheck>), Failure> {
        let key = self.key.filter(|_| self.state.is_marked);
        let Some(written) = written else {
            let evidence = key.map(|key| self.engine.reader().detect_delivered(key, answer)).transpose();
            let evidence = evidence.map_err(verdigris::Error::Detect)?;
            return Ok(("stopped".into(), evidence.map(|found| MarkCheck::of(&found, Level::DEFAULT, false))));
        };
        let check = key.map(|key| self.engine.mark_check(key, written, Level::DEFAULT)).transpose()?;
        let is_cut = written.is_cut_short() || written.stop == Some(verdigris::Stop::Length);
        Ok((format!("{} tokens{}", written.tokens.len(), if is_cut { ", cut" } else { "" }), check))
    }
}

/// The result of detection in a few words.
fn said(check: &MarkCheck) -> String {
    match check.reason {
        None => format!("marked (p = 1e{:.0})", check.log10_p),
        Some(reason) => format!("mark not provable: {reason}"),
    }
}

/// Standard output.
struct Page {
    is_terminal: bool,
    in_thought: bool,
    answer: String,
}

impl Page {
    /// A piece of the thought, which only a terminal shows.
    fn thought(&mut self, piece: &str) -> Result<(), Failure> {
        self.in_thought = true;
        if self.is_terminal {
            let (dim, mut out) = (anstyle::Style::new().dimmed(), anstream::stdout());
            write!(out, "{dim}{}{dim:#}", shown(piece))?;
            out.flush()?;
        }
        Ok(())
    }

    fn text(&mut self, piece: &str) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        if self.is_terminal {
            if std::mem::take(&mut self.in_thought) {
                out.write_all(b"\n\n")?;
            }
            out.write_all(shown(piece).as_bytes())?;
        } else {
            out.write_all(piece.as_bytes())?;
        }
        out.flush()?;
        self.answer.push_str(piece);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }
}
