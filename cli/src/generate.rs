//! `verdigris generate`: write text.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use verdigris::{Acceptance, Key, Message, Request, Stop, Written};

use crate::error::Failure;
use crate::form::FormOptions;
use crate::key::writer_of;
use crate::model::EngineOptions;
use crate::sampling::SamplingOptions;

/// Write text, marked with a key or plain, as it comes
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris generate                                    a tale from its beginning
  verdigris generate \"The captain\" --max-tokens 100
  verdigris generate \"The captain\" --key my.key > tale.txt
  verdigris generate \"She was born in\" --regex \" 1[0-9]{3}\"
  verdigris generate \"Was he afraid?\" --choice \" yes, no, perhaps\"
  verdigris generate \"The captain: \" --json-schema person.schema.json
  verdigris generate \"The captain\" --draft tale-small
  verdigris generate --expert tale-expert --anti tale-small
  verdigris generate --seed 7 --temperature 1 --top-p 1 --json
  verdigris generate --model Qwen/Qwen2.5-0.5B-Instruct --chat \"What is a spar?\" --system \"Be brief.\"
  verdigris generate \"The captain\" --texts 8 --json > eight.jsonl")]
pub(crate) struct Generate {
    /// The text to go on from [default: begin a new text]
    #[arg(default_value = "", hide_default_value = true)]
    prompt: String,
    /// Take the prompt for a message to the model, and write its answer, as its chat template has it
    #[arg(long)]
    chat: bool,
    /// In a conversation: what the model is told to be
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Mark the text with this key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Mark the text with the key of this folder that is to be used today
    #[arg(long, value_name = "DIR", conflicts_with = "key")]
    ring: Option<PathBuf>,
    /// For a ring: whose key
    #[arg(long, value_name = "NAME", requires = "ring", default_value = "", hide_default_value = true)]
    tenant: String,
    /// For a key that carries numbers: the number, such as 0xbeef
    #[arg(long, value_name = "N", value_parser = crate::payload::number)]
    payload: Option<u32>,
    /// The most tokens to write
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    /// Repeat a text: the same seed gives the same one [default: a new one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write so many texts side by side, with this seed and the ones after it
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true,
          value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["draft", "lookup"])]
    texts: u16,
    /// Print a JSON object for each text at its end instead of text as it comes
    #[arg(long)]
    json: bool,
    // Groups with a heading come last: it would hold for what follows.
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten, next_help_heading = "Form")]
    form: FormOptions,
    #[command(flatten, next_help_heading = "Drafts")]
    drafts: DraftOptions,
    #[command(flatten, next_help_heading = "Chance")]
    sampling: SamplingOptions,
}

