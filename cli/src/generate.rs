//! `verdigris generate`: write text.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use verdigris::{Acceptance, Key, Request, Stop};

use crate::error::Failure;
use crate::model::EngineOptions;

/// Write text, marked with a key or plain, as it comes
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris generate                                    a tale from its beginning
  verdigris generate \"The captain\" --max-tokens 100
  verdigris generate \"The captain\" --key my.key > tale.txt
  verdigris generate \"She was born in\" --regex \" 1[0-9]{3}\"
  verdigris generate --expert fixtures/models/tale-expert --anti fixtures/models/tale-small --alpha 1.0
  verdigris generate --seed 7 --temperature 1 --top-p 1 --json")]
pub(crate) struct Generate {
    /// The text to go on from [default: begin a new text]
    #[arg(default_value = "", hide_default_value = true)]
    prompt: String,
    #[command(flatten)]
    engine: EngineOptions,
    /// Mark the text with this key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    form: FormOptions,
    /// Let a smaller model draft: the law of the text stays what it is
    #[arg(long, value_name = "PATH", conflicts_with = "lookup")]
    draft: Option<PathBuf>,
    /// Draft from what followed the last tokens when they stood in the text before
    #[arg(long)]
    lookup: bool,
    /// Draft just so many tokens for each call of the model [default: as many as turn out to pay, which with
    /// --seed are fewer]
    #[arg(long, value_name = "N")]
    draft_tokens: Option<usize>,
    /// The most tokens to write
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Above 1 for more surprise, below for less; 0 takes the most probable token every time
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// Draw from the K most probable tokens
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw from the most probable tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f64,
    /// Draw from the tokens with at least this share of the best token's probability
    #[arg(long, value_name = "P")]
    min_p: Option<f64>,
    /// Divide the logits of tokens that came before by this (or multiply, below 0); 1 is none
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// Take this from the logit of every token that was written before
    #[arg(long, value_name = "R", default_value_t = 0.0, allow_negative_numbers = true)]
    presence_penalty: f64,
    /// Take this from the logit of a token for each time that it was written
    #[arg(long, value_name = "R", default_value_t = 0.0, allow_negative_numbers = true)]
    frequency_penalty: f64,
    /// Repeat a text: the same seed gives the same one [default: a new one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print one JSON object at the end instead of text as it comes
    #[arg(long)]
    json: bool,
}

/// What the text must look like.
#[derive(Args)]
#[group(multiple = false)]
struct FormOptions {
    /// Write a text that matches this regular expression as a whole
    #[arg(long, value_name = "PATTERN")]
    regex: Option<String>,
    /// Write one of these texts
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    choice: Option<Vec<String>>,
    /// Write JSON that obeys this JSON Schema
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
}

/// No schema is longer than this.
const MAX_SCHEMA: u64 = 16 << 20;

impl FormOptions {
    fn apply<'a>(&self, request: Request<'a>) -> Result<Request<'a>, Failure> {
        Ok(if let Some(pattern) = &self.regex {
            request.regex(pattern)
        } else if let Some(texts) = &self.choice {
            request.choice(texts)
        } else if let Some(path) = &self.json_schema {
            request.json_schema(read_schema(path)?)
        } else {
            request
        })
    }
}

fn read_schema(path: &Path) -> Result<serde_json::Value, Failure> {
    let open = |source| Failure::Open { path: path.into(), source };
    let file = File::open(path).map_err(open)?;
    let mut json = Vec::new();
    file.take(MAX_SCHEMA + 1).read_to_end(&mut json).map_err(open)?;
    if json.len() as u64 > MAX_SCHEMA {
        return Err(Failure::Usage(format!("{}: a schema of more than {MAX_SCHEMA} bytes", path.display())));
    }
    serde_json::from_slice(&json).map_err(|error| Failure::Usage(format!("{} is not JSON: {error}", path.display())))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    prompt: &'a str,
    text: &'a str,
    tokens: &'a [u32],
    prompt_tokens: usize,
    stop: &'static str,
    seed: u64,
    key_id: Option<&'a str>,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drafted: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<usize>,
}

impl Generate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let key = self.key.as_deref().map(Key::load).transpose()?;
        let engine = self.engine.engine()?;
        let seed = self.seed.map_or_else(random_seed, Ok)?;
        let mut request = engine
            .request(&self.prompt)
            .max_tokens(self.max_tokens)
            .temperature(self.temperature)
            .top_p(self.top_p)
            .repetition_penalty(self.repetition_penalty)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty);
        if let Some(key) = &key {
            request = request.watermark(key);
        }
        let drafter = self.draft.as_deref().map(|path| self.engine.load(path)).transpose()?;
        if let Some(drafter) = &drafter {
            request = request.draft(drafter);
        } else if self.lookup {
            request = request.lookup();
        }
        if let Some(tokens) = self.draft_tokens {
            request = request.draft_tokens(tokens);
        }
        if self.seed.is_some() && self.draft_tokens.is_none() {
            // How many drafts pay is a matter of time, which must not show in a text that is to be repeated.
            request = request.repeatable();
        }
        request = self.form.apply(request)?;
        if let Some(k) = self.top_k {
            request = request.top_k(k);
        }
        if let Some(p) = self.min_p {
            request = request.min_p(p);
        }
        let mut out = anstream::stdout();
        let (mut fault, mut started_text) = (None, false);
        let show_prompt = out.is_terminal() && !self.json && !self.prompt.is_empty();
        let started = Instant::now();
        let written = request.seed(seed).stream(|piece| {
            if self.json {
                return ControlFlow::Continue(());
            }
            // The prompt comes with the first piece: nothing is printed for a request that fails.
            let prompt = if show_prompt && !started_text { self.prompt.as_str() } else { "" };
            started_text = true;
            let dim = anstyle::Style::new().dimmed();
            let prompt = if prompt.is_empty() { String::new() } else { format!("{dim}{prompt}{dim:#}") };
            match write!(out, "{prompt}{piece}").and_then(|()| out.flush()) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    fault = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        let seconds = started.elapsed().as_secs_f64();
        if self.json {
            let stop = match written.stop {
                Some(Stop::End) => "end",
                Some(Stop::Length) => "length",
                Some(Stop::Context) => "context",
                None => "cancelled",
            };
            let output = Output {
                prompt: &self.prompt,
                text: &written.text,
                tokens: &written.tokens,
                prompt_tokens: written.prompt_tokens,
                stop,
                seed,
                key_id: key.as_ref().map(Key::id),
                seconds,
                calls: written.acceptance.map(|a| a.calls),
                drafted: written.acceptance.map(|a| a.drafted),
                accepted: written.acceptance.map(|a| a.accepted),
            };
            writeln!(out, "{}", serde_json::to_string(&output).expect("the output serialises"))?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out)?;
        if std::io::stderr().is_terminal() {
            let tokens = written.tokens.len();
            let marked = key.as_ref().map(|key| format!(", marked with {}", key.id())).unwrap_or_default();
            let drafts = |a: Acceptance| format!(", {} of {} drafts accepted", a.accepted, a.drafted);
            let drafts = written.acceptance.map(drafts).unwrap_or_default();
            let dim = anstyle::Style::new().dimmed();
            anstream::eprintln!(
                "{dim}{tokens} tokens in {seconds:.1} s ({:.0} a second), seed {seed}{marked}{drafts}{dim:#}",
                tokens as f64 / seconds
            );
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn random_seed() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Usage(format!("no random seed: {error}; give --seed")))?;
    Ok(u64::from_le_bytes(bytes) >> 32)
}
