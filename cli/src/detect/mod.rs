//! `verdigris detect`: judges whether texts are marked, and how sure that is.

mod counts;
mod documents;
mod hints;
mod html;
mod json;
mod judged_text;
mod options;
mod signed;
mod weigh;
mod words;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstream::ColorChoice;
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;
use verdigris::detector::FittingKeys;
use verdigris::detector::report::{Content, Hashing};
use verdigris::{DetectError, Hint, Key, Look, Outcome, Reader};

use crate::detect::counts::Counts;
use crate::detect::documents::{Document, DocumentError, Format, Source};
pub(crate) use crate::detect::documents::{DocumentText, Fields, sources};
#[cfg(feature = "parquet")]
pub(crate) use crate::detect::documents::{READ_PARQUET, read_parquet};
pub(crate) use crate::detect::hints::hint_of_lines;
use crate::detect::judged_text::JudgedText;
pub(crate) use crate::detect::options::{Detect, REPEATS};
use crate::detect::signed::SignedReports;
pub(crate) use crate::detect::words::PUBLIC;
use crate::error::Failure;
use crate::output::OutputFile;
use crate::{report, terminal};

/// Limits on the texts that are judged in parallel: their number, and the bytes after which no more are added. Judging
/// takes about thirty times the bytes of the texts.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 2 << 20;

/// The files that are written in addition to the output.
struct Reports {
    html: Option<OutputFile>,
    signed: Option<SignedReports>,
}

impl Detect {
    pub(crate) fn run(mut self) -> Result<ExitCode, Failure> {
        let keys = self.keys.load()?;
        let reader = self.model.reader()?.of_grammars(self.grammars()?);
        let FittingKeys { keys, skipped, .. } = crate::key::fitting(keys, &reader)?;
        if let Some(method) = self.weigh.weigh {
            weigh::check(&self, method, &keys)?;
        }
        self.skipped = skipped.iter().map(|skipped| skipped.file.display().to_string()).collect();
        for key in &keys {
            tracing::debug!(key = key.id(), dialect = key.dialect().name(), "key to look for");
        }
        let standard_input = [PathBuf::from("-")];
        let files = if self.files.is_empty() { &standard_input[..] } else { &self.files };
        let fields = self.fields();
        let (mut sources, passed) = sources(files, self.format, &fields)?;
        if let Some(passed) = passed {
            note(&passed);
        }
        if self.constraint.is_given() && self.format.is_none() {
            // JSON under a constraint is a text itself, even if it looks like records.
            let arrays = sources.iter_mut().filter(|source| source.format == Format::Json);
            arrays.for_each(|source| source.format = Format::Text);
        } else {
            sources.iter().filter_map(|source| source.markup(&fields)).for_each(|markup| note(&markup));
        }
        let named = [("--column", &self.column), ("--id-field", &self.id_field)];
        if let Some((option, _)) = named.iter().find(|(_, name)| name.is_some())
            && sources.iter().all(|source| source.format == Format::Text)
        {
            return Err(Failure::Usage(format!(
                "{option} names a field of JSON records or a column of Parquet files, but these are plain texts: leave \
                 it out, or give their --format"
            )));
        }
        let inputs: Vec<&Path> = sources.iter().map(|source| source.path.as_path()).collect();
        let html = self.html.as_deref().map(|path| OutputFile::new(path, self.force, &inputs)).transpose()?;
        let reports = Reports { html, signed: SignedReports::new(&self, &inputs)? };
        let single = matches!(&sources[..], [one] if one.format == Format::Text && !files[0].is_dir());
        if !single && (self.weigh.weigh.is_some() || self.color.is_some()) {
            let option = if self.color.is_some() { "--color" } else { "--weigh" };
            return Err(Failure::Usage(format!("{option} takes one text")));
        }
        if sources.iter().any(|source| crate::text::is_stdin(&source.path)) && std::io::stdin().is_terminal() {
            terminal::headed("note", "reading standard input: type or paste a text and end it with Ctrl-D");
        }
        let bar = progress(&sources);
        let cut = self.color.is_some();
        let documents = sources.into_iter().flat_map(|source| {
            tracing::debug!(file = %source.path.display(), format = ?source.format, "texts from");
            source.documents(&fields, cut, &bar)
        });
        if single {
            self.one(&reader, &keys, documents, &bar, reports)
        } else {
            self.many(&reader, &keys, documents, &bar, reports)
        }
    }

