//! The structure of a text: the constraint on its answer, and its sections.

use verdigris_constrain::{Constraint, Grammar};

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;
use crate::request::healing::{Healing, PromptTokens};
use crate::request::reasoning::Sections;

/// The parts of a text, and the constraints on them.
#[derive(Clone, Default)]
pub(super) struct Structure {
    /// The constraint on the answer.
    pub(super) answer: Option<Constraint>,
    /// The constraint on all of the text: that on the answer, after the healed end of the prompt, and after a thought
    /// if there may be one.
    pub(super) whole: Option<Constraint>,
    pub(super) sections: Option<Sections>,
    /// The end of the prompt that the text begins with.
    pub(super) healing: Option<Healing>,
}

impl Request<'_> {
    /// The structure of a text after a prompt.
    pub(super) fn structure(
        &self,
        source: &Prompt,
        prompt: &PromptTokens,
        answer: Option<&Constraint>,
    ) -> Result<Structure, Error> {
        let sections = self.sections(source, prompt, answer)?;
        let whole = match (&sections, answer) {
            (Some(sections), Some(answer)) => Some(sections.whole(answer)?),
            (_, answer) => answer.cloned(),
        };
        let healing = prompt.healing.clone();
        let whole = match (whole, &healing) {
            (Some(whole), Some(healing)) => Some(after_prompt(&whole, healing.bytes())?),
            (whole, _) => whole,
        };
        Ok(Structure { answer: answer.cloned(), whole, sections, healing })
    }
}

/// The constraint on a text that begins with the end of its prompt.
fn after_prompt(whole: &Constraint, bytes: &[u8]) -> Result<Constraint, Error> {
    let name = format!("after {}", bytes.escape_ascii());
    let derived = whole.derived(name, |whole| Grammar::sequence([Grammar::text(bytes), whole.clone()]));
    derived.map_err(|_| Error::Unused { what: "token healing", needs: "a smaller constraint" })
}
