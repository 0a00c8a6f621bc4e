//! The keys and the limits of a server, and the results of its tools.

use serde::Serialize;
use serde_json::{Value, json};
use verdigris::detector::answer::FORMAT;
use verdigris::detector::{self, Identified};
use verdigris::{Error, Evidence, Hint, Key, Level, Look, MarkCheck, MarkStatus, Outcome, Reader, Repeats, Verdict};

/// The name of a text in results.
const NAME: &str = "text";

/// The number of candidates that `identify` returns.
const SHOWN: usize = 10;

const PASSAGES: &str = "only the text as a whole was judged: look for marked passages too (\"passages\": true)";

/// Judges texts with the keys of the operator.
pub struct Detector {
    reader: Reader,
    keys: Vec<Key>,
    /// The keys that `identify` tries.
    candidates: Vec<(String, Key)>,
    level: Level,
    max_text: usize,
}

#[derive(Serialize)]
struct Found<'a> {
    format: &'static str,
    name: &'static str,
    #[serde(flatten)]
    verdict: Verdict<'a>,
}

impl Detector {
    /// A detector with keys for the reader's tokenizer, at least one, for texts of at most `max_text` bytes.
    ///
    /// # Errors
    /// [`Error::Key`] if a key cannot be used.
    pub fn new(reader: Reader, keys: Vec<Key>, level: Level, max_text: usize) -> Result<Self, Error> {
        let mut candidates = Vec::with_capacity(keys.len());
        for key in &keys {
            candidates.extend(detector::candidates(key, &[], &[])?);
        }
        Ok(Self { reader, keys, candidates, level, max_text })
    }

    /// The maximum number of bytes of a text.
    pub(crate) fn max_text(&self) -> usize {
        self.max_text
    }

    /// Refuses a text that is too long.
    pub(crate) fn check(&self, text: &str) -> Result<(), String> {
        let (bytes, most) = (text.len(), self.max_text);
        let fault = || format!("the text has {bytes} bytes, but may have up to {most}: send a part of it");
        if bytes <= most { Ok(()) } else { Err(fault()) }
    }

    /// The keys that are tested: the one with an id, or all.
    fn keys(&self, id: Option<&str>) -> Result<Vec<&Key>, String> {
        let keys: Vec<&Key> = self.keys.iter().filter(|key| id.is_none_or(|id| key.id() == id)).collect();
        match (keys.is_empty(), id) {
            (true, Some(id)) => {
                Err(format!("this server does not have the key {id:?}: leave key_id out to test all keys"))
            }
            _ => Ok(keys),
        }
    }

    /// Judges a text: the object of `verdigris detect --json`.
    pub(crate) fn detect(&self, text: &str, key_id: Option<&str>, passages: bool) -> Result<Value, String> {
        let look = Look { level: self.level, passages, ..Look::default() };
        let judgement = self.reader.judge(&self.keys(key_id)?, text, &look).map_err(|error| error.to_string())?;
        let hint = Hint::of(text, &judgement).map(|hint| hint.advice(PASSAGES));
        let hint = hint.filter(|_| judgement.outcome() == Outcome::NotMarked);
        Ok(value(&Found { format: FORMAT, name: NAME, verdict: judgement.verdict().with_hint(hint) }))
    }

    /// Finds the key that a text was marked with: the object of `verdigris identify --json`.
    pub(crate) fn identify(&self, text: &str) -> Result<Value, String> {
        let found = self.reader.identify(&self.candidates, text, Repeats::default(), self.level);
        let found = found.map_err(|error| error.to_string())?;
        Ok(value(&Identified::new(NAME, &found, SHOWN, self.level)))
    }

    /// The status of the mark of a text as it was delivered: the field `watermark` of a server's answers. With several
    /// keys it is that of the key with most evidence, corrected for all of them.
    pub(crate) fn mark_status(&self, text: &str, key_id: Option<&str>) -> Result<Value, String> {
        let keys = self.keys(key_id)?;
        let tried = keys.len() as f64;
        let mut best: Option<(&Key, Evidence)> = None;
        for key in keys {
            let evidence = self.reader.detect_delivered(key, text).map_err(|error| error.to_string())?;
            let evidence = evidence.best_of(evidence.tried * tried);
            if best.as_ref().is_none_or(|(_, most)| evidence.ln_p_corrected() < most.ln_p_corrected()) {
                best = Some((key, evidence));
            }
        }
        let (key, evidence) = best.ok_or("this server has no keys")?;
        let check = MarkCheck::of(&evidence, self.level, false);
        let scheme = (check.status != MarkStatus::Skipped).then(|| key.dialect().name());
        Ok(json!({
            "status": check.status.name(), "reason": check.reason, "key_id": key.id(), "scheme": scheme,
            "scored_tokens": check.scored,
        }))
    }
}

fn value(found: &impl Serialize) -> Value {
    serde_json::to_value(found).expect("results are JSON")
}
