//! `verdigris identify`: which key wrote a text, if any did.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::watermark::DEFAULT_LEVEL;
use verdigris::watermark::normalize::Repair;
use verdigris::{Finding, Key, Verdict, detector};

use crate::detect::{RepeatsName, hint_of_lines, repairs};
use crate::error::Failure;
use crate::key::KeysOption;
use crate::model::ModelOption;
use crate::terminal::shown_line;
use crate::{report, text};

/// Find out which of some keys, vocabulary sizes and green shares a text was marked with
#[derive(Args)]
#[command(after_help = "\
Other systems do not say which vocabulary size they split: the tokenizer's, the model config's, or the width of the \
logits. Every combination that is tried is paid for: the p-value is that of the best one times their number, and times \
the number of versions of the text, which is looked at again after each repair that it needs.

Exit status: 0 one of them is found, 1 none is, 2 no verdict: an error, or a text too short to decide. docs/json.md says \
what the fields of --json are.

Examples:
  verdigris identify text.txt --ring keys/
  verdigris identify text.txt --key kgw.key --gammas 0.25,0.5 \\
      --vocabulary-sizes 50257,50265,50272")]
pub(crate) struct Identify {
    /// The text; - for standard input
    file: PathBuf,
    #[command(flatten)]
    keys: KeysOption,
    #[command(flatten)]
    model: ModelOption,
    /// Try each key with these vocabulary sizes, besides its own
    #[arg(long, value_name = "N,..", value_delimiter = ',')]
    vocabulary_sizes: Vec<usize>,
    /// Try each key with these green shares, besides its own
    #[arg(long, value_name = "SHARE,..", value_delimiter = ',')]
    gammas: Vec<f64>,
    /// What counts as the same evidence again, and is counted once
    #[arg(long, value_enum, default_value_t = RepeatsName::Context)]
    repeats: RepeatsName,
    /// Call a key found when an unmarked text would have any of them look so with at most this probability
    #[arg(long, value_name = "P", default_value_t = DEFAULT_LEVEL)]
    level: f64,
    /// How many of the best to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    show: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// docs/json.md says what the fields are.
const FORMAT: &str = "verdigris-identify-1";

#[derive(Serialize)]
struct Output<'a> {
    format: &'static str,
    name: &'a str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    tried: usize,
    level: f64,
    found: Option<&'a Candidate<'a>>,
    best: &'a [Candidate<'a>],
}

#[derive(Serialize)]
struct Candidate<'a> {
    candidate: &'a str,
    key_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    tenant: &'a str,
    dialect: &'static str,
    vocabulary_size: usize,
    gamma: Option<f64>,
    scored: u64,
    z: f64,
    log10_p: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
}

impl<'a> Candidate<'a> {
    fn of(finding: &'a Finding, candidates: &'a [(String, Key)]) -> Self {
        let Finding { label, candidate, repairs, evidence } = finding;
        let (_, key) = &candidates[*candidate];
        Self {
            candidate: label,
            key_id: key.id(),
            tenant: key.tenant(),
            dialect: key.dialect().name(),
            vocabulary_size: key.vocabulary().size(),
            gamma: key.dialect().gamma(),
            scored: evidence.scored,
            z: evidence.z,
            log10_p: evidence.ln_p_corrected() / std::f64::consts::LN_10,
            repairs,
        }
    }
}

impl Identify {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Failure::Usage(format!("--level is {}, but must be above 0 and below 1", self.level)));
        }
        if let Some(share) = self.gammas.iter().find(|&&share| !(share > 0.0 && share < 1.0)) {
            return Err(Failure::Usage(format!("--gammas has {share}, but a green share is above 0 and below 1")));
        }
        let reader = self.model.reader()?;
        let mut candidates = Vec::new();
        for key in self.keys.load()?.fitting(&reader)?.0 {
            candidates.extend(detector::candidates(&key, &self.vocabulary_sizes, &self.gammas)?);
        }
        let tried = candidates.len();
        let name = text::name(&self.file);
        let text = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(FORMAT, &name, &failure),
            text => text?,
        };
        let findings = reader.identify(&candidates, &text, self.repeats.into())?;
        let best = &findings[0];
        let verdict = best.evidence.verdict(self.level);
        let found = matches!(verdict, Ok(Verdict::Marked));
        let shown = &findings[..self.show.clamp(1, findings.len())];
        let status = ExitCode::from(match &verdict {
            Ok(Verdict::Marked) => 0,
            Ok(Verdict::NotMarked) => 1,
            Err(_) => 2,
        });
        if self.json {
            let best: Vec<Candidate<'_>> = shown.iter().map(|finding| Candidate::of(finding, &candidates)).collect();
            let output = Output {
                format: FORMAT,
                name: &name,
                verdict: verdict.as_ref().map_or("too short", |verdict| report::verdict(*verdict)),
                error: verdict.as_ref().err().map(ToString::to_string),
                tried,
                level: self.level,
                found: best.first().filter(|_| found),
                best: &best,
            };
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&output).expect("the output serialises"))?;
            return Ok(status);
        }
        let mut out = anstream::stdout();
        let dim = anstyle::Style::new().dimmed();
        writeln!(out, "{dim}{:>8}{:>9}{:>11}  candidate ({tried} tried){dim:#}", "scored", "z", "p")?;
        for finding in shown {
            let evidence = &finding.evidence;
            let p = report::p_value(evidence.ln_p_corrected());
            writeln!(out, "{:>8}{:>9.2}{p:>11}  {}", evidence.scored, evidence.z, shown_line(&finding.label))?;
        }
        match &verdict {
            Ok(verdict) => {
                let style = report::verdict_style(*verdict);
                let label = shown_line(&best.label);
                let words = if found { format!("written with {label}") } else { "none of them".into() };
                writeln!(
                    out,
                    "\nverdict   {style}{words}{style:#} (level {}, corrected for all candidates tried)",
                    self.level
                )?;
                if found && !best.repairs.is_empty() {
                    writeln!(out, "repaired  {}", repairs(&best.repairs))?;
                }
                if let Some(hint) = hint_of_lines(&text).filter(|_| !found) {
                    writeln!(out, "hint      {hint}")?;
                }
            }
            Err(short) => writeln!(out, "\nverdict   {short}")?,
        }
        verdict.map_err(verdigris::Error::from)?;
        Ok(status)
    }
}
