//! `verdigris bench robustness`: measures what is left of a mark after each edit.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use verdigris::watermark::attack::Attack as Edit;
use verdigris::{Key, Look};

use super::marks::by_robustness;
use crate::edits::{self, LAYOUT, STRENGTHS};
use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption};
use crate::number::samples;
use crate::progress;

/// Edit marked texts and count how many are still found, by context function
#[derive(Args)]
#[command(after_help = "\
Each text has its own seed and key. Texts are judged with repair of characters, which the p-value accounts for; \
copy-paste also with windows. Layout edits (spaces, tabs, wrap, capitals, title) change the whole text. Human text \
for copy-paste and substitution comes from --human; without it, unmarked text of the model is used.

Examples:
  verdigris bench robustness --human letters.txt
  verdigris bench robustness --samples 20 --edit deletion")]
pub(crate) struct Robustness {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// Texts of each context function
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = samples::<u32>)]
    samples: u32,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
    /// Only this edit
    #[arg(long, value_name = "EDIT", value_parser = edits::edits(), alias = "attack")]
    edit: Option<Edit>,
    /// A file of human text
    #[arg(long, value_name = "FILE")]
    human: Option<PathBuf>,
    /// The seed of all texts, keys and edits
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Robustness {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.samples == 0 {
            return Err(Failure::Usage("--samples is 0, but must be at least 1".into()));
        }
        let engine = self.model.engine(None, &self.device.device()?)?;
        let as_the_model_says =
            |tokens| engine.request("").max_tokens(tokens).through_end().temperature(1.0).top_p(1.0);
        let human = match &self.human {
            Some(file) => crate::text::read(file)?,
            None => as_the_model_says(1500).seed(self.seed ^ 0x68_756d).text()?.text,
        };
        let ways = by_robustness();
        let bar = progress::of_texts(u64::from(self.samples) * ways.len() as u64);
        let mut texts: Vec<Vec<(Key, String)>> = Vec::new();
        for way in &ways {
            let mut of_way = Vec::new();
            for i in 0..self.samples {
                let key = way.key(&engine, self.seed, i)?;
                let request = as_the_model_says(self.tokens);
                let text = request.seed(self.seed << 32 | u64::from(i)).watermark(&key).text()?.text;
                of_way.push((key, text));
                bar.inc(1);
            }
            texts.push(of_way);
        }
        bar.finish_and_clear();
        let mut out = anstream::stdout();
        writeln!(
            out,
            "% of texts of {} tokens with p <= 1e-5, {} each (mean of -log10 p)\n",
            self.tokens, self.samples
        )?;
        let names: Vec<String> = ways.iter().map(|way| format!("{:>14} |", way.name)).collect();
        writeln!(out, "| {:<20} | {}", "edit", names.join(" "))?;
        writeln!(out, "|---|{}", "--:|".repeat(ways.len()))?;
        let none = [("none", None, 0.0)];
        let chosen = Edit::ALL.iter().filter(|(edit, ..)| self.edit.is_none_or(|only| only == *edit));
        let each = chosen.flat_map(|&(edit, name, _)| {
            let strengths = if edit.is_layout() { &LAYOUT[..] } else { &STRENGTHS };
            strengths.iter().map(move |&strength| (name, Some(edit), strength))
        });
        for (name, edit, strength) in none.into_iter().chain(each) {
            let label = if edit.is_some() { format!("{name} {:.0} %", 100.0 * strength) } else { name.to_owned() };
            write!(out, "| {label:<20} |")?;
            for of_way in &texts {
                let (mut found, mut digits) = (0, 0.0);
                for ((key, text), i) in of_way.iter().zip(0u64..) {
                    let edited = match edit {
                        Some(edit) => edit.apply(text, strength, self.seed << 20 | i, skip(&human, i)),
                        None => text.clone(),
                    };
                    let windows = edit == Some(Edit::CopyPaste);
                    let look = Look { passages: windows, ..Look::default() };
                    let judgement = engine.reader().judge(&[key], &edited, &look)?;
                    let ln_p = judgement.evidence.ln_p_corrected();
                    let best = judgement.passages.iter().map(|passage| passage.ln_p).fold(ln_p, f64::min);
                    found += u32::from(best <= 1e-5f64.ln());
                    digits -= best / std::f64::consts::LN_10;
                }
                let n = f64::from(self.samples);
                let cell = format!("{:.0} ({:.1})", 100.0 * f64::from(found) / n, digits / n);
                write!(out, " {cell:>14} |")?;
            }
            writeln!(out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The part of the human text for sample `i`: each sample begins at another position.
fn skip(human: &str, i: u64) -> &str {
    let at = (i as usize * 997) % (human.len() / 2).max(1);
    let at = (at..human.len()).find(|&at| human.is_char_boundary(at) && human[at..].starts_with(' ')).unwrap_or(0);
    &human[at..]
}
