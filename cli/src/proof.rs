//! What a text that was just written carries of its mark: what a reader with its key finds in it.

use serde::Serialize;
use verdigris::{Evidence, Grammar, Key, Level, MarkCheck, Reader};

use crate::report;

/// A key that texts are marked with, and who reads them with it.
pub(crate) struct Proof<'k> {
    key: &'k Key,
    reader: Reader,
}

/// What JSON says of a mark.
#[derive(Serialize)]
pub(crate) struct Carried {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    scored: u64,
    z: f64,
    log10_p: f64,
    /// Of a text that does not prove its mark, where that is known: what was to be expected with its choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_z: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_log10_p: Option<f64>,
}

impl Carried {
    /// What is found in a text that has a form or has none.
    pub(crate) fn new(evidence: &Evidence, has_form: bool) -> Self {
        let check = MarkCheck::of(evidence, Level::DEFAULT, has_form);
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

/// Whether a text of which this is found would be called marked.
pub(crate) fn is_proof(evidence: Option<&Evidence>) -> bool {
    evidence.is_some_and(|evidence| evidence.ln_p_corrected() <= Level::DEFAULT.ln())
}

impl<'k> Proof<'k> {
    /// Of texts that have a form where there is one: a reader finds more who knows it.
    pub(crate) fn new(key: &'k Key, reader: &Reader, form: Option<Grammar>) -> Self {
        let reader = reader.clone();
        Self { key, reader: if let Some(form) = form { reader.of_form(form) } else { reader } }
    }

    pub(crate) fn key(&self) -> &'k Key {
        self.key
    }

    /// What is found in a text; without its form where a stop string took that.
    pub(crate) fn evidence(&self, text: &str) -> Option<Evidence> {
        self.reader.detect_delivered(self.key, text).ok()
    }

    /// Says how many of some texts would not be called marked, if any, and what was to be expected of those where that
    /// is known.
    pub(crate) fn warn(&self, unproved: usize, texts: usize, expected: &[Evidence]) {
        let which = match (unproved, texts) {
            (0, _) => return,
            (_, 1) => "the text does not prove its mark".into(),
            _ => format!("{unproved} of {texts} texts do not prove their mark"),
        };
        let whom = if self.reader.form().is_some() { " to a reader who knows its form" } else { "" };
        let strongest = expected.iter().min_by(|a, b| a.ln_p.total_cmp(&b.ln_p));
        let p = strongest.map(|of| report::p_value(of.ln_p_corrected())).unwrap_or_default();
        let choices = match expected {
            [] => String::new(),
            [of] => format!(": with the choices it had, about z {:.1} is to be expected, with p {p}", of.z),
            all => {
                let mean = all.iter().map(|of| of.z).sum::<f64>() / all.len() as f64;
                format!(": with their choices, about z {mean:.1} is to be expected on average, with p {p} at best")
            }
        };
        let stronger =
            if self.key.strength().is_some() { ", and so do stronger keys (key new --strength)" } else { "" };
        crate::terminal::headed(
            "warning",
            format_args!(
                "{which}{whom} (p is above {:e}){choices}; longer texts and texts \
             of more choice do{stronger}",
                Level::DEFAULT
            ),
        );
    }
}
