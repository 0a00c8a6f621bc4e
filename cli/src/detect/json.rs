//! The output of `--json`; docs/json.md describes the fields.

use serde::Serialize;
use serde_json::Value;
use verdigris::Verdict;
use verdigris::detector::answer::FORMAT;

use super::judged_text::JudgedText;

#[derive(Serialize)]
struct JsonLine<'a> {
    format: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(flatten)]
    found: JsonVerdict<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    skipped_keys: &'a [String],
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonVerdict<'a> {
    Verdict(Box<Verdict<'a>>),
    Fault { verdict: &'static str, error: String },
}

/// The line for one text.
pub(super) fn line(judged: &JudgedText<'_>, hint: Option<String>, skipped_keys: &[String]) -> String {
    let (found, skipped_keys) = match &judged.result {
        Ok(judgement) => (JsonVerdict::Verdict(Box::new(judgement.verdict().with_hint(hint))), skipped_keys),
        Err(error) => (JsonVerdict::Fault { verdict: "error", error: error.to_string() }, &[][..]),
    };
    let line = JsonLine { format: FORMAT, name: &judged.name, id: judged.id.as_ref(), found, skipped_keys };
    serde_json::to_string(&line).expect("the line serialises")
}
