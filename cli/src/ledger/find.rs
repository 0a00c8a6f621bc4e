//! `verdigris ledger find`: looks a text up.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::detector::Unwrapped;
use verdigris::watermark::normalize::normalize;
use verdigris::{Key, Level};
use verdigris_ledger::{Fingerprint, Ledger, Match};

use crate::error::Failure;
use crate::ledger::shown::{EntryFields, HEADER, row};
use crate::model::ModelOption;
use crate::terminal::{width, wrap};
use crate::{report, text};

/// Look up which recorded texts a text is, or shares words with
#[derive(Args)]
#[command(after_help = "\
\"similar\" is the estimated Jaccard similarity of the sequences of five words in the text and the entry, within about \
.09 in 19 of 20 cases; \"contained\" is the estimated share of the text's sequences that the entry has, near 100 % for \
an excerpt. A text of fewer than about twelve words is only found if it is exactly the one that was recorded. A \
paraphrase is not found.

Exit status: 0 an entry matches, 1 none does, 2 an error. docs/json.md describes the fields of --json.

Examples:
  verdigris ledger find answers.ledger tale.txt
  verdigris ledger find answers.ledger tale.txt --key numbered.key")]
pub(crate) struct Find {
    /// The ledger
    ledger: PathBuf,
    /// The text; - for standard input
    file: PathBuf,
    /// Also look for the entries whose number the text's mark carries, by this key: see generate --payload new
    #[arg(short, long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    model: ModelOption,
    /// Only entries of this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-ledger-find-1";

#[derive(Serialize)]
struct Output<'a> {
    format: &'static str,
    name: &'a str,
    found: bool,
    searched: u64,
    /// The number that the mark of the text carries, with `--key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<u32>,
    /// The entries with this number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    carrying: Vec<EntryFields<'a>>,
    matches: Vec<MatchFields<'a>>,
}

#[derive(Serialize)]
struct MatchFields<'a> {
    same: bool,
    similarity: f64,
    contained: f64,
    #[serde(flatten)]
    entry: EntryFields<'a>,
}

impl Find {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let ledger = Ledger::open(&self.ledger)?;
        let (name, text) = (text::name(&self.file), text::read(&self.file)?);
        let payload = self.payload(&text)?;
        let carrying = payload.as_ref().map(|(id, number)| ledger.carrying(id, *number, self.tenant.as_deref()));
        let carrying = carrying.transpose()?.unwrap_or_default();
        let payload = payload.map(|(_, number)| number);
        let matches = self.matches(&ledger, &Unwrapped::new(&text).text)?;
        let searched = ledger.count(self.tenant.as_deref())?;
        let status = ExitCode::from(u8::from(matches.is_empty() && carrying.is_empty()));
        if self.json {
            let fields = |found: &'_ Match| (found.is_same, found.similarity, found.contained);
            let matches = matches.iter().map(|found| {
                let (same, similarity, contained) = fields(found);
                MatchFields { same, similarity, contained, entry: (&found.entry).into() }
            });
            let matches: Vec<_> = matches.collect();
            let carrying: Vec<_> = carrying.iter().map(EntryFields::from).collect();
            let found = !(matches.is_empty() && carrying.is_empty());
            report::print_json(&Output { format: FORMAT, name: &name, found, searched, payload, carrying, matches })?;
            return Ok(status);
        }
        let mut out = anstream::stdout();
        if let Some(number) = payload {
            writeln!(
                out,
                "the mark carries the number {number:#x}, which {} has",
                match carrying.len() {
                    0 => "no entry".to_owned(),
                    1 => "this entry".to_owned(),
                    some => format!("these {some} entries"),
                }
            )?;
            carrying.iter().try_for_each(|entry| writeln!(out, "  {}", row(entry)))?;
            writeln!(out)?;
        }
        if !matches.is_empty() {
            let dim = anstyle::Style::new().dimmed();
            writeln!(out, "{dim}similar  contained  {HEADER}{dim:#}")?;
            for found in &matches {
                let contained = format!("{:.0} %", 100.0 * found.contained);
                let same = if found.is_same { " (the same text)" } else { "" };
                writeln!(out, "{:>7.2}  {contained:>9}  {}{same}", found.similarity, row(&found.entry))?;
            }
            writeln!(out)?;
        }
        let entries = if searched == 1 { "entry" } else { "entries" };
        let said = match matches.len() {
            0 => format!("none of {searched} {entries} matches: that says nothing about the author of the text"),
            count => format!(
                "{count} of {searched} {entries} {}. This is a look-up and not a mark: it shows that the keeper of \
                 this ledger recorded such a text, and proves nothing to someone who does not trust the keeper",
                if count == 1 { "matches" } else { "match" }
            ),
        };
        writeln!(out, "{}", wrap(&said, width(), 0))?;
        Ok(status)
    }

    /// The id of the key and the number that the text's mark carries, if it is marked.
    fn payload(&self, text: &str) -> Result<Option<(String, u32)>, Failure> {
        let Some(key) = &self.key else { return Ok(None) };
        let key = Key::load(key)?;
        let reader = self.model.reader()?;
        reader.fits(&key)?;
        key.payload_reader()?;
        let found = reader.payload(&key, text)?.verdict(&key, Level::DEFAULT);
        Ok(found.payload.map(|number| (key.id().to_owned(), number)))
    }

    /// The entries that match the text, or the text with its characters repaired.
    fn matches(&self, ledger: &Ledger, text: &str) -> Result<Vec<Match>, Failure> {
        let tenant = self.tenant.as_deref();
        let mut matches = ledger.find(&Fingerprint::of(text), tenant)?;
        let repaired = normalize(text);
        if matches.is_empty() && repaired.text != text {
            matches = ledger.find(&Fingerprint::of(&repaired.text), tenant)?;
            matches.iter_mut().for_each(|found| found.is_same = false);
        }
        Ok(matches)
    }
}
