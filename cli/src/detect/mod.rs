//! `verdigris detect`: is a text marked, and how sure is that?

mod documents;
mod html;
mod long;
mod weigh;
mod words;

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use serde::Serialize;
use verdigris::watermark::DEFAULT_LEVEL;
use verdigris::watermark::normalize::Repair;
use verdigris::{Judgement, Key, Look, Reader, Repeats, Verdict};

use crate::detect::documents::{Document, MAX_TEXT, Source, sources};
use crate::error::Failure;
use crate::key::KeysOption;
use crate::model::ModelOption;
use crate::report;

/// Texts that are judged side by side.
const BATCH: usize = 256;

/// Judge whether texts are marked with a key, from the texts alone
#[derive(Args)]
#[command(after_help = "\
Exit status:
  0  the text is marked (of several: at least one)
  1  it is not (none is)
  2  no verdict: an error, or a text too short to decide (of several: one was
     faulty, or more)

Every look is paid for: with several keys, with repair of what was done to the characters, with --offsets and with \
--windows the p-value is that of one look times the number of looks.

Examples:
  verdigris detect tale.txt --key my.key
  verdigris detect tale.txt --key my.key --color | less -R
  verdigris detect report.txt --ring keys/ --html report.html
  verdigris detect answers/ more.jsonl archive.parquet --column answer \\
      --key my.key --json
  curl -s https://example.com/post.txt | verdigris detect --key my.key --json")]
pub(crate) struct Detect {
    /// Texts; folders of them; .jsonl and .parquet files; - or nothing for standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    keys: KeysOption,
    #[command(flatten)]
    model: ModelOption,
    /// Call a text marked when an unmarked one would look so with at most this probability
    #[arg(long, value_name = "P", default_value_t = DEFAULT_LEVEL)]
    level: f64,
    /// The field of JSON lines, or the column of Parquet files, that holds the text
    #[arg(long, value_name = "NAME", default_value = "text")]
    column: String,
    /// What counts as the same evidence again, and is counted once
    #[arg(long, value_enum, default_value_t = RepeatsName::Context)]
    repeats: RepeatsName,
    /// Look for marked passages inside the text, too
    #[arg(long)]
    windows: bool,
    /// Do not look once more after repair of invisible, look-alike and decomposed characters
    #[arg(long)]
    no_repair: bool,
    /// Tokenize from so many places at the beginning (1 to 64), for a text that was cut out in the middle of a word
    #[arg(long, value_name = "N", default_value_t = 1)]
    offsets: usize,
    #[command(flatten)]
    weigh: weigh::WeighOptions,
    /// Show the text with its green and red tokens first (of a long text the first 16 MiB, and judge those)
    #[arg(long, conflicts_with_all = ["json", "html"])]
    color: bool,
    /// Print one JSON object a text
    #[arg(long)]
    json: bool,
    /// Write a report with the text in colours, for people: one file that needs no other
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The files of the ring that are no keys for this tokenizer.
    #[arg(skip)]
    skipped: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum RepeatsName {
    /// The same context, whatever follows
    Context,
    /// The same token after the same context
    Draw,
    /// Nothing: then a text that repeats itself looks marked too easily
    Nothing,
}

impl From<RepeatsName> for Repeats {
    fn from(name: RepeatsName) -> Self {
        match name {
            RepeatsName::Context => Self::Context,
            RepeatsName::Draw => Self::Draw,
            RepeatsName::Nothing => Self::Nothing,
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Output<'a> {
    name: &'a str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    found: Option<Found<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    key_id: &'a str,
    dialect: &'static str,
    tokens: u64,
    scored: u64,
    score: f64,
    expected: f64,
    z: f64,
    p: f64,
    log10_p: f64,
    looks: f64,
    level: f64,
    sampled: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passages: Option<Vec<FoundPassage<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped_keys: &'a [String],
}

#[derive(Serialize)]
struct FoundPassage<'a> {
    key_id: &'a str,
    start: usize,
    end: usize,
    scored: u64,
    z: f64,
    log10_p: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
}

/// A text that was judged, or why it was not.
struct Judged<'k> {
    name: String,
    text: String,
    result: Result<Judgement<'k>, Failure>,
}

/// Where one text comes from, its name, and its size as far as that is known.
type Input = (Box<dyn Read>, String, Option<u64>);

/// What became of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Marked,
    NotMarked,
    TooShort,
    Faulty,
}

