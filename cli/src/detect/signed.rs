//! The file of `--report`: a signed report on each text that has a verdict.

use std::io::{self, Seek, Write};
use std::path::Path;

use tempfile::SpooledTempFile;
use verdigris::Key;
use verdigris::detector::report::{ReportKey, Reporter};

use super::judged_text::JudgedText;
use super::options::Detect;
use crate::error::Failure;
use crate::output::OutputFile;

/// The bytes of reports that are held in memory; more wait in a temporary file until all texts are judged.
const HELD: usize = 1 << 20;

/// The signed reports of a run.
pub(super) struct SignedReports {
    reporter: Reporter,
    file: OutputFile,
    lines: SpooledTempFile,
    is_empty: bool,
}

impl SignedReports {
    /// Reads the key, and checks the file; `None` if no report was requested.
    pub(super) fn new(options: &Detect, inputs: &[&Path]) -> Result<Option<Self>, Failure> {
        let (Some(file), Some(key)) = (&options.report, &options.report_key) else { return Ok(None) };
        if options.html.as_ref() == Some(file) {
            return Err(Failure::Usage(format!("{} is given for --html and --report: give two files", file.display())));
        }
        let file = OutputFile::new(file, options.force, &[inputs, &[key]].concat())?;
        let reporter = Reporter::new(ReportKey::load(key)?, options.report_url.clone());
        Ok(Some(Self { reporter, file, lines: SpooledTempFile::new(HELD), is_empty: true }))
    }

    /// Signs a report on a text, if it has a verdict.
    pub(super) fn add(&mut self, keys: &[Key], judged: &JudgedText<'_>, hint: Option<String>) -> Result<(), Failure> {
        let (Ok(judgement), Some(content)) = (&judged.result, &judged.content) else { return Ok(()) };
        let verdict = serde_json::to_value(judgement.verdict().with_hint(hint)).expect("a verdict serialises");
        let keys: Vec<&Key> = keys.iter().collect();
        let signed = self.reporter.sign(content.clone(), &keys, judgement, verdict);
        let signed = signed.map_err(|error| Failure::Usage(format!("{}: {error}", judged.name)))?;
        let line = serde_json::to_string(&signed).expect("a report serialises");
        self.is_empty = false;
        writeln!(self.lines, "{line}").map_err(|source| self.failed(source))
    }

    /// Writes the file. Without a verdict on any text there is none.
    pub(super) fn write(mut self) -> Result<(), Failure> {
        if self.is_empty {
            return Ok(());
        }
        self.lines.rewind().map_err(|source| self.failed(source))?;
        let mut lines = self.lines;
        self.file.write(|mut out| io::copy(&mut lines, &mut out).map(drop))
    }

    fn failed(&self, source: io::Error) -> Failure {
        Failure::Write { path: std::env::temp_dir(), source }
    }
}
