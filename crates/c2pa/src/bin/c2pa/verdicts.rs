//! The two verdicts on one text.

use serde_json::json;
use verdigris_c2pa::{ManifestVerdict, Trust};
use verdigris_detector::{Judgement, Outcome};

/// The verdicts on one text.
pub(crate) struct Verdicts<'k> {
    pub(crate) name: String,
    pub(crate) manifest: ManifestVerdict,
    /// `None` if no key was given.
    pub(crate) mark: Option<Result<Judgement<'k>, String>>,
    /// Contradictions between the two verdicts.
    pub(crate) notes: Vec<String>,
}

impl Verdicts<'_> {
    /// The outcome for the mark; `None` if there is no key, or the mark could not be judged.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let judgement = self.mark.as_ref()?.as_ref().ok()?;
        Some(judgement.outcome())
    }

    /// The exit status of this text.
    pub(crate) fn status(&self, trust: &Trust) -> u8 {
        let mark = match &self.mark {
            None => 0,
            Some(Err(_)) => 2,
            Some(Ok(_)) => u8::from(!self.outcome().is_some_and(Outcome::is_marked)),
        };
        mark | if self.manifest.is_good(trust) { 0 } else { 4 }
    }

    /// The verdicts as a line of JSON.
    pub(crate) fn json(&self) -> String {
        let mark = match &self.mark {
            None => json!({ "verdict": "not asked" }),
            Some(Err(error)) => json!({ "verdict": "error", "error": error }),
            Some(Ok(judgement)) => serde_json::to_value(judgement.verdict()).expect("the verdict serialises"),
        };
        let Self { name, manifest, notes, .. } = self;
        let mut line = json!({ "format": "verdigris-verify-1", "name": name, "manifest": manifest, "mark": mark });
        if !notes.is_empty() {
            line["notes"] = json!(notes);
        }
        line.to_string()
    }
}
