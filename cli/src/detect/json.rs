//! The output of `--json`; docs/json.md describes the fields.

use serde::Serialize;
use serde_json::Value;
use verdigris::Verdict;
use verdigris::detector::answer::FORMAT;

use super::judged::Judged;

#[derive(Serialize)]
struct Line<'a> {
    format: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(flatten)]
    found: Found<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped_keys: &'a [String],
}

#[derive(Serialize)]
#[serde(untagged)]
enum Found<'a> {
    Verdict(Box<Verdict<'a>>),
    Fault { verdict: &'static str, error: String },
}

/// The line for one text.
pub(super) fn line(judged: &Judged<'_>, hint: Option<String>, skipped_keys: &[String]) -> String {
    let (found, skipped_keys) = match &judged.result {
        Ok(judgement) => (Found::Verdict(Box::new(judgement.verdict().with_hint(hint))), skipped_keys),
        Err(error) => (Found::Fault { verdict: "error", error: error.to_string() }, &[][..]),
    };
    let line = Line { format: FORMAT, name: &judged.name, id: judged.id.as_ref(), found, skipped_keys };
    serde_json::to_string(&line).expect("the line serialises")
}
