//! An incremental parser for tool calls in a text.

use std::sync::Arc;

use super::arguments::ArgumentsReader;
use super::format::CallFormat;
use super::value::{begun, find, plain};
use crate::stream::StreamPart;

/// The next part of a text. No string is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedPart {
    /// Text outside calls.
    Text(String),
    /// A call begins: the name of the tool.
    Call(String),
    /// A piece of the arguments of the call, as JSON.
    Arguments(String),
    /// The arguments are complete.
    CallEnd,
}

/// A call that was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutCall {
    /// The source text of the call.
    pub text: String,
    /// Whether [`ParsedPart::Call`] was returned for it.
    pub is_begun: bool,
}

/// Parses a text that obeys a grammar of calls in a format, split into any pieces.
#[derive(Debug)]
pub struct CallReader {
    /// The format of calls; `None` if the text cannot contain any.
    format: Option<Arc<CallFormat>>,
    state: ReaderState,
    /// Input that has not been returned yet, as grammars spell it.
    held: Vec<u8>,
    /// The source text of the current call.
    call: Vec<u8>,
}

#[derive(Debug)]
enum ReaderState {
    /// At the beginning of the text; whether the part that may precede it is still possible.
    Begin { may_lead: bool },
    /// Before any call.
    Text,
    /// At the string that opens calls.
    Open,
    /// At the name of a tool.
    Name,
    /// At the id of a call.
    Id(String),
    /// At the sign before the arguments.
    Sign(String),
    /// In the arguments of a tool.
    Arguments(String, ArgumentsReader),
    /// After the arguments of a call.
    After,
    /// After the last call.
    Rest,
}

impl CallReader {
    /// A reader at the beginning of a text.
    pub fn new(format: Option<Arc<CallFormat>>) -> Self {
        Self { format, state: ReaderState::Begin { may_lead: true }, held: Vec::new(), call: Vec::new() }
    }

    /// Reads text, and appends the parts that are now certain.
    pub fn push(&mut self, piece: &str, parts: &mut Vec<ParsedPart>) {
        self.push_spelled(piece.as_bytes(), parts);
    }

    /// Reads a part of a stream of tokens, and appends the parts that are now certain.
    pub fn push_part(&mut self, part: StreamPart<'_>, parts: &mut Vec<ParsedPart>) {
        let mut spelled = Vec::new();
        part.spell(&mut spelled);
        self.push_spelled(&spelled, parts);
    }

    /// Reads whole characters and control tokens, as grammars spell them, and appends the parts that are now certain.
    pub fn push_spelled(&mut self, piece: &[u8], parts: &mut Vec<ParsedPart>) {
        self.held.extend_from_slice(piece);
        let Some(format) = self.format.clone() else { return self.text(self.held.len(), parts) };
        while self.step(&format, parts) {}
    }