    fn fields(&self) -> Fields {
        let usual = Fields::default();
        let (text, id) = (self.column.clone().unwrap_or(usual.text), self.id_field.clone().unwrap_or(usual.id));
        Fields { text, id, named: self.column.is_some() }
    }

    /// Judges one text, and prints all that was found.
    fn one(
        &self,
        reader: &Reader,
        keys: &[Key],
        mut documents: impl Iterator<Item = Document>,
        bar: &ProgressBar,
        reports: Reports,
    ) -> Result<ExitCode, Failure> {
        let document = documents.next().expect("a file is one text");
        let name = document.name.clone();
        // Without --json, a fault is an error that names the file.
        let judged = match (document.text, self.weigh.weigh) {
            (Err(DocumentError::Open(source)), _) if !self.json => {
                return Err(Failure::Open { path: name.into(), source });
            }
            (Ok(DocumentText::Whole(text)), Some(method)) => {
                let result = weigh::judge(self, method, reader, keys, &text);
                JudgedText { name: name.clone(), id: None, text, content: None, result }
            }
            (Ok(DocumentText::Long(_)), Some(_)) => {
                return Err(Failure::Usage(format!("{name}: it is longer than 16 MiB: --weigh needs a shorter text")));
            }
            (text, _) => self.judge(reader, keys, Document { text, ..document }),
        };
        bar.finish_and_clear();
        let outcome = judged.outcome();
        // The reports first, so that a failure to write one is reported before anything is printed.
        let Reports { html, signed } = reports;
        if judged.result.is_ok() {
            self.write_html(html, std::slice::from_ref(&judged))?;
        }
        if let Some(mut signed) = signed {
            signed.add(keys, &judged, self.hint(&judged))?;
            signed.write()?;
        }
        let mut counts = Counts::default();
        counts.add(outcome);
        if self.json {
            self.print_json(&judged)?;
            return Ok(counts.status());
        }
        let judgement = judged.result.as_ref().map_err(|fault| Failure::Usage(format!("{name}: {fault}")))?;
        if judgement.outcome() == Outcome::TooShort {
            let short = judgement.evidence.is_marked(self.level).expect_err("it is too short");
            return Err(Failure::Text { name, source: Box::new(short.into()) });
        }
        // By default colours are used if the terminal supports them.
        let choice = self.color.unwrap_or(ColorChoice::Auto);
        let mut out = anstream::AutoStream::new(std::io::stdout(), choice);
        if self.color.is_some() {
            let colours = terminal::colours(choice);
            report::marked(&mut out, &judged.text, &judgement.tokens, colours)?;
            writeln!(out, "\n")?;
            if !colours {
                writeln!(out, "[in brackets] tokens that the key favours\n")?;
            }
        }
        words::describe(&mut out, judgement, self.hint(&judged).as_deref())?;
        Ok(counts.status())
    }

    /// Judges many texts, and prints a line for each.
    fn many(
        &self,
        reader: &Reader,
        keys: &[Key],
        documents: impl Iterator<Item = Document>,
        bar: &ProgressBar,
        reports: Reports,
    ) -> Result<ExitCode, Failure> {
        let Reports { html, mut signed } = reports;
        let mut documents = documents.peekable();
        let mut counts = Counts::default();
        let mut kept = Vec::new();
        let mut out = anstream::stdout();
        let (mut header, mut hidden) = (!self.json, false);
        while documents.peek().is_some() {
            let batch = batch(&mut documents);
            tracing::debug!(texts = batch.len(), bytes = batch.iter().map(Document::size).sum::<usize>(), "batch");
            let judged: Vec<JudgedText<'_>> =
                batch.into_par_iter().map(|document| self.judge(reader, keys, document)).collect();
            bar.suspend(|| -> Result<(), Failure> {
                if std::mem::take(&mut header) {
                    words::header(&mut out)?;
                }
                for judged in &judged {
                    if let Some(signed) = &mut signed {
                        signed.add(keys, judged, self.hint(judged))?;
                    }
                    let outcome = judged.outcome();
                    counts.add(outcome);
                    hidden |= outcome == Some(Outcome::NotMarked)
                        && judged.result.as_ref().is_ok_and(Hint::may_hide_a_passage);
                    match self.json {
                        true => self.print_json(judged)?,
                        false => words::line(&mut out, judged)?,
                    }
                }
                Ok(())
            })?;
            bar.set_message(format!("{} texts, ", counts.texts()));
            if html.is_some() {
                kept.extend(judged.into_iter().take(html::MOST.saturating_sub(kept.len())));
            }
        }
        bar.finish_and_clear();
        self.write_html(html, &kept)?;
        if let Some(signed) = signed {
            signed.write()?;
        }
        if self.json && counts.texts() == 0 {
            return Err(Failure::Usage("the input has no text: give a file that has some".into()));
        }
        if !self.json {
            let hint = (hidden && !self.searches()).then_some(hints::WINDOWS);
            words::summary(&mut out, &counts, self.level, hint)?;
        }
        Ok(counts.status())
    }

