//! The structure of a text: the constraint on its answer, and its sections.

use verdigris_constrain::Constraint;
use verdigris_logits::TokenId;

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;
use crate::request::reasoning::Sections;

/// The parts of a text, and the constraints on them.
#[derive(Clone, Default)]
pub(super) struct Structure {
    /// The constraint on the answer.
    pub(super) answer: Option<Constraint>,
    /// The constraint on all of the text: that on the answer, after a thought if there may be one.
    pub(super) whole: Option<Constraint>,
    pub(super) sections: Option<Sections>,
}

impl Request<'_> {
    /// The structure of a text after a prompt.
    pub(super) fn structure(
        &self,
        source: &Prompt,
        prompt: &[TokenId],
        answer: Option<&Constraint>,
    ) -> Result<Structure, Error> {
        let sections = self.sections(source, prompt, answer)?;
        let whole = match (&sections, answer) {
            (Some(sections), Some(answer)) => Some(sections.whole(answer)?),
            (_, answer) => answer.cloned(),
        };
        Ok(Structure { answer: answer.cloned(), whole, sections })
    }
}