/// Who drafts, and how much.
#[derive(Args)]
struct DraftOptions {
    /// Let a smaller model draft: the law of the text stays what it is
    #[arg(long, value_name = "PATH|NAME", conflicts_with = "lookup")]
    draft: Option<PathBuf>,
    /// Draft from what followed the last tokens when they stood in the text before
    #[arg(long)]
    lookup: bool,
    /// Draft just so many tokens for each call of the model [default: as many as turn out to pay, which with
    /// --seed are fewer]
    #[arg(long, value_name = "N")]
    draft_tokens: Option<usize>,
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
        let key = match (&self.key, &self.ring) {
            (Some(file), _) => Some(Key::load(file)?),
            (None, Some(ring)) => Some(writer_of(ring, &self.tenant)?),
            (None, None) => None,
        };
        if self.payload.is_some() && key.is_none() {
            return Err(Failure::Usage("a payload needs a key that carries it: --key FILE".into()));
        }
        let engine = self.engine.engine()?;
        let seed = self.seed.map_or_else(random_seed, Ok)?;
        let request = match self.chat {
            true => engine.chat(self.system.iter().map(Message::system).chain([Message::user(&self.prompt)])),
            false => engine.request(&self.prompt),
        };
        let mut request = self.sampling.apply(request.max_tokens(self.max_tokens));
        if let Some(key) = &key {
            request = request.watermark(key);
            if let Some(payload) = self.payload {
                request = request.payload(payload);
            }
        }
        let drafter = self.drafts.draft.as_deref().map(|path| self.engine.load(path)).transpose()?;
        if let Some(drafter) = &drafter {
            request = request.draft(drafter);
        } else if self.drafts.lookup {
            request = request.lookup();
        }
        if let Some(tokens) = self.drafts.draft_tokens {
            request = request.draft_tokens(tokens);
        }
        if self.seed.is_some() && self.drafts.draft_tokens.is_none() {
            // How many drafts pay is a matter of time, which must not show in a text that is to be repeated.
            request = request.repeatable();
        }
        request = self.form.apply(request)?;
        let key_id = key.as_ref().map(Key::id);
        match self.texts {
            1 => self.stream(request, seed, key_id),
            _ => self.side_by_side(request, seed, key_id),
        }
    }

    /// Writes one text as it comes.
    fn stream(&self, request: Request<'_>, seed: u64, key_id: Option<&str>) -> Result<ExitCode, Failure> {
        let mut out = anstream::stdout();
        let (mut fault, mut started_text) = (None, false);
        let show_prompt = out.is_terminal() && !self.json && !self.chat && !self.prompt.is_empty();
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
            self.print(&mut out, &written, seed, key_id, seconds)?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out)?;
        if std::io::stderr().is_terminal() {
            report(written.tokens.len(), seconds, seed, key_id, written.acceptance);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes several texts together, and prints them when all are there.
    fn side_by_side(&self, request: Request<'_>, seed: u64, key_id: Option<&str>) -> Result<ExitCode, Failure> {
        let count = usize::from(self.texts);
        let style = ProgressStyle::with_template("{bar:32.green/dim} {msg}").expect("the template is well-formed");
        let bar = ProgressBar::new((count * self.max_tokens) as u64).with_style(style);
        let started = Instant::now();
        let mut pieces = 0u64;
        let texts = request.seed(seed).stream_texts(count, |_, _| {
            pieces += 1;
            bar.set_position(pieces);
            bar.set_message(format!("{:.0} tokens a second", pieces as f64 / started.elapsed().as_secs_f64()));
            ControlFlow::Continue(())
        })?;
        bar.finish_and_clear();
        let seconds = started.elapsed().as_secs_f64();
        let mut out = anstream::stdout();
        let dim = anstyle::Style::new().dimmed();
        let prompt = if self.chat { "" } else { &self.prompt };
        for (seed, written) in (seed..).zip(&texts) {
            match self.json {
                true => self.print(&mut out, written, seed, key_id, seconds)?,
                false => writeln!(out, "{dim}seed {seed}{dim:#}\n{dim}{prompt}{dim:#}{}\n", written.text)?,
            }
        }
        if std::io::stderr().is_terminal() && !self.json {
            let tokens = texts.iter().map(|written| written.tokens.len()).sum();
            report(tokens, seconds, seed, key_id, None);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a text as JSON.
    fn print(
        &self,
        out: &mut impl Write,
        written: &Written,
        seed: u64,
        key_id: Option<&str>,
        seconds: f64,
    ) -> Result<(), Failure> {
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
            key_id,
            seconds,
            calls: written.acceptance.map(|a| a.calls),
            drafted: written.acceptance.map(|a| a.drafted),
            accepted: written.acceptance.map(|a| a.accepted),
        };
        writeln!(out, "{}", serde_json::to_string(&output).expect("the output serialises"))?;
        Ok(())
    }
}

/// Says on the terminal how it went.
fn report(tokens: usize, seconds: f64, seed: u64, key_id: Option<&str>, acceptance: Option<Acceptance>) {
    let marked = key_id.map(|id| format!(", marked with {id}")).unwrap_or_default();
    let drafts = |a: Acceptance| format!(", {} of {} drafts accepted", a.accepted, a.drafted);
    let drafts = acceptance.map(drafts).unwrap_or_default();
    let dim = anstyle::Style::new().dimmed();
    anstream::eprintln!(
        "{dim}{tokens} tokens in {seconds:.1} s ({:.0} a second), seed {seed}{marked}{drafts}{dim:#}",
        tokens as f64 / seconds
    );
}

fn random_seed() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Usage(format!("no random seed: {error}; give --seed")))?;
    Ok(u64::from_le_bytes(bytes) >> 32)
}
