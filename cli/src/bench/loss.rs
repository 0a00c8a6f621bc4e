//! `verdigris bench loss`: measures how well a model predicts a text.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris_train::Corpus;

use crate::engine::EngineOptions;
use crate::error::Failure;
use crate::report::print_json;

/// Measure how well a model, steered or not, predicts a text
#[derive(Args)]
#[command(after_help = "\
The text is plain or .zst, with documents separated by <|endoftext|>. Windows are spread evenly over it.

Examples:
  verdigris bench loss --text heldout.txt
  verdigris bench loss --text plays.txt --expert tale-expert --anti tale-small")]
pub(crate) struct Loss {
    /// The text
    #[arg(long, value_name = "FILE")]
    text: PathBuf,
    /// Maximum number of windows
    #[arg(long, value_name = "N", default_value_t = 128)]
    windows: usize,
    /// Tokens per window
    #[arg(long, value_name = "N", default_value_t = 512)]
    window: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineOptions,
}

impl Loss {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let engine = self.engine.engine()?;
        if !(1..engine.context_length()).contains(&self.window) || self.windows == 0 {
            let message = format!("--window must be 1 to {}, and --windows at least 1", engine.context_length() - 1);
            return Err(Failure::Usage(message));
        }
        let end = engine.end().first().copied().unwrap_or(0);
        let corpus = Corpus::read(&self.text, engine.reader().tokenizer(), end)?;
        corpus.check(self.window, &self.text)?;
        let found = engine.perplexity(corpus.spread(self.window, self.windows))?;
        if found.loss().is_nan() {
            let message = "the loss is not a number, since the model's logits are not: its weights are damaged";
            return Err(Failure::Usage(message.into()));
        }
        if self.json {
            let (tokens, loss, perplexity) = (found.tokens, found.loss(), found.value());
            return print_json(&serde_json::json!({"tokens": tokens, "loss": loss, "perplexity": perplexity}));
        }
        let mut out = anstream::stdout();
        writeln!(out, "tokens      {}", found.tokens)?;
        writeln!(out, "loss        {:.4} nats a token", found.loss())?;
        writeln!(out, "perplexity  {:.2}", found.value())?;
        Ok(ExitCode::SUCCESS)
    }
}
