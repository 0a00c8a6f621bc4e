//! What `--json` prints; docs/json.md says what the fields are.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;
use verdigris::watermark::normalize::Repair;
use verdigris::{Judgement, Mark};

use super::judged::{Judged, Outcome};
use super::options::Detect;
use super::words;

const FORMAT: &str = "verdigris-detect-1";

#[derive(Serialize)]
struct Line<'a> {
    format: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(flatten)]
    found: Option<Found<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    key_id: &'a str,
    dialect: &'static str,
    tokens: u64,
    scored: u64,
    score: f64,
    expected: f64,
    z: f64,
    p: f64,
    log10_p: f64,
    looks: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_z: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_log10_p: Option<f64>,
    level: f64,
    sampled: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passages: Option<Vec<FoundPassage<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forced: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<Vec<[usize; 2]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped_keys: &'a [String],
}

#[derive(Serialize)]
struct FoundPassage<'a> {
    key_id: &'a str,
    start: usize,
    end: usize,
    scored: u64,
    z: f64,
    log10_p: f64,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    repairs: &'a [(Repair, usize)],
}

/// The line for one text.
pub(super) fn line(options: &Detect, judged: &Judged<'_>, outcome: Outcome, hint: Option<&str>) -> String {
    let (found, error) = match &judged.result {
        Ok(judgement) => {
            let short = judgement.evidence.verdict(options.level).err().filter(|_| outcome == Outcome::TooShort);
            (Some(found(options, judgement)), short.map(|short| short.to_string()))
        }
        Err(error) => (None, Some(error.to_string())),
    };
    let (name, id, verdict) = (&judged.name, judged.id.as_ref(), words::outcome(outcome));
    let line = Line { format: FORMAT, name, id, verdict, error, hint, found };
    serde_json::to_string(&line).expect("the line serialises")
}

fn found<'a>(options: &'a Detect, judgement: &'a Judgement<'_>) -> Found<'a> {
    let evidence = &judgement.evidence;
    let log10 = |ln: f64| ln / std::f64::consts::LN_10;
    let passages = judgement.passages.iter().map(|passage| FoundPassage {
        key_id: passage.key.id(),
        start: passage.range.start,
        end: passage.range.end,
        scored: passage.scored,
        z: passage.z,
        log10_p: log10(passage.ln_p),
        repairs: &passage.repairs,
    });
    // Of a text that was weighed there are no tokens to tell of.
    let tokens = Some(&judgement.tokens).filter(|tokens| options.form.is_given() && !tokens.is_empty());
    Found {
        key_id: judgement.key.id(),
        dialect: judgement.key.dialect().name(),
        tokens: evidence.tokens,
        scored: evidence.scored,
        score: evidence.score,
        expected: evidence.expected,
        z: evidence.z,
        p: evidence.p(),
        log10_p: log10(evidence.ln_p_corrected()),
        looks: evidence.tried,
        expected_z: judgement.expected.map(|expected| expected.z),
        expected_log10_p: judgement.expected.map(|expected| log10(expected.ln_p)),
        level: options.level,
        sampled: evidence.sampled,
        repairs: &judgement.repairs,
        skipped: Some(judgement.skipped).filter(|&skipped| skipped > 0),
        passages: options.searches().then(|| passages.collect()),
        forced: tokens.map(|tokens| forced(tokens)),
        counted: tokens.map(|tokens| counted(tokens)),
        payload: judgement.payload.map(|read| read.payload),
        skipped_keys: &options.skipped,
    }
}

/// How many tokens the form left no choice about.
fn forced(tokens: &[(Range<usize>, Mark)]) -> usize {
    tokens.iter().filter(|(_, mark)| *mark == Mark::Forced).count()
}

/// The bytes of the tokens that were counted.
fn counted(tokens: &[(Range<usize>, Mark)]) -> Vec<[usize; 2]> {
    let counted = tokens.iter().filter(|(_, mark)| matches!(mark, Mark::Counted { .. }));
    counted.map(|(range, _)| [range.start, range.end]).collect()
}