    /// Judges a text. The error does not name it.
    fn judge<'k>(&self, reader: &Reader, keys: &'k [Key], document: Document) -> JudgedText<'k> {
        let Document { name, id, text } = document;
        let keys: Vec<&Key> = keys.iter().collect();
        let mut content = None;
        let (text, result) = match text {
            Ok(DocumentText::Whole(text)) => {
                content = self.report.is_some().then(|| Content::of(&text));
                let result = reader.judge(&keys, &text, &self.look()).map_err(Failure::from);
                (text, result)
            }
            Ok(DocumentText::Long(text)) => {
                let mut text = Hashing::new(text);
                let result = reader.judge_stream(&keys, &mut text, &self.look()).map_err(|error| match error {
                    // The decoder reports a fault of the text.
                    DetectError::Read(error) => Failure::Usage(error.to_string()),
                    error => error.into(),
                });
                // After an error there is nothing to report.
                content = if result.is_ok() { text.content().ok() } else { None };
                (String::new(), result)
            }
            Err(fault) => (String::new(), Err(Failure::Usage(fault.to_string()))),
        };
        JudgedText { name, id, text, content, result }
    }

    /// The options for judging each text.
    fn look(&self) -> Look {
        Look {
            level: self.level,
            repeats: self.repeats,
            repair: !self.no_repair,
            offsets: self.offsets,
            passages: self.searches(),
            tokens: self.color.is_some() || self.html.is_some(),
            course: if self.html.is_some() { html::POINTS } else { 0 },
        }
    }

    fn hint(&self, judged: &JudgedText<'_>) -> Option<String> {
        // A text that was read as a stream is not kept, and no option would find more in it.
        let judgement = judged.result.as_ref().ok().filter(|_| !judged.text.is_empty())?;
        // With --weigh, a single text is judged as a whole.
        let fields = self.weigh.weigh.is_none().then(|| self.fields());
        hints::hint(&judged.text, judgement, fields.as_ref())
    }

    fn write_html(&self, file: Option<OutputFile>, judged: &[JudgedText<'_>]) -> Result<(), Failure> {
        let Some(file) = file else { return Ok(()) };
        let html = html::report(judged, self.level);
        file.write(|out| out.write_all(html.as_bytes()))
    }

    fn print_json(&self, judged: &JudgedText<'_>) -> Result<(), Failure> {
        let line = json::line(judged, self.hint(judged), &self.skipped);
        Ok(writeln!(std::io::stdout(), "{line}")?)
    }
}

/// Prints a note about the files.
fn note(what: &str) {
    terminal::headed("note", terminal::shown_line(what));
}

/// The next texts to judge in parallel.
fn batch(documents: &mut impl Iterator<Item = Document>) -> Vec<Document> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while batch.len() < BATCH && bytes < BATCH_BYTES {
        let Some(document) = documents.next() else { break };
        bytes += document.size();
        batch.push(document);
    }
    batch
}

/// Shows the progress over all sources on a terminal.
fn progress(sources: &[Source]) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let sizes: Option<u64> = sources.iter().map(Source::size).sum();
    let (bar, template) = match sizes {
        Some(size) => (ProgressBar::new(size), "{bar:32} {percent:>3} %, {msg}{elapsed} so far, {eta} left"),
        None => (ProgressBar::no_length(), "{spinner} {decimal_bytes} read, {msg}{elapsed} so far"),
    };
    let bar = bar.with_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
