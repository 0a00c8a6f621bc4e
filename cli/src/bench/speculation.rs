//! `verdigris bench speculation`: what drafting costs and gains.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use verdigris::models::{Batch, LanguageModel, Rows, Wanted};
use verdigris::{Acceptance, DraftLength, Engine};

use super::progress::progress;
use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption, load};

/// Measure what drafting costs and gains, and what it should gain
#[derive(Args)]
#[command(after_help = "\
First the costs: v(m), a call of the model with m rows, and c, a drafted token, both as multiples of a call with one \
row. Then texts are written plainly and with drafts, in turn, so that a busy machine is busy for all of them. The \
speed-up that is predicted is E / (v(g + 1) + g c), with E the mean number of tokens a call.

Example:
  verdigris bench speculation --draft tale-small")]
pub(crate) struct Speculation {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    device: DeviceOption,
    /// The model that drafts
    #[arg(long, value_name = "PATH")]
    draft: PathBuf,
    /// The text to go on from
    #[arg(long, value_name = "TEXT", default_value = "The captain")]
    prompt: String,
    /// Texts of each kind
    #[arg(long, value_name = "N", default_value_t = 8)]
    samples: u64,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 300)]
    tokens: usize,
    /// The sampling temperature
    #[arg(long, value_name = "T", default_value_t = 0.8)]
    temperature: f64,
    /// The sampling top-p
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The most rows of one call that are timed.
const MAX_ROWS: usize = 9;

/// The drafts a call that are tried.
const LENGTHS: [usize; 5] = [1, 2, 3, 4, 8];

#[derive(Serialize)]
struct Report {
    /// Milliseconds of a call with one row.
    call_ms: f64,
    /// v(1), v(2), ...
    v: Vec<f64>,
    c: f64,
    rows: Vec<Row>,
}

/// What one way of drafting came to.
#[derive(Serialize)]
struct Row {
    drafts: String,
    /// The share of drafts that were accepted.
    accepted: f64,
    tokens_a_call: f64,
    predicted: Option<f64>,
    /// How many times as fast as plain decoding in the same rounds.
    measured: f64,
    tokens_a_second: f64,
}

/// How a text is written.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    Draft(DraftLength),
    /// A number of drafts that guess at the draws of plain decoding.
    Repeatable(usize),
    Lookup,
}

impl Speculation {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.samples == 0 || self.tokens < 2 {
            return Err(Failure::Usage("--samples must be at least 1, and --tokens at least 2".into()));
        }
        let device = self.device.device()?;
        let (engine, draft) = (self.model.engine(None, &device)?, load(&self.draft, &device)?);
        let (call, v) = call_costs(engine.model())?;
        let (draft_call, _) = call_costs(draft.model())?;
        let c = draft_call / call;

