//! Edits of a text, as options of the commands that test how a mark survives them.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use verdigris::watermark::attack::Attack as Edit;

use crate::error::Failure;
use crate::text;

/// The shares of the words that are edited in a test, unless others are given.
pub(crate) const STRENGTHS: [f64; 4] = [0.05, 0.1, 0.2, 0.4];

/// The share for programs that change the layout: they change all of a text.
pub(crate) const LAYOUT: [f64; 1] = [1.0];

/// The source of the changes that an edit makes.
#[derive(Args)]
pub(crate) struct EditSource {
    /// The random seed: another seed gives another result of the same strength
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Human text that copy-paste puts around the text, and that substitution takes its words from
    #[arg(long, value_name = "FILE")]
    human: Option<PathBuf>,
}

/// Parses an edit by its name.
pub(crate) fn edits() -> impl TypedValueParser<Value = Edit> {
    let values = Edit::ALL.map(|(_, name, what)| PossibleValue::new(name).help(what));
    PossibleValuesParser::new(values).map(|given| {
        let (edit, ..) = Edit::ALL.into_iter().find(|(_, name, _)| *name == given).expect("one of these");
        edit
    })
}

/// The name of an edit.
pub(crate) fn name(edit: Edit) -> &'static str {
    Edit::ALL.into_iter().find(|(other, ..)| *other == edit).expect("of all").1
}

/// Parses a share from 0 to 1.
pub(crate) fn check_strength(strength: f64) -> Result<(), Failure> {
    match (0.0..=1.0).contains(&strength) {
        true => Ok(()),
        false => Err(Failure::Usage(format!("--strength is {strength}, but must be 0 to 1"))),
    }
}

/// Whether an edit takes words from human text.
fn takes_human_text(edit: Edit) -> bool {
    matches!(edit, Edit::CopyPaste | Edit::Substitution)
}

impl EditSource {
    /// Reads the human text for these edits, which the user has named.
    ///
    /// # Errors
    /// If one of them needs it and there is none, or if none of them takes it.
    pub(crate) fn human(&self, edits: &[Edit]) -> Result<String, Failure> {
        if let ([edit, ..], Some(_)) = (edits, &self.human)
            && !edits.iter().copied().any(takes_human_text)
        {
            let message = format!("--human is for copy-paste and substitution, not for {}: leave it out", name(*edit));
            return Err(Failure::Usage(message));
        }
        let human = self.human.as_deref().map(text::read).transpose()?.unwrap_or_default();
        if edits.contains(&Edit::CopyPaste) && human.trim().is_empty() {
            return Err(Failure::Usage("copy-paste needs a text to paste into: --human FILE".into()));
        }
        Ok(human)
    }
}
