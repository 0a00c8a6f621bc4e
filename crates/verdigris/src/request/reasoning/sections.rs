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
use crate::request::healing::PromptTokens;

/// The syntax of the sections of a text, and the position at its beginning.
#[derive(Clone)]
pub(in crate::request) struct Sections {
    reasoning: Arc<Reasoning>,
    tokenizer: Arc<Tokenizer>,
    pub(in crate::request) start: SectionPosition,
}

/// A position in a text: at first in the end of the prompt that it begins with, then in its sections.
#[derive(Clone)]
pub(in crate::request) struct SectionPosition {
    /// The number of bytes left of the prompt's end.
    rest: usize,
    position: Position,
}

impl SectionPosition {
    /// Whether the next token has bytes of the prompt.
    pub(super) fn is_of_prompt(&self) -> bool {
        self.rest > 0
    }

    /// Whether it is in the answer.
    pub(super) fn is_answer(&self) -> bool {
        self.position.is_answer()
    }

    /// Whether it is in a thought.
    pub(super) fn is_thought(&self) -> bool {
        self.position.is_thought()
    }

    /// The number of tokens of thoughts.
    pub(in crate::request) fn thought_tokens(&self) -> usize {
        self.position.thought_tokens()
    }
}

impl Request<'_> {
    /// The sections of a text after a prompt; `None` if all of it is the answer.
    pub(in crate::request) fn sections(
        &self,
        prompt: &Prompt,
        tokens: &PromptTokens,
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
        let mut start = reasoning.after_prompt(tokenizer.vocabulary(), &tokens.whole());
        if start.is_begin() && self.thinking.effort == Some(ReasoningEffort::None) {
            start = Position::answer();
        }
        let start = SectionPosition { rest: tokens.rest(), position: start };
        Ok(Some(Sections { reasoning: reasoning.into(), tokenizer: tokenizer.clone(), start }))
    }
}

impl Sections {
    /// The tokens of the marker that ends a thought.
    pub(super) fn close_tokens(&self) -> &[TokenId] {
        self.reasoning.close_tokens()
    }

    /// See [`Reasoning::may_think_again`].
    pub(super) fn may_think_again(&self, at: &SectionPosition) -> bool {
        self.reasoning.may_think_again(&at.position)
    }

    /// See [`Reasoning::thinks_again`]. Ids without a token never do.
    pub(super) fn thinks_again(&self, at: &SectionPosition, token: TokenId) -> bool {
        self.reasoning.thinks_again(&at.position, self.tokenizer.vocabulary().spelling(token))
    }

    /// Moves a position past a token.
    pub(super) fn advance(&self, position: &mut SectionPosition, token: TokenId) {
        self.push(position, token, |_, _| ());
    }

    /// As [`Sections::advance`], and passes on the bytes of sections: see [`Reasoning::push`].
    pub(in crate::request) fn push(&self, at: &mut SectionPosition, token: TokenId, each: impl FnMut(Section, &[u8])) {
        let vocabulary = self.tokenizer.vocabulary();
        let spelling = match vocabulary.spelling(token) {
            // Bytes that UTF-8 does not have are not spelled, and a text has U+FFFD for them.
            [] if !vocabulary.bytes(token).is_empty() => "\u{FFFD}".as_bytes(),
            spelling => spelling,
        };
        let of_prompt = spelling.len().min(at.rest);
        at.rest -= of_prompt;
        if of_prompt == 0 || of_prompt < spelling.len() {
            self.reasoning.push(&mut at.position, &spelling[of_prompt..], each);
        }
    }

    /// Ends a text: see [`Reasoning::finish`].
    pub(in crate::request) fn finish(&self, at: SectionPosition, each: impl FnMut(Section, &[u8])) {
        self.reasoning.finish(at.position, each);
    }

    /// The constraint on all of a text whose answer has a constraint.
    pub(in crate::request) fn whole(&self, answer: &Constraint) -> Result<Constraint, Error> {
        let start = &self.start.position;
        if start.is_answer() {
            return Ok(answer.clone());
        }
        let key = format!("{} {:?} {}", self.reasoning.syntax().name, start, self.reasoning.drops_breaks());
        answer
            .derived(key, |answer| answer.clone().after_thought(&self.reasoning, start))
            .map_err(|_| Error::Unused { what: "a thought", needs: "a smaller constraint on the answer" })
    }
}
