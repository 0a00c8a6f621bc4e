//! What is sent back, whole or piece by piece: the objects of OpenAI's protocol.
//!
//! | module | holds |
//! |---|---|
//! | `said` | what a text says: words, and calls of tools |
//! | `choices` | answers of `/v1/chat/completions` and `/v1/completions` |
//! | `response` | answers of `/v1/responses` |
//! | `logprobs` | logarithms of probabilities |

mod choices;
mod logprobs;
mod response;
mod said;

use serde_json::Value;
use verdigris::{Stop, Written};

use crate::calls::reader::Part;
use crate::protocol::Refusal;
use crate::protocol::mark::MarkStatus;

pub(crate) use choices::{Choices, Shape};
pub(crate) use response::Response;
pub(crate) use said::{Call, Said};

/// The tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
}

/// One of several texts that have ended.
pub(crate) struct Choice {
    /// The prompt as text, where it stands before the answer.
    pub(crate) echo: Option<String>,
    pub(crate) written: Box<Written>,
    pub(crate) said: Said,
    pub(crate) mark: MarkStatus,
}

impl Choice {
    /// Whether its tokens were used up before it was whole, or a call was closed because they were.
    fn is_cut(&self) -> bool {
        let is_whole = !self.said.calls.is_empty() && self.written.complete == Some(true) && !self.written.closed;
        matches!(self.written.stop, Some(Stop::Length | Stop::Context)) && !is_whole
    }

    /// Why it ended.
    pub(crate) fn finish_reason(&self) -> &'static str {
        match (self.is_cut(), self.said.calls.is_empty()) {
            (true, _) => "length",
            (false, false) => "tool_calls",
            (false, true) => "stop",
        }
    }
}

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Its name, where events have names.
    pub(crate) event: Option<&'static str>,
    pub(crate) data: String,
}

/// How one protocol tells an answer: whole, or as its texts come. Texts have numbers, from 0.
pub(crate) trait Voice: Send {
    /// The answer's name.
    fn id(&self) -> &str;

    /// All texts at once.
    fn whole(&self, choices: &[Choice], usage: Usage) -> Value;

    /// A text begins; the prompt where that stands before it.
    fn begin(&mut self, number: usize, echo: Option<&str>, told: &mut Vec<Told>);

    /// What comes next of a text.
    fn part(&mut self, number: usize, part: Part, told: &mut Vec<Told>);

    /// A text has ended.
    fn end(&mut self, number: usize, choice: &Choice, told: &mut Vec<Told>);

    /// All texts have.
    fn over(&mut self, usage: Usage, told: &mut Vec<Told>);

    /// A text could not be written to its end, and so the stream ends.
    fn failed(&mut self, refusal: &Refusal, told: &mut Vec<Told>);
}

/// A new name: letters and digits, as many as there are bytes.
fn new_name<const N: usize>() -> String {
    const SIGNS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut random = [0; N];
    // Names need not be secret: where the system has no random numbers, the time tells answers apart.
    if getrandom::fill(&mut random).is_err() {
        let time = jiff::Timestamp::now().as_nanosecond().to_le_bytes();
        random.iter_mut().zip(time).for_each(|(random, time)| *random = time);
    }
    random.iter().map(|&byte| char::from(SIGNS[usize::from(byte) % SIGNS.len()])).collect()
}
