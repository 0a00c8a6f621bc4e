//! What a text that was just written carries of its mark: what a reader with its key finds in it.

use serde::Serialize;
use verdigris::watermark::DEFAULT_LEVEL;
use verdigris::{Evidence, Grammar, Key, MarkCheck, Reader};

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
}

impl Carried {
    /// What is found in a text that has a form or has none.
    pub(crate) fn new(evidence: &Evidence, has_form: bool) -> Self {
        let check = MarkCheck::of(evidence, DEFAULT_LEVEL, has_form);
        let (status, reason) = (check.status.name(), check.reason);
        Self { status, reason, scored: evidence.scored, z: evidence.z, log10_p: check.log10_p }
    }
}

/// Whether a text of which this is found would be called marked.
pub(crate) fn is_proof(evidence: Option<&Evidence>) -> bool {
    evidence.is_some_and(|evidence| evidence.ln_p_corrected() <= DEFAULT_LEVEL.ln())
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

    /// Says how many of some texts would not be called marked, if any, and what is to be expected of such a text where
    /// that is known.
    pub(crate) fn warn(&self, unproved: usize, texts: usize, expected: Option<Evidence>) {
        let which = match (unproved, texts) {
            (0, _) => return,
            (_, 1) => "the text does not prove its mark".into(),
            _ => format!("{unproved} of {texts} texts do not prove their mark"),
        };
        let whom = if self.reader.form().is_some() { " to a reader who knows its form" } else { "" };
        let yellow = report::style(anstyle::AnsiColor::Yellow).bold();
        let choices = expected.map(|of| {
            format!(
                ": with the choices it had, about z {:.1} is to be expected, with p {}",
                of.z,
                report::p_value(of.ln_p_corrected())
            )
        });
        crate::terminal::say!(
            "{yellow}warning:{yellow:#} {which}{whom} (p is above {DEFAULT_LEVEL:e}){}; longer texts and texts of more \
             choice do, and so do stronger keys (key new --strength)",
            choices.unwrap_or_default()
        );
    }
}
