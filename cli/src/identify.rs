//! `verdigris identify`: finds the key that a text was marked with, if any.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris::detector::{self, Identified};
use verdigris::{Key, Level, Outcome, Repeats};

use crate::choice::OneOf;
use crate::detect::{PUBLIC, REPEATS, hint_of_lines};
use crate::error::Failure;
use crate::key::KeysOption;
use crate::model::ModelOption;
use crate::number::some;
use crate::terminal::shown_line;
use crate::{report, text};

/// Find which of several keys, vocabulary sizes and green shares a text was marked with
#[derive(Args)]
#[command(after_help = "\
Other systems do not say which vocabulary size they split: the tokenizer's, the model config's, or the width of the \
logits. The p-value is corrected for every combination that is tried: it is that of the best one times their number, \
and times the number of versions of the text, which is judged again after each repair that it needs.

Exit status: 0 one of them is found, 1 none is, 2 no verdict: an error, or a text too short to decide. docs/json.md \
describes the fields of --json.

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
    /// The repetitions that are counted only once
    #[arg(long, value_parser = OneOf(REPEATS), default_value = "context")]
    repeats: Repeats,
    /// The corrected p-value at or below which a key is called found
    #[arg(long, value_name = "P", default_value_t)]
    level: Level,
    /// The number of best candidates to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = some::<usize>)]
    show: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Identify {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(share) = self.gammas.iter().find(|&&share| !(share > 0.0 && share < 1.0)) {
            return Err(Failure::Usage(format!("--gammas has {share}, but a green share is above 0 and below 1")));
        }
        let reader = self.model.reader()?;
        let keys = crate::key::fitting(self.keys.load()?, &reader)?.keys;
        let tried = |sizes: &[usize], gammas: &[f64]| -> Result<Vec<(String, Key)>, Failure> {
            let all: Result<Vec<_>, _> = keys.iter().map(|key| detector::candidates(key, sizes, gammas)).collect();
            Ok(all?.into_iter().flatten().collect())
        };
        let own_gammas = |gamma: f64| keys.iter().any(|key| key.dialect().gamma() == Some(gamma));
        let own_sizes = |size: usize| keys.iter().any(|key| key.vocabulary().size() == size);
        let gammas =
            self.gammas.iter().map(|&gamma| ("--gammas", gamma.to_string(), own_gammas(gamma), vec![], vec![gamma]));
        let sizes = self.vocabulary_sizes.iter();
        let sizes = sizes.map(|&size| ("--vocabulary-sizes", size.to_string(), own_sizes(size), vec![size], vec![]));
        for (option, value, is_own, sizes, gammas) in gammas.chain(sizes) {
            if !is_own && tried(&sizes, &gammas)?.len() == keys.len() {
                let message = format!("{option} {value} changes nothing for these keys: leave it out, or give another");
                return Err(Failure::Usage(message));
            }
        }
        let candidates = tried(&self.vocabulary_sizes, &self.gammas)?;
        let name = text::name(&self.file);
        let text = match text::read(&self.file) {
            Err(failure) if self.json => return report::json_error(Identified::FORMAT, &name, &failure),
            text => text?,
        };
        let found = reader.identify(&candidates, &text, self.repeats, self.level)?;
        let identified = Identified::new(&name, &found, self.show, self.level);
        let status = ExitCode::from(match identified.outcome() {
            Outcome::TooShort => 2,
            outcome => u8::from(!outcome.is_marked()),
        });
        if self.json {
            report::print_json(&identified)?;
            return Ok(status);
        }
        let (best, tried) = (&found[0], found.len());
        let mut out = anstream::stdout();
        let dim = anstyle::Style::new().dimmed();
        writeln!(out, "{dim}{:>8}{:>9}{:>11}  candidate ({tried} tried){dim:#}", "scored", "z", "p")?;
        for candidate in identified.best() {
            let p = report::p_value(candidate.evidence.ln_p_corrected());
            let label = shown_line(&candidate.candidate);
            writeln!(out, "{:>8}{:>9.2}{p:>11}  {label}", candidate.scored, candidate.z)?;
        }
        if let Some(short) = identified.short() {
            writeln!(out, "\nverdict   {short}")?;
            return Err(verdigris::Error::from(short).into());
        }
        let style = report::verdict_style(identified.outcome().is_marked());
        let label = shown_line(&best.candidate);
        let words = match (best.marked, best.forged) {
            (false, _) => "none of them".into(),
            (true, false) => format!("written with {label}"),
            (true, true) => format!("forged, with the marks of several variants of {label}"),
        };
        writeln!(
            out,
            "\nverdict   {style}{words}{style:#} (level {}, corrected for all candidates tried)",
            self.level
        )?;
        if best.marked && best.public {
            writeln!(out, "note      {PUBLIC}")?;
        }
        let alike = found[1..].iter().take_while(|other| best.marked && other.evidence.ln_p == best.evidence.ln_p);
        for other in alike {
            writeln!(out, "note      {} fits equally well", shown_line(&other.candidate))?;
        }
        if best.marked && !best.repairs.is_empty() {
            writeln!(out, "repaired  {}", report::repairs(&best.repairs))?;
        }
        if let Some(hint) = hint_of_lines(&text).filter(|_| !best.marked) {
            writeln!(out, "hint      {hint}")?;
        }
        Ok(status)
    }
}
