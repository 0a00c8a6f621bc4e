//! `--explain`: prints the origin of each token of a text, and the effect of each step.

use std::io::Write;

use serde::Serialize;
use verdigris::{Explained, MarkScore, StepEffect, TokenOrigin, Written};

use crate::terminal::{shown_line, style};

/// The columns of a token, and of its origin.
const TOKEN: usize = 16;
const ORIGIN: usize = 23;

/// The JSON fields of a token.
#[derive(Serialize)]
pub(super) struct ExplainedFields<'a> {
    token: u32,
    text: &'a str,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    model_logprob: f64,
    logprob: f64,
    steps: Vec<StepFields>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<MarkFields>,
}

#[derive(Serialize)]
struct StepFields {
    name: String,
    allowed: usize,
    forbidden: usize,
    shift: f32,
    logprob: f64,
}

#[derive(Serialize)]
struct MarkFields {
    score: f32,
    green: bool,
}

impl<'a> From<&'a Explained> for ExplainedFields<'a> {
    fn from(of: &'a Explained) -> Self {
        let (origin, by) = match of.origin {
            TokenOrigin::Corrected => ("corrected", None),
            TokenOrigin::Drafted(by) => ("drafted", Some(option(by))),
            TokenOrigin::Decided(by) => ("decided", Some(option(by))),
            _ => ("computed", None),
        };
        let step = |&StepEffect { name, allowed, forbidden, shift, logprob, .. }: &StepEffect| StepFields {
            name: option(name),
            allowed,
            forbidden,
            shift,
            logprob,
        };
        Self {
            token: of.token,
            text: &of.text,
            origin,
            by,
            model_logprob: of.model_logprob,
            logprob: of.logprob,
            steps: of.steps.iter().map(step).collect(),
            mark: of.mark.map(|MarkScore { score, green, .. }| MarkFields { score, green }),
        }
    }
}

/// The option for a name of the library.
fn option(name: &str) -> String {
    if name == "draft_head" { "draft".into() } else { name.replace('_', "-") }
}

/// Prints the explanation of a text on standard error if there is one, with its seed if there are several texts.
pub(super) fn say(written: &Written, is_one_of_several: bool) {
    let Some(explained) = &written.explained else { return };
    let dim = style(anstyle::AnsiColor::BrightBlack);
    let mut err = anstream::stderr().lock();
    // It is not an error if standard error cannot be written.
    if is_one_of_several {
        let _ = writeln!(err, "{dim}seed {}{dim:#}", written.seed);
    }
    let head =
        format!("{:>5}  {:TOKEN$}  {:ORIGIN$}  {:>7}  {:>7}  steps", "index", "token", "origin", "model", "sampled");
    let _ = writeln!(err, "{dim}{head}{dim:#}");
    for (place, of) in explained.iter().enumerate() {
        let token = format!("\"{}\"", shown_line(&of.text));
        let (model, drawn) = (probability(of.model_logprob), probability(of.logprob));
        let line = format!("{place:>5}  {token:TOKEN$}  {:ORIGIN$}  {model:>7}  {drawn:>7}  {}", origin(of), steps(of));
        let _ = writeln!(err, "{}", line.trim_end());
    }
}

fn origin(of: &Explained) -> String {
    match of.origin {
        TokenOrigin::Corrected => "call, draft rejected".into(),
        TokenOrigin::Drafted(by) => format!("draft of --{}", option(by)),
        TokenOrigin::Decided(by) => format!("forced by --{}", option(by)),
        _ => "call".into(),
    }
}

/// Describes the effect of each step in a word or two.
fn steps(of: &Explained) -> String {
    let mut all = Vec::new();
    for step in &of.steps {
        let mut said = option(step.name);
        if let (Some(mark), "watermark") = (of.mark, step.name) {
            said += &score(mark);
        }
        // These scale all logits, so the shift of one says nothing.
        if step.shift != 0.0 && !matches!(step.name, "temperature" | "dynatemp_range") {
            said += &format!(" {:+.2}", step.shift);
        }
        if step.forbidden > 0 {
            said += &format!(" left {}", step.allowed);
        }
        all.push(said);
    }
    if let Some(mark) = of.mark
        && !of.steps.iter().any(|step| step.name == "watermark")
    {
        all.push(format!("watermark{}", score(mark)));
    }
    all.join(", ")
}

fn score(MarkScore { score, green, colours }: MarkScore) -> String {
    match (colours, green) {
        (true, true) => " green".into(),
        (true, false) => " red".into(),
        (false, _) => format!(" score {score:.2}"),
    }
}

/// Formats a probability, given its logarithm, in seven columns.
fn probability(logprob: f64) -> String {
    let p = logprob.exp();
    if p == 0.0 || p >= 1e-4 { format!("{p:.4}") } else { format!("{p:.0e}") }
}