        let mut ways = vec![("none", Way::Plain)];
        let names: Vec<String> = LENGTHS.iter().map(|length| format!("{length}")).collect();
        let fixed = LENGTHS.iter().map(|&length| Way::Draft(DraftLength::Fixed(length)));
        ways.extend(names.iter().map(String::as_str).zip(fixed));
        ways.push(("4, repeatable", Way::Repeatable(4)));
        ways.push(("automatic", Way::Draft(DraftLength::Auto)));
        ways.push(("automatic, lookup", Way::Lookup));
        let (mut seconds, mut tokens) = (vec![0.0; ways.len()], vec![0; ways.len()]);
        let mut acceptance = vec![Acceptance::default(); ways.len()];
        let bar = progress(self.samples * ways.len() as u64);
        for sample in 0..self.samples {
            for (i, &(_, way)) in ways.iter().enumerate() {
                let begun = Instant::now();
                let (written, went) = self.write(&engine, &draft, way, sample)?;
                seconds[i] += begun.elapsed().as_secs_f64();
                tokens[i] += written;
                acceptance[i].calls += went.calls;
                acceptance[i].drafted += went.drafted;
                acceptance[i].accepted += went.accepted;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let speed = |i: usize| tokens[i] as f64 / seconds[i];
        let row = |(i, &(name, way)): (usize, &(&str, Way))| {
            let Acceptance { calls, drafted, accepted } = acceptance[i];
            let tokens_a_call = if calls == 0 { 1.0 } else { tokens[i] as f64 / calls as f64 };
            let predicted = match way {
                Way::Draft(DraftLength::Fixed(g)) | Way::Repeatable(g) => Some(tokens_a_call / (v[g] + g as f64 * c)),
                _ => None,
            };
            Row {
                drafts: name.to_owned(),
                accepted: accepted as f64 / drafted.max(1) as f64,
                tokens_a_call,
                predicted,
                measured: speed(i) / speed(0),
                tokens_a_second: speed(i),
            }
        };
        let rows = ways.iter().enumerate().map(row).collect();
        self.report(&Report { call_ms: 1e3 * call, v, c, rows })
    }

    fn report(&self, report: &Report) -> Result<ExitCode, Failure> {
        let mut out = anstream::stdout();
        if self.json {
            writeln!(out, "{}", serde_json::to_string(report).expect("a report serialises"))?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(
            out,
            "a call with one row takes {:.3} ms; a drafted token costs c = {:.2}\n",
            report.call_ms, report.c
        )?;
        let numbers: Vec<String> = (1..=report.v.len()).map(|m| m.to_string()).collect();
        writeln!(out, "| rows m | {} |\n|---|{}", numbers.join(" | "), "--:|".repeat(report.v.len()))?;
        let costs: Vec<String> = report.v.iter().map(|v| format!("{v:.2}")).collect();
        writeln!(out, "| v(m) | {} |\n", costs.join(" | "))?;
        writeln!(out, "| drafts a call | accepted | tokens a call | predicted | measured | tokens/s |")?;
        writeln!(out, "|---|--:|--:|--:|--:|--:|")?;
        for Row { drafts, accepted, tokens_a_call, predicted, measured, tokens_a_second } in &report.rows {
            let predicted = predicted.map(|speed| format!("{speed:.2}")).unwrap_or_default();
            writeln!(
                out,
                "| {drafts} | {:.0} % | {tokens_a_call:.2} | {predicted} | {measured:.2} | {tokens_a_second:.0} |",
                100.0 * accepted
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn write(&self, engine: &Engine, draft: &Engine, way: Way, seed: u64) -> Result<(usize, Acceptance), Failure> {
        let request = engine.request(&self.prompt).max_tokens(self.tokens).through_end().seed(seed);
        let request = request.temperature(self.temperature).top_p(self.top_p);
        let request = match way {
            Way::Plain => request,
            Way::Lookup => request.lookup(),
            Way::Draft(DraftLength::Auto) => request.draft(draft),
            Way::Draft(DraftLength::Fixed(length)) => request.draft(draft).draft_tokens(length),
            Way::Draft(DraftLength::Tree(shape)) => request.draft(draft).draft_tree(shape),
            Way::Repeatable(length) => request.draft(draft).draft_tokens(length).repeatable(),
        };
        let written = request.text()?;
        Ok((written.tokens.len(), written.acceptance.unwrap_or_default()))
    }
}

/// The seconds of a call with one row, and the cost of calls with 1, 2, ... rows as its multiples: medians over
/// rounds in which each number of rows has its turn.
fn call_costs(model: &Arc<dyn LanguageModel>) -> Result<(f64, Vec<f64>), Failure> {
    const HELD: usize = 100;
    const ROUNDS: usize = 41;
    let tokens: Vec<u32> = (0..(HELD + MAX_ROWS) as u32).map(|i| i % model.vocabulary_size() as u32).collect();
    let (mut sequence, mut rows) = (model.clone().begin(tokens.len())?, Rows::default());
    sequence.forward(&Batch::chain(&tokens[..HELD], Wanted::Last), &mut rows)?;
    let mut times = vec![Vec::new(); MAX_ROWS];
    for _ in 0..ROUNDS {
        for (m, times) in (1..).zip(&mut times) {
            let begun = Instant::now();
            sequence.forward(&Batch::chain(&tokens[HELD..HELD + m], Wanted::All), &mut rows)?;
            times.push(begun.elapsed().as_secs_f64());
            sequence.truncate(HELD);
        }
    }
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        })
        .collect();
    Ok((medians[0], medians.iter().map(|time| time / medians[0]).collect()))
}
