//! The normalizers that are understood.

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::{NormalizedString, NormalizerWrapper};
use unicode_normalization::{IsNormalized, is_nfc_quick};

use super::pieces::SPACE;

/// The change of a text before it is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Normal {
    /// None at all.
    Unchanged,
    /// Unicode's composition.
    Composed,
    /// Spaces become [`SPACE`]. With `lead`, one more comes before each part of a text between added tokens.
    Spaces { lead: bool },
}

impl Normal {
    /// Reads a normalizer; `None` if it is another one.
    pub(super) fn of(normalizer: Option<Value>) -> Option<Self> {
        let Some(normalizer) = normalizer else { return Some(Self::Unchanged) };
        if !is_of_known_steps(&normalizer) {
            return None;
        }
        let mut steps = Vec::new();
        flatten(NormalizerWrapper::deserialize(normalizer).ok()?, &mut steps);
        let is_lead = |step: &NormalizerWrapper| match step {
            NormalizerWrapper::Prepend(step) => *step.prepend == *SPACE.encode_utf8(&mut [0; 4]),
            _ => false,
        };
        match &steps[..] {
            [] => Some(Self::Unchanged),
            [NormalizerWrapper::NFC(_)] => Some(Self::Composed),
            [step] if is_of_spaces(step) => Some(Self::Spaces { lead: false }),
            [lead, step] if is_lead(lead) && is_of_spaces(step) => Some(Self::Spaces { lead: true }),
            _ => None,
        }
    }

    /// The composed text, if it is another one.
    pub(super) fn composed(self, text: &str) -> Option<NormalizedString> {
        if self != Self::Composed || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            return None;
        }
        let mut text = NormalizedString::from(text);
        text.nfc();
        Some(text)
    }
}

/// Whether a normalizer has only steps that are understood. The library panics on faults in some others.
fn is_of_known_steps(step: &Value) -> bool {
    match step["type"].as_str() {
        Some("Sequence") => step["normalizers"].as_array().is_some_and(|steps| steps.iter().all(is_of_known_steps)),
        Some(kind) => ["NFC", "Prepend", "Replace"].contains(&kind),
        None => false,
    }
}

fn flatten(step: NormalizerWrapper, to: &mut Vec<NormalizerWrapper>) {
    match step {
        NormalizerWrapper::Sequence(steps) => steps.into_iter().for_each(|step| flatten(step, to)),
        step => to.push(step),
    }
}

fn is_of_spaces(step: &NormalizerWrapper) -> bool {
    let space = json!({"type": "Replace", "pattern": {"String": " "}, "content": SPACE});
    matches!(step, NormalizerWrapper::Replace(_)) && serde_json::to_value(step).is_ok_and(|step| step == space)
}