impl Detect {
    pub(crate) fn run(mut self) -> Result<ExitCode, Failure> {
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Failure::Usage(format!("--level is {}, but must be above 0 and below 1", self.level)));
        }
        if !(1..=64).contains(&self.offsets) {
            return Err(Failure::Usage(format!("--offsets is {}, but must be 1 to 64", self.offsets)));
        }
        let keys = self.keys.load()?;
        let reader = self.model.reader()?;
        let (keys, skipped) = keys.fitting(&reader)?;
        self.skipped = skipped.iter().map(|skipped| skipped.file.display().to_string()).collect();
        if self.weigh.weigh.is_some() && self.files.len() > 1 {
            return Err(Failure::Usage("--weigh takes one text".into()));
        }
        let single = match &self.files[..] {
            [] => true,
            [file] => !file.is_dir() && matches!(Source::of(file.clone()), Source::Text(_)),
            _ => false,
        };
        if single { self.one(&reader, &keys) } else { self.many(&reader, &keys) }
    }

    /// One text, with everything that can be said of it.
    fn one(&self, reader: &Reader, keys: &[Key]) -> Result<ExitCode, Failure> {
        let (mut input, name, size) = self.input()?;
        let mut start = Vec::new();
        let name_fault =
            |source: verdigris::text::ReadError| Failure::Text { name: name.clone(), source: source.into() };
        input.by_ref().take(MAX_TEXT + 1).read_to_end(&mut start).map_err(|error| name_fault(error.into()))?;
        if start.len() as u64 > MAX_TEXT && !self.color {
            return long::detect(self, reader, keys, start, input, &name, size);
        }
        start.truncate(MAX_TEXT as usize);
        let text = String::from_utf8(start).or_else(|error| {
            let fault = error.utf8_error();
            let mut bytes = error.into_bytes();
            // Of a long text in colours the last character may have been cut in half.
            if bytes.len() as u64 == MAX_TEXT && fault.error_len().is_none() {
                bytes.truncate(fault.valid_up_to());
                return Ok(String::from_utf8(bytes).expect("checked up to here"));
            }
            Err(name_fault(fault.into()))
        })?;
        if let Some(method) = self.weigh.weigh {
            return weigh::detect(self, method, keys, text, name);
        }
        let judged = self.judge(reader, keys, Document { name, text: Ok(text) });
        let outcome = self.outcome(&judged);
        if let (Outcome::TooShort, Ok(judgement)) = (outcome, &judged.result) {
            let short = judgement.evidence.verdict(self.level).expect_err("it is too short");
            return Err(Failure::Text { name: judged.name, source: short.into() });
        }
        // The report first: what cannot be written is told before anything is shown.
        self.write_html(std::slice::from_ref(&judged))?;
        if self.json && judged.result.is_ok() {
            self.print_json(&judged)?;
        } else {
            let judgement = judged.result?;
            let mut out = anstream::AutoStream::new(std::io::stdout(), color_choice(self.color));
            if self.color {
                report::colored(&mut out, &judged.text, &judgement.tokens)?;
                writeln!(out, "\n")?;
            }
            words::describe(&mut out, &judgement, self.level)?;
        }
        Ok(if outcome == Outcome::Marked { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// Many texts, a line each.
    fn many(&self, reader: &Reader, keys: &[Key]) -> Result<ExitCode, Failure> {
        let mut documents = sources(&self.files)?.into_iter().flat_map(|source| source.documents(&self.column));
        let bar = if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{spinner} {pos} texts, {per_sec}").expect("a valid template");
        bar.set_style(style);
        let mut counts = [0u64; 4];
        let mut kept = Vec::new();
        let mut out = anstream::stdout();
        let mut header = !self.json;
        loop {
            let batch: Vec<Document> = documents.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let judged: Vec<Judged<'_>> = batch
                .into_par_iter()
                .map(|document| {
                    let judged = self.judge(reader, keys, document);
                    bar.inc(1);
                    judged
                })
                .collect();
            bar.suspend(|| -> Result<(), Failure> {
                if std::mem::take(&mut header) {
                    words::header(&mut out)?;
                }
                for judged in &judged {
                    let outcome = self.outcome(judged);
                    counts[outcome as usize] += 1;
                    if self.json { self.print_json(judged)? } else { words::line(&mut out, judged, outcome)? }
                }
                Ok(())
            })?;
            if self.html.is_some() {
                kept.extend(judged.into_iter().take(html::MOST.saturating_sub(kept.len())));
            }
        }
        bar.finish_and_clear();
        self.write_html(&kept)?;
        if !self.json {
            words::summary(&mut out, counts, self.level)?;
        }
        let [marked, .., faulty] = counts;
        Ok(match (faulty, marked) {
            (1.., _) => ExitCode::from(2),
            (0, 1..) => ExitCode::SUCCESS,
            (0, 0) => ExitCode::from(1),
        })
    }

    fn judge<'k>(&self, reader: &Reader, keys: &'k [Key], document: Document) -> Judged<'k> {
        let keys: Vec<&Key> = keys.iter().collect();
        let look = Look {
            repeats: self.repeats.into(),
            normalize: !self.no_repair,
            offsets: self.offsets,
            places: self.color || self.html.is_some(),
            passages: (self.windows || self.html.is_some()).then_some(self.level),
        };
        let name = document.name;
        match document.text {
            Ok(text) => {
                let result = reader.judge(&keys, &text, &look).map_err(Failure::from);
                Judged { name, text, result }
            }
            Err(fault) => Judged { name, text: String::new(), result: Err(Failure::Usage(fault)) },
        }
    }

    fn outcome(&self, judged: &Judged<'_>) -> Outcome {
        match &judged.result {
            Err(_) => Outcome::Faulty,
            Ok(judgement) => match judgement.verdict(self.level) {
                Ok(Verdict::Marked) => Outcome::Marked,
                Ok(Verdict::NotMarked) => Outcome::NotMarked,
                Err(_) => Outcome::TooShort,
            },
        }
    }

    fn input(&self) -> Result<Input, Failure> {
        let Some(path) = self.files.first().filter(|path| path.to_str() != Some("-")) else {
            return Ok((Box::new(std::io::stdin().lock()), "standard input".into(), None));
        };
        let open = |source| Failure::Open { path: path.clone(), source };
        let file = File::open(path).map_err(open)?;
        let size = file.metadata().map_err(open)?.len();
        Ok((Box::new(file), path.display().to_string(), Some(size)))
    }

    fn write_html(&self, judged: &[Judged<'_>]) -> Result<(), Failure> {
        let Some(path) = &self.html else { return Ok(()) };
        let report = html::report(judged, self.level, |judged| self.outcome(judged));
        std::fs::write(path, report).map_err(|source| Failure::Write { path: path.clone(), source })
    }

    fn print_json(&self, judged: &Judged<'_>) -> Result<(), Failure> {
        let outcome = self.outcome(judged);
        let (found, mut error) = match &judged.result {
            Ok(judgement) => (Some(self.found(judgement)), None),
            Err(error) => (None, Some(error.to_string())),
        };
        if outcome == Outcome::TooShort {
            let short = judged.result.as_ref().ok().and_then(|j| j.evidence.verdict(self.level).err());
            error = short.map(|short| short.to_string());
        }
        let output = Output { name: &judged.name, verdict: words::outcome(outcome), error, found };
        let json = serde_json::to_string(&output).expect("the output serialises");
        Ok(writeln!(std::io::stdout(), "{json}")?)
    }

    fn found<'a>(&'a self, judgement: &'a Judgement<'_>) -> Found<'a> {
        let evidence = &judgement.evidence;
        let log10 = |ln: f64| ln / std::f64::consts::LN_10;
        let windows = self.windows || self.html.is_some();
        let passages = judgement.passages.iter().map(|passage| FoundPassage {
            key_id: passage.key.id(),
            start: passage.range.start,
            end: passage.range.end,
            scored: passage.scored,
            z: passage.z,
            log10_p: log10(passage.ln_p),
            repairs: &passage.repairs,
        });
        Found {
            key_id: judgement.key.id(),
            dialect: judgement.key.dialect().name(),
            tokens: evidence.tokens,
            scored: evidence.scored,
            score: evidence.score,
            expected: evidence.expected,
            z: evidence.z,
            p: evidence.p(),
            log10_p: log10(evidence.ln_p_corrected()),
            looks: evidence.tried,
            level: self.level,
            sampled: evidence.sampled,
            repairs: &judgement.repairs,
            skipped: Some(judgement.skipped).filter(|&skipped| skipped > 0),
            passages: windows.then(|| passages.collect()),
            payload: judgement.payload.map(|read| read.payload),
            skipped_keys: &self.skipped,
        }
    }
}

/// Asked for by name, colour is shown even through a pipe; but never against NO_COLOR.
fn color_choice(asked: bool) -> anstream::ColorChoice {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if asked && !no_color { anstream::ColorChoice::Always } else { anstream::ColorChoice::Auto }
}
