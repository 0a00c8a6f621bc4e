//! The options of a chat.

use std::path::PathBuf;

use clap::Args;

use crate::engine::EngineOptions;
use crate::number::whole;
use crate::reasoning::ReasoningOptions;
use crate::run::RunOptions;
use crate::sampling::SamplingOptions;

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
    pub(super) system: Option<String>,
    /// Use the chat template in this file instead of the model's own
    #[arg(long, value_name = "FILE")]
    pub(super) chat_template: Option<PathBuf>,
    /// Names of control tokens in messages and in the system prompt, such as <|im_end|>, are these tokens, not text
    #[arg(long)]
    pub(super) tokens: bool,
    /// Mark answers with this key; /mark off stops it
    #[arg(short, long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Maximum number of tokens of an answer, with its thought
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1024, value_parser = whole::<usize>)]
    pub(super) max_tokens: usize,
    /// Maximum number of tokens of the conversation and the answer together; 0 is the model's own [default: 0]
    #[arg(short = 'c', long, value_name = "N", value_parser = whole::<usize>)]
    pub(super) ctx_size: Option<usize>,
    /// The random seed of the first answer; the next ones have the seeds after it
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>)]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) run: RunOptions,
    // Groups with a heading come last, because a heading applies to all options after it.
    #[command(flatten)]
    pub(super) engine: EngineOptions,
    #[command(flatten, next_help_heading = "Reasoning")]
    pub(super) reasoning: ReasoningOptions,
    #[command(flatten, next_help_heading = "Sampling")]
    pub(super) sampling: SamplingOptions,
}
