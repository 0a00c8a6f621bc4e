//! Checks the mark of a text that was just written, as a reader with its key finds it.

use serde::Serialize;
use verdigris::{Evidence, Grammar, Key, Level, MarkCheck, Reader};

use crate::report;

/// A key that texts are marked with, and a reader for them.
pub(crate) struct Proof<'k> {
    key: &'k Key,
    reader: Reader,
}

/// The JSON fields of a mark.
#[derive(Serialize)]
pub(crate) struct Carried {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    scored: u64,
    z: f64,
    log10_p: f64,
    /// For a text that does not prove its mark: the z that was to be expected with its choices, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_z: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_log10_p: Option<f64>,
}

impl Carried {
    /// The fields for the evidence in a text; `is_forced` is whether its constraint is why nothing is scored.
    fn new(evidence: &Evidence, is_forced: bool) -> Self {
        let check = MarkCheck::of(evidence, Level::DEFAULT, is_forced);
        Self {
            status: check.status.name(),
            reason: check.reason,
            scored: evidence.scored,
            z: evidence.z,
            log10_p: check.log10_p,
            expected_z: None,
            expected_log10_p: None,
        }
    }

    pub(crate) fn expecting(self, expected: Option<Evidence>) -> Self {
        let log10_p = |of: Evidence| of.ln_p_corrected() / std::f64::consts::LN_10;
        Self { expected_z: expected.map(|of| of.z), expected_log10_p: expected.map(log10_p), ..self }
    }
}

/// Whether a text with this evidence would be called marked.
pub(crate) fn is_proof(evidence: Option<&Evidence>) -> bool {
    evidence.is_some_and(|evidence| evidence.reaches(Level::DEFAULT))
}

impl<'k> Proof<'k> {
    /// With the constraint on the texts, if there is one: a reader that knows it finds more.
    pub(crate) fn new(key: &'k Key, reader: &Reader, constraint: Option<Grammar>) -> Self {
        let reader = reader.clone();
        Self { key, reader: if let Some(constraint) = constraint { reader.of_grammar(constraint) } else { reader } }
    }

    pub(crate) fn key(&self) -> &'k Key {
        self.key
    }

    /// The evidence in a text; without the constraint if a stop string broke it.
    pub(crate) fn evidence(&self, text: &str) -> Option<Evidence> {
        self.reader.detect_delivered(self.key, text).ok()
    }

    /// The fields for the evidence in a text.
    pub(crate) fn carried(&self, evidence: &Evidence, text: &str) -> Carried {
        Carried::new(evidence, self.reader.is_forced(self.key, text, evidence))
    }

    /// Warns if some texts would not be called marked, with the evidence that was to be expected of them, if known.
    pub(crate) fn warn(&self, unproved: usize, texts: usize, expected: &[Evidence]) {
        let which = match (unproved, texts) {
            (0, _) => return,
            (_, 1) => "the text does not prove its mark".into(),
            _ => format!("{unproved} of {texts} texts do not prove their mark"),
        };
        let whom = if self.reader.has_constraint() { " to a reader that knows the constraint" } else { "" };
        let strongest = expected.iter().min_by(|a, b| a.ln_p.total_cmp(&b.ln_p));
        let p = strongest.map(|of| report::p_value(of.ln_p_corrected())).unwrap_or_default();
        let choices = match expected {
            [] => String::new(),
            [of] => format!(": with the choices it had, about z {:.1} was to be expected, with p {p}", of.z),
            all => {
                let mean = all.iter().map(|of| of.z).sum::<f64>() / all.len() as f64;
                format!(": with their choices, about z {mean:.1} was to be expected on average, with p {p} at best")
            }
        };
        let stronger =
            if self.key.strength().is_some() { ", and so do stronger keys (key new --strength)" } else { "" };
        crate::terminal::headed(
            "warning",
            format_args!(
                "{which}{whom} (p is above {:e}){choices}; longer texts and texts \
             with more choice do{stronger}",
                Level::DEFAULT
            ),
        );
    }
}