    /// Reads at most one part; returns whether there may be more.
    fn step(&mut self, format: &CallFormat, parts: &mut Vec<ParsedPart>) -> bool {
        let syntax = format.syntax();
        match &mut self.state {
            ReaderState::Begin { may_lead } => {
                let (may_lead, held) = (*may_lead && !syntax.lead.is_empty(), &self.held);
                let may_begin = |sign: &[u8]| !sign.is_empty() && sign.starts_with(held) && held.len() < sign.len();
                if may_lead && held.starts_with(&syntax.lead) {
                    self.held.drain(..syntax.lead.len());
                    self.state = ReaderState::Begin { may_lead: false };
                } else if syntax.is_first && format.marks().iter().any(|mark| held.starts_with(mark)) {
                    self.state = ReaderState::Open;
                } else if !syntax.words.is_empty() && held.starts_with(&syntax.words) {
                    self.held.drain(..syntax.words.len());
                    self.state = ReaderState::Text;
                } else if may_lead && may_begin(&syntax.lead)
                    || may_begin(&syntax.words)
                    || syntax.is_first && format.marks().iter().any(|mark| may_begin(mark))
                {
                    return false;
                } else {
                    self.state = ReaderState::Text;
                }
                true
            }
            // The text did not begin with a call, so it has none.
            ReaderState::Text if syntax.is_first => {
                self.text(self.held.len(), parts);
                false
            }
            ReaderState::Text => {
                if let Some(begin) = find(&self.held, &syntax.mark) {
                    self.text(begin, parts);
                    self.state = ReaderState::Open;
                    return true;
                }
                self.text(self.held.len() - begun(&self.held, &syntax.mark), parts);
                false
            }
            ReaderState::Open => self.sign(&[&syntax.open[..], &syntax.name].concat(), ReaderState::Name),
            ReaderState::Name => {
                let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
                let Some(end) = self.held.iter().position(|byte| !is_of_name(byte)) else { return false };
                let name = plain(&self.take(end));
                self.state = if syntax.id.is_some() { ReaderState::Id(name) } else { ReaderState::Sign(name) };
                true
            }
            ReaderState::Id(name) => {
                let before = syntax.id.as_ref().map_or(&b""[..], |id| &id.before);
                let after_sign = self.held.get(before.len()..).unwrap_or_default();
                let is_there = self.held.starts_with(before);
                let Some(length) = after_sign.iter().position(|byte| !byte.is_ascii_alphanumeric()) else {
                    return false;
                };
                if is_there {
                    let name = std::mem::take(name);
                    self.take(before.len() + length);
                    self.state = ReaderState::Sign(name);
                }
                is_there
            }
            ReaderState::Sign(name) => {
                let name = std::mem::take(name);
                let next = ReaderState::Arguments(name.clone(), ArgumentsReader::default());
                let is_there = self.sign(&syntax.arguments, next);
                match is_there {
                    true => parts.push(ParsedPart::Call(name)),
                    false => self.state = ReaderState::Sign(name),
                }
                is_there
            }
            ReaderState::Arguments(name, reader) => {
                let mut out = Vec::new();
                let (length, is_whole) =
                    reader.read(&self.held, syntax.notation.as_ref(), format.kinds(name), &mut out);
                if !out.is_empty() {
                    parts.push(ParsedPart::Arguments(plain(&out)));
                }
                self.take(length);
                if is_whole {
                    parts.push(ParsedPart::CallEnd);
                    self.state = ReaderState::After;
                }
                is_whole
            }
            ReaderState::After => {
                let next = [&syntax.end[..], &syntax.between, &syntax.name].concat();
                let goes_on = syntax.several && self.held.starts_with(&next);
                if goes_on {
                    // The close of the call before it is not a part of the next one.
                    let close = match syntax.between.strip_suffix(&syntax.open[..]) {
                        Some(close) if !syntax.open.is_empty() => close.len(),
                        _ => syntax.between.iter().take_while(|byte| byte.is_ascii_whitespace()).count(),
                    };
                    self.held.drain(..syntax.end.len() + close);
                    self.call.clear();
                    self.take(next.len() - syntax.end.len() - close);
                    self.state = ReaderState::Name;
                } else if !next.starts_with(&self.held) {
                    self.state = ReaderState::Rest;
                }
                goes_on
            }
            // Only the closing string is left, which is not a part.
            ReaderState::Rest => {
                self.held.clear();
                false
            }
        }
    }

    /// Reads a sign and goes to the next state; returns whether it was there.
    fn sign(&mut self, sign: &[u8], next: ReaderState) -> bool {
        let is_there = self.held.starts_with(sign);
        if is_there {
            self.take(sign.len());
            self.state = next;
        }
        is_there
    }

    /// Returns the first `length` held bytes as text.
    fn text(&mut self, length: usize, parts: &mut Vec<ParsedPart>) {
        let text: Vec<u8> = self.held.drain(..length).collect();
        let text = plain(&text);
        parts.extend((!text.is_empty()).then_some(ParsedPart::Text(text)));
    }

    /// Takes the first `length` held bytes as part of a call.
    fn take(&mut self, length: usize) -> Vec<u8> {
        let taken: Vec<u8> = self.held.drain(..length).collect();
        self.call.extend_from_slice(&taken);
        taken
    }

    /// Ends the text and appends what was held back. Returns a call that was cut short.
    pub fn finish(&mut self, parts: &mut Vec<ParsedPart>) -> Option<CutCall> {
        match self.state {
            ReaderState::Begin { .. } | ReaderState::Text => {
                self.text(self.held.len(), parts);
                None
            }
            ReaderState::After | ReaderState::Rest => None,
            _ => {
                let text = [std::mem::take(&mut self.call), std::mem::take(&mut self.held)].concat();
                let is_begun = matches!(self.state, ReaderState::Arguments(..));
                Some(CutCall { text: plain(&text), is_begun })
            }
        }
    }
}
