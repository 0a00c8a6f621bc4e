//! `verdigris payload`: reads the number that a mark carries.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::detector::PayloadVerdict;
use verdigris::{Key, Level, Outcome};

use crate::detect::hint_of_lines;
use crate::error::Failure;
use crate::model::ModelOption;
use crate::terminal::shown_line;
use crate::{report, text};

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-payload-1";

/// Read the number that a text's mark carries
#[derive(Args)]
#[command(after_help = "\
The key must be one that carries numbers: key new --payload-bits. The p-value says how sure it is that there is a \
payload at all, and is corrected for the number of possible payloads; the doubt is the probability that another one \
was written, given that there is one.

Exit status: 0 there is one, 1 there is none, 2 no verdict: an error, or a text too short to decide. docs/json.md \
describes the fields of --json.

Examples:
  verdigris key new numbered.key --payload-bits 16
  verdigris generate \"The captain\" -n 400 --key numbered.key \\
      --payload 0xbeef > tale.txt
  verdigris payload tale.txt --key numbered.key")]
pub(crate) struct Payload {
    /// The text; - for standard input
    file: PathBuf,
    /// The key to read with
    #[arg(short, long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    model: ModelOption,
    /// The p-value at or below which a payload is reported
    #[arg(long, value_name = "P", default_value_t)]
    level: Level,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Output<'a> {
    format: &'static str,
    name: &'a str,
    #[serde(flatten)]
    found: PayloadVerdict,
}

impl Payload {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let key = Key::load(&self.key)?;
        let reader = self.model.reader()?;
        reader.fits(&key)?;
        // A key that carries nothing is refused before anything is read.
        key.payload_reader()?;
        let name = text::name(&self.file);
        let text = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(FORMAT, &name, &failure),
            text => text?,
        };
        let found = reader.payload(&key, &text)?.verdict(&key, self.level);
        let status = ExitCode::from(match found.verdict {
            Outcome::TooShort => 2,
            outcome => u8::from(!outcome.is_marked()),
        });
        if self.json {
            report::print_json(&Output { format: FORMAT, name: &name, found })?;
            return Ok(status);
        }
        if let Some(short) = found.short {
            return Err(Failure::Text { name, source: Box::new(short.into()) });
        }
        let mut out = anstream::stdout();
        let bold = anstyle::Style::new().bold();
        writeln!(out, "scored    {}", found.scored)?;
        writeln!(out, "green     {} under the best payload ({:.1} by chance)", found.green, found.expected)?;
        writeln!(out, "p         {} that there is one by chance", report::p_value(found.ln_p))?;
        if !found.repairs.is_empty() {
            writeln!(out, "repaired  {}", report::repairs(&found.repairs))?;
        }
        let id = shown_line(key.id());
        if let Some(payload) = found.payload {
            writeln!(out, "doubt     {} that the number is wrong", report::doubt(found.doubt))?;
            writeln!(out, "payload   {bold}{payload:#x}{bold:#} ({payload}, {id})")?;
        } else {
            writeln!(out, "payload   {bold}none found{bold:#} ({id}, level {})", self.level)?;
            if let Some(hint) = hint_of_lines(&text) {
                writeln!(out, "hint      {hint}")?;
            }
        }
        Ok(status)
    }
}

/// The number for a mark to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadChoice {
    /// This one.
    Number(u32),
    /// One that no entry of the ledger has.
    New,
}

/// Parses the choice of a number.
pub(crate) fn choice(text: &str) -> Result<PayloadChoice, String> {
    if text == "new" { Ok(PayloadChoice::New) } else { number(text).map(PayloadChoice::Number) }
}

/// Parses a number: decimal, or hexadecimal after 0x.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "a payload is a whole number of at most 32 bits, such as 48879 or 0xbeef".into())
}
