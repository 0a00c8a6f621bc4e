//! `verdigris robustness`: tests how the mark of a text survives edits.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::watermark::attack::Attack as Edit;
use verdigris::{Judgement, Key, Level, Look, Outcome};

use crate::edits::{self, EditSource, LAYOUT, STRENGTHS, check_strength};
use crate::error::Failure;
use crate::model::ModelOption;
use crate::terminal::shown_line;
use crate::{report, text};

/// Test how the mark of a text survives edits
#[derive(Args)]
#[command(after_help = "\
The text is edited as people and programs edit texts, with several strengths, and each result is judged with its key. \
A text is judged with repair of characters, white space and letter case, after copy-paste also by its passages, and p \
is corrected for all of that. Spaces, tabs, wrap, capitals and title change the whole text. docs/watermark.md has a \
table of the same edits over many texts; `verdigris bench robustness` produces it.

The same text, strength and seed give the same result. --text prints the edited text, to test another detector with.

Exit status: 0 the text is marked before the edits, 1 it is not, 2 no verdict: an error, or a text too short to \
decide. docs/json.md describes the fields of --json.

Examples:
  verdigris robustness tale.txt --key my.key
  verdigris robustness tale.txt --key my.key --edit deletion \\
      --strength 0.1,0.2,0.3
  verdigris robustness tale.txt --edit typos --strength 0.2 --text \\
      | verdigris detect --key my.key")]
pub(crate) struct Robustness {
    /// The text; - for standard input
    file: PathBuf,
    /// The key that the text is marked with
    #[arg(short, long, value_name = "FILE", required_unless_present = "text", conflicts_with = "text")]
    key: Option<PathBuf>,
    #[command(flatten)]
    model: ModelOption,
    /// Only this edit; may be given several times [default: all, but copy-paste only with --human]
    #[arg(long, value_name = "EDIT", value_parser = edits::edits())]
    edit: Vec<Edit>,
    /// The mean shares of the text that each edit affects, from 0 to 1 [default: 0.05,0.1,0.2,0.4, or 1 for layouts]
    #[arg(long, value_name = "SHARE,..", value_delimiter = ',')]
    strength: Vec<f64>,
    #[command(flatten)]
    source: EditSource,
    /// The p-value at or below which a text is called marked
    #[arg(long, value_name = "P", default_value_t)]
    level: Level,
    /// Print the text after one --edit of one --strength, and judge nothing
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// docs/json.md describes the fields.
const FORMAT: &str = "verdigris-robustness-1";

#[derive(Serialize)]
struct Output<'a> {
    format: &'static str,
    name: &'a str,
    verdict: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    key_id: &'a str,
    level: f64,
    seed: u64,
    survived: usize,
    tested: usize,
    edits: &'a [Tested],
}

/// The verdict on the text after an edit.
#[derive(Serialize)]
struct Tested {
    edit: &'static str,
    strength: f64,
    verdict: Outcome,
    tokens: u64,
    scored: u64,
    z: f64,
    log10_p: f64,
    #[serde(skip)]
    ln_p: f64,
}

impl Tested {
    fn new(edit: &'static str, strength: f64, judgement: &Judgement<'_>) -> Self {
        let evidence = &judgement.evidence;
        // If only a passage is marked, its p-value is the verdict's.
        let of_passages = judgement.passages.iter().map(|passage| passage.ln_p);
        let ln_p = of_passages.fold(evidence.ln_p_corrected(), f64::min);
        Self {
            edit,
            strength,
            verdict: judgement.outcome(),
            tokens: evidence.tokens,
            scored: evidence.scored,
            z: evidence.z,
            log10_p: ln_p / std::f64::consts::LN_10,
            ln_p,
        }
    }
}

impl Robustness {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.strength.iter().try_for_each(|&strength| check_strength(strength))?;
        let human = self.source.human(&self.edit)?;
        let Some(key) = &self.key else { return self.print_edited(&human) };
        let key = Key::load(key)?;
        let reader = self.model.reader()?;
        reader.fits(&key)?;
        let name = text::name(&self.file);
        let text = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(FORMAT, &name, &failure),
            text => text?,
        };
        let judge = |text: &str, edit: Option<Edit>| {
            let passages = edit == Some(Edit::CopyPaste);
            reader.judge(&[&key], text, &Look { level: self.level, passages, ..Look::default() })
        };
        let before = judge(&text, None)?;
        let mut tested = Vec::new();
        for (edit, strength) in self.tests(&human) {
            let edited = edit.apply(&text, strength, self.source.seed, &human);
            tested.push(Tested::new(edits::name(edit), strength, &judge(&edited, Some(edit))?));
        }
        let short = before.evidence.is_marked(self.level).err();
        let status = ExitCode::from(match before.outcome() {
            Outcome::TooShort => 2,
            outcome => u8::from(!outcome.is_marked()),
        });
        let survived = tested.iter().filter(|tested| tested.verdict.is_marked()).count();
        if self.json {
            report::print_json(&Output {
                format: FORMAT,
                name: &name,
                verdict: before.outcome(),
                error: short.map(|short| short.to_string()),
                key_id: key.id(),
                level: self.level.value(),
                seed: self.source.seed,
                survived,
                tested: tested.len(),
                edits: &tested,
            })?;
            return Ok(status);
        }
        if let Some(short) = short {
            return Err(Failure::Text { name, source: Box::new(short.into()) });
        }
        let mut out = anstream::stdout();
        let dim = anstyle::Style::new().dimmed();
        writeln!(out, "{dim}{:<20}{:>8}{:>8}{:>9}{:>11}  verdict{dim:#}", "edit", "tokens", "scored", "z", "p")?;
        let before = Tested::new("none", 0.0, &before);
        for Tested { edit, strength, verdict, tokens, scored, z, ln_p, .. } in [&before].into_iter().chain(&tested) {
            let label = if *strength > 0.0 { format!("{edit} {:.0} %", 100.0 * strength) } else { (*edit).to_owned() };
            let (p, style) = (report::p_value(*ln_p), report::verdict_style(verdict.is_marked()));
            writeln!(out, "{label:<20}{tokens:>8}{scored:>8}{z:>9.2}{p:>11}  {style}{}{style:#}", verdict.name())?;
        }
        let id = shown_line(key.id());
        writeln!(out, "\nthe mark is found after {survived} of {} edits ({id}, level {})", tested.len(), self.level)?;
        Ok(status)
    }

    /// The edits to test, with their strengths.
    fn tests(&self, human: &str) -> Vec<(Edit, f64)> {
        let all = Edit::ALL.map(|(edit, ..)| edit);
        let edits = if self.edit.is_empty() { &all[..] } else { &self.edit };
        let edits = edits.iter().filter(|edit| **edit != Edit::CopyPaste || !human.trim().is_empty());
        let with_strengths = |&edit: &Edit| {
            let usual = if edit.is_layout() { &LAYOUT[..] } else { &STRENGTHS };
            let strengths = if self.strength.is_empty() { usual } else { &self.strength };
            strengths.iter().map(move |&strength| (edit, strength))
        };
        edits.flat_map(with_strengths).collect()
    }

    fn print_edited(&self, human: &str) -> Result<ExitCode, Failure> {
        let ([edit], [strength]) = (&self.edit[..], &self.strength[..]) else {
            return Err(Failure::Usage("--text prints one result: give one --edit and one --strength".into()));
        };
        let edited = edit.apply(&text::read(&self.file)?, *strength, self.source.seed, human);
        std::io::stdout().write_all(edited.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
