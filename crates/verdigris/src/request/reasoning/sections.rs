//! Where the thought of a text ends.

use std::sync::Arc;

use verdigris_constrain::Constraint;
use verdigris_logits::TokenId;
use verdigris_text::reasoning::Position;
use verdigris_text::{Reasoning, Section, Tokenizer};

use super::options::{ReasoningEffort, ReasoningFormat};
use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;

/// The syntax of the sections of a text, and the position after its prompt.
#[derive(Clone)]
pub(in crate::request) struct Sections {
    reasoning: Arc<Reasoning>,
    tokenizer: Arc<Tokenizer>,
    pub(in crate::request) start: Position,
}

impl Request<'_> {
    /// The sections of a text after a prompt, whose tokens are given; `None` if all of it is the answer.
    pub(in crate::request) fn sections(
        &self,
        prompt: &Prompt,
        tokens: &[TokenId],
        answer: Option<&Constraint>,
    ) -> Result<Option<Sections>, Error> {
        let syntax = match self.thinking.format {
            ReasoningFormat::None => None,
            ReasoningFormat::Syntax(syntax) => Some(syntax),
            ReasoningFormat::Auto if matches!(prompt, Prompt::Chat(_)) => self.engine.reasoning(),
            ReasoningFormat::Auto => None,
        };
        let Some(syntax) = syntax else {
            return match (self.thinking.budget, self.thinking.effort) {
                (None, None | Some(ReasoningEffort::None)) => Ok(None),
                _ => Err(Error::NoReasoning),
            };
        };
        let tokenizer = self.engine.reader().tokenizer();
        let mut reasoning = Reasoning::new(syntax, tokenizer)?;
        // Line breaks after a thought are part of an answer that may begin with one.
        let begins_with_break = |answer: &Constraint| {
            let machine = answer.machine();
            machine.goes_on(machine.next(machine.start(), b"\n"))
        };
        if answer.is_some_and(begins_with_break) {
            reasoning = reasoning.keep_breaks();
        }
        let mut start = reasoning.after_prompt(tokenizer.vocabulary(), tokens);
        if start.is_begin() && self.thinking.effort == Some(ReasoningEffort::None) {
            start = Position::answer();
        }
        Ok(Some(Sections { reasoning: reasoning.into(), tokenizer: tokenizer.clone(), start }))
    }
}

impl Sections {
    /// The tokens of the marker that ends a thought.
    pub(super) fn close_tokens(&self) -> &[TokenId] {
        self.reasoning.close_tokens()
    }

    /// Moves a position past a token.
    pub(super) fn advance(&self, position: &mut Position, token: TokenId) {
        self.push(position, token, |_, _| ());
    }

    /// As [`Sections::advance`], and passes on the bytes of sections: see [`Reasoning::push`].
    pub(in crate::request) fn push(&self, position: &mut Position, token: TokenId, each: impl FnMut(Section, &[u8])) {
        let vocabulary = self.tokenizer.vocabulary();
        let spelling = match vocabulary.spelling(token) {
            // Bytes that UTF-8 does not have are not spelled, and a text has U+FFFD for them.
            [] if !vocabulary.bytes(token).is_empty() => "\u{FFFD}".as_bytes(),
            spelling => spelling,
        };
        self.reasoning.push(position, spelling, each);
    }

    /// Ends a text: see [`Reasoning::finish`].
    pub(in crate::request) fn finish(&self, position: Position, each: impl FnMut(Section, &[u8])) {
        self.reasoning.finish(position, each);
    }

    /// The constraint on all of a text whose answer has a constraint.
    pub(in crate::request) fn whole(&self, answer: &Constraint) -> Result<Constraint, Error> {
        if self.start.is_answer() {
            return Ok(answer.clone());
        }
        let key = format!("{} {:?} {}", self.reasoning.syntax().name, self.start, self.reasoning.drops_breaks());
        answer
            .derived(key, |answer| answer.clone().after_thought(&self.reasoning, &self.start))
            .map_err(|_| Error::Unused { what: "a thought", needs: "a smaller constraint on the answer" })
    }
}
