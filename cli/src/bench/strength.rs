//! `verdigris bench strength`: measures whether a mark's strength depends on how the text is written.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use verdigris::{Constraint, Engine, Grammar, Key, Marking};

use super::name_of;
use crate::demo::secret;
use crate::engine::{DraftSource, EngineOptions};
use crate::error::Failure;
use crate::number::samples;
use crate::progress;
use crate::report::print_json;

/// Compare the strength of a mark on texts written plainly, speculatively, under constraints, and steered
#[derive(Args)]
#[command(after_help = "\
All ways of writing use the same keys and seeds. The strength of a mark depends on the choices that the text leaves: \
ways that do not change the distribution of the text do not change the mean z, within its error.

Example:
  verdigris bench strength --draft tale-small --draft tale-draft \\
      --expert tale-expert --anti tale-small --alpha 0.75")]
pub(crate) struct Strength {
    /// A model or a draft head that drafts, or mtp; may be given several times
    #[arg(long, value_name = "PATH|NAME")]
    draft: Vec<PathBuf>,
    /// A pattern that leaves fewer choices but does not limit the length
    #[arg(long, value_name = "PATTERN", default_value = "[a-z ,.]*")]
    regex: String,
    /// Texts of each kind
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = samples::<u64>)]
    samples: u64,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
    /// The sampling temperature
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    temperature: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engine: EngineOptions,
}

/// The results of one way of writing.
#[derive(Serialize)]
struct StrengthRow {
    texts: String,
    samples: usize,
    mean_z: f64,
    /// The standard error of the mean.
    error: f64,
    p_at_most_1e_5: usize,
    unmarked_mean_z: f64,
}

/// One way of writing.
struct WritingMode<'a> {
    name: String,
    engine: &'a Engine,
    constraint: Option<Constraint>,
    draft: Option<&'a DraftSource>,
}

impl Strength {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.samples < 2 {
            return Err(Failure::Usage("--samples must be at least 2".into()));
        }
        let engine = self.engine.unsteered()?;
        let steered = self.engine.is_steered().then(|| self.engine.engine()).transpose()?;
        let drafters = self.draft.iter().map(|path| Ok((name_of(path), self.engine.drafter(path)?)));
        let drafters = drafters.collect::<Result<Vec<_>, Failure>>()?;
        let way = |name: &str| WritingMode { name: name.into(), engine: &engine, constraint: None, draft: None };
        let constraint = |pattern: &str| -> Result<Option<Constraint>, Failure> {
            let grammar = Grammar::regex(pattern).map_err(verdigris::Error::from)?;
            Ok(Some(engine.constraint(grammar)))
        };
        let mut ways = vec![way("plain")];
        for (name, draft) in &drafters {
            ways.push(WritingMode { draft: Some(draft), ..way(&format!("4 drafts a call by {name}")) });
        }
        ways.push(WritingMode { constraint: constraint("(?s).*")?, ..way("constrained, nothing forbidden") });
        ways.push(WritingMode {
            constraint: constraint(&self.regex)?,
            ..way(&format!("constrained, `{}`", self.regex))
        });
        if let Some(steered) = &steered {
            ways.push(WritingMode { engine: steered, ..way("steered") });
            for (name, draft) in &drafters {
                let (constraint, draft) = (constraint(&self.regex)?, Some(draft));
                let name = format!("steered, constrained, 4 drafts a call by {name}");
                ways.push(WritingMode { engine: steered, constraint, draft, ..way(&name) });
            }
        }
        let bar = progress::of_texts(2 * self.samples * ways.len() as u64);
        let mut rows = Vec::new();
        for way in &ways {
            let (mut marked, mut plain, mut found) = (Vec::new(), Vec::new(), 0);
            for sample in 0..self.samples {
                let vocabulary = engine.reader().vocabulary();
                let key = Key::from_secret(secret(1, sample as u32), "bench", Marking::lists(), vocabulary)?;
                for (mark, into) in [(true, &mut marked), (false, &mut plain)] {
                    let text = self.write(way, mark.then_some(&key), sample)?;
                    let evidence = engine.reader().detect(&key, text.as_bytes())?;
                    found += usize::from(mark && evidence.ln_p <= 1e-5f64.ln());
                    into.push(evidence.z);
                    bar.inc(1);
                }
            }
            let (mean_z, error) = mean(&marked);
            let (texts, samples, unmarked_mean_z) = (way.name.clone(), marked.len(), mean(&plain).0);
            rows.push(StrengthRow { texts, samples, mean_z, error, p_at_most_1e_5: found, unmarked_mean_z });
        }
        bar.finish_and_clear();
        if self.json {
            return print_json(&rows);
        }
        let mut out = anstream::stdout();
        writeln!(out, "{} tokens, temperature {}\n", self.tokens, self.temperature)?;
        writeln!(out, "| texts | samples | mean z | p <= 1e-5 | mean z unmarked |\n|---|--:|--:|--:|--:|")?;
        for StrengthRow { texts, samples, mean_z, error, p_at_most_1e_5, unmarked_mean_z } in &rows {
            writeln!(
                out,
                "| {texts} | {samples} | {mean_z:.2} ± {error:.2} | {p_at_most_1e_5} | {unmarked_mean_z:.2} |"
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, way: &WritingMode<'_>, key: Option<&Key>, seed: u64) -> Result<String, Failure> {
        let mut request = way
            .engine
            .request("")
            .max_tokens(self.tokens)
            .through_end()
            .temperature(self.temperature)
            .top_p(1.0)
            .seed(seed);
        if let Some(key) = key {
            request = request.watermark(key);
        }
        if let Some(constraint) = &way.constraint {
            request = request.constraint(constraint);
        }
        if let Some(draft) = way.draft {
            request = draft.draft(request).draft_tokens(4);
        }
        Ok(request.text()?.text)
    }
}

/// The mean and its standard error.
pub(super) fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}
