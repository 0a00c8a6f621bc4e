//! What `--json` prints; docs/json.md says what the fields are.

use serde::Serialize;
use serde_json::Value;
use verdigris::{Judgement, Outcome, Report};

use super::judged::Judged;
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
    found: Option<Report<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped_keys: &'a [String],
}

/// The line for one text.
pub(super) fn line(options: &Detect, judged: &Judged<'_>, outcome: Option<Outcome>, hint: Option<&str>) -> String {
    let (found, error) = match &judged.result {
        Ok(judgement) => {
            let short = judgement.evidence.verdict(options.level).err().filter(|_| outcome == Some(Outcome::TooShort));
            (Some(found(options, judgement)), short.map(|short| short.to_string()))
        }
        Err(error) => (None, Some(error.to_string())),
    };
    let (name, id, verdict) = (&judged.name, judged.id.as_ref(), words::outcome(outcome));
    let skipped_keys = if found.is_some() { &options.skipped[..] } else { &[] };
    let line = Line { format: FORMAT, name, id, verdict, error, hint, found, skipped_keys };
    serde_json::to_string(&line).expect("the line serialises")
}

fn found<'a>(options: &Detect, judgement: &'a Judgement<'_>) -> Report<'a> {
    let mut report = Report::new(judgement, options.level);
    if options.searches() {
        report = report.with_passages(judgement);
    }
    if options.form.is_given() { report.with_form(judgement) } else { report }
}
