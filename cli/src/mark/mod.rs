//! `verdigris mark`: marks an existing text by having a chat model say it in other words.
//!
//! Fernandez et al., arXiv 2512.16904: each piece of a text is rewritten with a marked sampler, several times, and of
//! the candidates that keep the meaning the one with the most evidence is taken.

mod sentences;
mod similarity;
mod writer;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::{Judgement, Key, Look, Outcome};

use self::sentences::parts;
use self::writer::{Rewritten, Writer, one_line};
use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption};
use crate::number::whole;
use crate::output::OutputFile;
use crate::run::RunOptions;
use crate::terminal::{self, shown_line};
use crate::{progress, report, text};

/// Mark an existing text by rewriting its sentences with a chat model (a draft)
#[derive(Args)]
#[command(after_help = "\
Each sentence is rewritten several times with the key's mark. Of the candidates that share enough words with the \
sentence, and all names and numbers in digits, the one with the most evidence for the mark replaces it. Without one, \
the sentence stays. So does everything that is not a plain sentence of 6 words or more: headings, lists, quotations, \
code.

This is a draft. The new text is in other words, and similarity counts words (ROUGE-1), not meaning: a sentence may \
say something else, or the opposite. Compare both texts before you use the new one; with -o, both versions of each \
sentence are printed. A text that a model writes is better marked while it is written: see generate --key.

Exit status: 0 the new text is marked, 1 it is not, 2 no verdict: an error, or a text too short to decide. After an \
error no text is written. docs/json.md describes the fields of --json.

Example:
  verdigris mark letter.txt --model chat.gguf --key my.key -o marked.txt")]
pub(crate) struct Mark {
    /// The text; - for standard input
    file: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// The key to mark with, of noise, such as `key new` makes
    #[arg(short, long, value_name = "FILE")]
    key: PathBuf,
    /// The number of candidates for each sentence, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = candidates)]
    candidates: usize,
    /// The least similarity of a candidate and its sentence, 0 to 1: the share of words that they have in common
    #[arg(long, value_name = "SHARE", default_value_t = 0.7, value_parser = share)]
    min_similarity: f64,
    /// The sampling temperature
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// The random seed: the same one gives the same text [default: a new one each time]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>)]
    seed: Option<u32>,
    /// Write the text to this file, whole or not at all
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunOptions,
}

/// The most candidates, which share a pass of the model.
const MOST_CANDIDATES: usize = 64;

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-mark-1";

/// The new text.
#[derive(Serialize)]
struct Marked<'a> {
    format: &'static str,
    name: &'a str,
    text: String,
    seed: u32,
    sentences: usize,
    rewritten: usize,
    /// The mean similarity of rewritten sentences.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    parts: &'a [Rewritten<'a>],
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    marked: &'a Marked<'a>,
    #[serde(flatten)]
    verdict: verdigris::Verdict<'a>,
}

impl Mark {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let key = Key::load(&self.key)?;
        if key.strength().is_some() {
            let message = "this key is one of green lists, and an existing text is marked with noise: make a key with \
                           `verdigris key new --dialect native-gumbel`";
            return Err(Failure::Usage(message.into()));
        }
        let name = text::name(&self.file);
        let original = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(FORMAT, &name, &failure),
            text => text?,
        };
        let parts = parts(&original);
        let sentences = parts.iter().filter(|part| part.is_sentence).count();
        if sentences == 0 {
            let failure = Failure::Usage(format!(
                "{name} has no sentence to rewrite: those are of 6 words or more, without quotation marks or code, and \
                 in paragraphs"
            ));
            return if self.json { report::json_error(FORMAT, &name, &failure) } else { Err(failure) };
        }
        let inputs = [&*self.file, &*self.key];
        let file = self.output.as_deref().map(|path| OutputFile::new(path, self.force, &inputs)).transpose()?;
        let engine = self.model.engine(None, &self.device.device()?)?;
        engine.chat_template()?;
        engine.reader().fits(&key)?;
        let seed = self.seed.map_or_else(new_seed, Ok)?;
        let variant = key.variant(seed as u8);
        let writer = Writer {
            engine: &engine,
            key: &variant,
            candidates: self.candidates,
            min_similarity: self.min_similarity,
            temperature: self.temperature,
            seed: seed.into(),
        };
        let template = "{bar:32.green/dim} {pos} of {len} sentences, {eta} left";
        let bar = progress::bar(sentences as u64, template, self.run.quiet);
        let parts = writer.rewrite(&parts, &bar)?;
        bar.finish_and_clear();
        let similar: Vec<f64> = parts.iter().filter_map(|part| part.similarity).collect();
        let marked = Marked {
            format: FORMAT,
            name: &name,
            text: parts.iter().flat_map(Rewritten::text).collect(),
            seed,
            sentences,
            rewritten: similar.len(),
            similarity: (!similar.is_empty()).then(|| similar.iter().sum::<f64>() / similar.len() as f64),
            parts: &parts,
        };
        // The verdict is that of a reader that has the new text only.
        let judgement = engine.reader().judge(&[&key], &marked.text, &Look::default())?;
        let is_in_file = file.is_some();
        if let Some(file) = file {
            file.write(|out| out.write_all(marked.text.as_bytes()))?;
        }
        if self.json {
            report::print_json(&Output { marked: &marked, verdict: judgement.verdict() })?;
        } else {
            if !is_in_file {
                std::io::stdout().write_all(marked.text.as_bytes())?;
            } else if !self.run.quiet {
                print_both(&parts)?;
            }
            if !self.run.quiet {
                summarize(&marked, &judgement);
            }
        }
        Ok(ExitCode::from(match judgement.outcome() {
            Outcome::TooShort => 2,
            outcome => u8::from(!outcome.is_marked()),
        }))
    }
}

/// Prints both versions of each sentence.
fn print_both(parts: &[Rewritten<'_>]) -> Result<(), Failure> {
    let mut out = anstream::stdout();
    let dim = anstyle::Style::new().dimmed();
    for part in parts.iter().filter(|part| part.sentence) {
        let original = one_line(part.original_words());
        let original = shown_line(&original);
        match part.similarity {
            None => writeln!(out, "stays  {original}")?,
            Some(similarity) => {
                writeln!(out, "{similarity:<5.2}  {dim}{original}{dim:#}\n       {}", shown_line(part.words()))?;
            }
        }
    }
    Ok(())
}

/// Says on standard error what was done, and the verdict.
fn summarize(marked: &Marked<'_>, judgement: &Judgement<'_>) {
    let Marked { rewritten, sentences, similarity, .. } = marked;
    let alike = similarity.map_or(String::new(), |share| format!(" with a mean similarity of {share:.2}"));
    let verdict = match judgement.outcome() {
        Outcome::TooShort => "too short to decide".into(),
        outcome => format!("{}, p {}", outcome.name(), report::p_value(judgement.evidence.ln_p_corrected())),
    };
    terminal::headed("note", format_args!("{rewritten} of {sentences} sentences are rewritten{alike}: {verdict}"));
    if *rewritten > 0 {
        terminal::headed("warning", "rewritten sentences may say something else: compare both texts");
    }
}

fn new_seed() -> Result<u32, Failure> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| verdigris::Error::NoSeed(error.into()))?;
    Ok(u32::from_le_bytes(bytes))
}

fn candidates(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST_CANDIDATES).contains(count));
    count.ok_or_else(|| format!("it must be a whole number from 1 to {MOST_CANDIDATES}"))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it must be a number from 0 to 1".into())
}
