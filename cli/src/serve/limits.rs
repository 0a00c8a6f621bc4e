//! Options for the limits of a request.

use std::time::Duration;

use clap::Args;
use verdigris_server::Limits;

use crate::number::{seconds, some};

#[derive(Args)]
pub(super) struct LimitOptions {
    /// The most bytes of the address and the headers of a request
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().header, value_parser = some::<usize>)]
    max_header: usize,
    /// The most tokens of a prompt [default: the context of the model]
    #[arg(long, value_name = "N", value_parser = some::<usize>)]
    max_prompt_tokens: Option<usize>,
    /// The most bytes of a JSON Schema, a regular expression, or choices
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().constraint, value_parser = some::<usize>)]
    max_schema: usize,
    /// The most texts of a request: its prompts times the answers to each
    #[arg(long, value_name = "N", default_value_t = Limits::default().texts, value_parser = some::<usize>)]
    max_texts: usize,
    /// The most bytes of memory that an answer may take, by its texts, max_tokens and logprobs
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().answer, value_parser = some::<usize>)]
    max_answer_bytes: usize,
    /// The most bytes of the bodies and answers of all requests together
    #[arg(long, value_name = "BYTES", default_value_t = Limits::default().pending, value_parser = some::<usize>)]
    max_pending_bytes: usize,
    /// The seconds that a request may wait until its prompt is read
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().queue.as_secs(), value_parser = seconds)]
    max_queue_seconds: u64,
    /// The seconds that an answer may take as a whole
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().request.as_secs(), value_parser = seconds)]
    max_request_seconds: u64,
    /// The seconds that a request may take to arrive, and that a connection may be idle
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().read.as_secs(), value_parser = seconds)]
    max_read_seconds: u64,
    /// The seconds after which a connection is closed whose client reads nothing of a waiting answer
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().stall.as_secs(), value_parser = seconds)]
    max_stall_seconds: u64,
    /// The most connections at the same time; others wait to be accepted
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections, value_parser = some::<usize>)]
    max_connections: usize,
}

impl LimitOptions {
    pub(super) fn limits(&self) -> Limits {
        Limits {
            header: self.max_header,
            read: Duration::from_secs(self.max_read_seconds),
            stall: Duration::from_secs(self.max_stall_seconds),
            connections: self.max_connections,
            queue: Duration::from_secs(self.max_queue_seconds),
            request: Duration::from_secs(self.max_request_seconds),
            prompt_tokens: self.max_prompt_tokens.unwrap_or(usize::MAX),
            constraint: self.max_schema,
            texts: self.max_texts,
            answer: self.max_answer_bytes,
            pending: self.max_pending_bytes,
        }
    }
}
