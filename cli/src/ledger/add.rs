//! `verdigris ledger add`: records texts that exist.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use verdigris::detector::Unwrapped;
use verdigris_ledger::{Fingerprint, Ledger, NewEntry};

use crate::error::Failure;
use crate::ledger::prune::moment;
use crate::terminal::shown_line;
use crate::{answer_id, report, text};

/// The most bytes of a manifest store.
const MAX_MANIFEST: u64 = 16 << 20;

/// Record texts that exist, or the manifest of a recorded text
#[derive(Args)]
#[command(after_help = "\
The ledger is created if it does not exist. An entry is never replaced: the same text under the same id adds nothing \
but a manifest. A C2PA manifest in a text is not part of its fingerprint.

Examples:
  verdigris ledger add answers.ledger tale.txt --key-id vg-1c2d3e4f
  verdigris ledger add answers.ledger letter.txt --id chatcmpl-7 \\
      --tenant ann --manifest letter.txt.c2pa")]
pub(crate) struct Add {
    /// The ledger
    ledger: PathBuf,
    /// The texts; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The id of the answer, for a single text [default: a random one for each text]
    #[arg(long)]
    id: Option<String>,
    /// The tenant whose answer it is
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    tenant: String,
    /// The id of the key that marks the texts
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// The day or the moment at which the texts were written [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    time: Option<Timestamp>,
    /// The C2PA manifest store of a single text
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Print one JSON object per text
    #[arg(long)]
    json: bool,
}

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-ledger-add-1";

impl Add {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let of_one = [("--id", self.id.is_some()), ("--manifest", self.manifest.is_some())];
        if let Some((option, _)) = of_one.iter().find(|(_, given)| *given && self.files.len() > 1) {
            return Err(Failure::Usage(format!("{option} is for one text, and there are {}", self.files.len())));
        }
        let manifest = self.manifest.as_ref().map(|path| {
            let fault = |source| Failure::Open { path: path.clone(), source };
            let mut bytes = Vec::new();
            text::open(path).map_err(fault)?.take(MAX_MANIFEST + 1).read_to_end(&mut bytes).map_err(fault)?;
            match bytes.len() as u64 > MAX_MANIFEST {
                true => Err(Failure::Usage(format!("{} is longer than {MAX_MANIFEST} bytes", path.display()))),
                false => Ok(bytes),
            }
        });
        let manifest = manifest.transpose()?;
        // All are read before the first is recorded.
        let mut texts = Vec::new();
        for file in &self.files {
            let id = self.id.clone().map_or_else(answer_id::new, Ok)?;
            let text = text::read(file)?;
            texts.push((text::name(file), id, Fingerprint::of(&Unwrapped::new(&text).text)));
        }
        let mut ledger = Ledger::create(&self.ledger)?;
        for (name, id, fingerprint) in &texts {
            let entry = NewEntry {
                tenant: &self.tenant,
                key_id: self.key_id.as_deref(),
                manifest: manifest.as_deref(),
                ..NewEntry::new(id, fingerprint)
            };
            ledger.add(&NewEntry { time: self.time.unwrap_or(entry.time), ..entry })?;
            match self.json {
                true => _ = report::print_json(&serde_json::json!({"format": FORMAT, "name": name, "id": id}))?,
                false => writeln!(std::io::stdout(), "{}: recorded as {}", shown_line(name), shown_line(id))?,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
