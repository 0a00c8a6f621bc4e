//! The mark of a text with sections.

use verdigris_logits::{Row, TokenId, Transform};
use verdigris_watermark::Embed;
use verdigris_watermark::embed::Tail;

use super::sections::{SectionPosition, Sections};
use crate::request::Request;

/// Marks the answer as a text of its own, which is delivered without the thought: contexts that the thought has used
/// count as new, and the surprise of the text begins at 0. The thought is marked too, or left as it is. Tokens with
/// bytes of the prompt are part of the prompt.
pub(in crate::request) struct SectionMark {
    embed: Embed,
    sections: Sections,
    marks_thought: bool,
}

/// The state of the mark, and the position in the text.
#[derive(Clone)]
pub(in crate::request) struct SectionState {
    position: SectionPosition,
    tail: Tail,
    /// Whether the text has a thought.
    has_thought: bool,
}

impl Request<'_> {
    /// The mark of a text with sections.
    pub(in crate::request) fn section_mark(&self, embed: Embed, sections: Sections) -> SectionMark {
        SectionMark { embed, sections, marks_thought: !self.thinking.marks_answer_only }
    }
}

impl SectionMark {
    fn is_marked(&self, state: &SectionState) -> bool {
        !state.position.is_of_prompt() && (self.marks_thought || !state.has_thought || state.position.is_answer())
    }

    /// Moves on, and begins the mark of the answer.
    fn moved(&self, state: &mut SectionState, token: TokenId) {
        let was_answer = state.position.is_answer();
        self.sections.advance(&mut state.position, token);
        state.has_thought |= state.position.is_thought();
        if state.has_thought && !was_answer && state.position.is_answer() {
            state.tail = self.embed.start(state.tail.tokens());
        }
    }
}

impl Transform for SectionMark {
    type State = SectionState;

    fn start(&self, prompt: &[TokenId]) -> SectionState {
        let position = self.sections.start.clone();
        SectionState { has_thought: position.is_thought(), position, tail: self.embed.start(prompt) }
    }

    fn apply(&self, state: &SectionState, row: &mut Row) {
        if self.is_marked(state) {
            self.embed.apply(&state.tail, row);
        }
    }

    fn advance(&self, state: &mut SectionState, token: TokenId) {
        match state.position.is_of_prompt() {
            true => self.embed.advance_prompt(&mut state.tail, token),
            false => self.embed.advance(&mut state.tail, token),
        }
        self.moved(state, token);
    }

    fn advance_from(&self, state: &mut SectionState, row: &Row, token: TokenId) {
        if state.position.is_of_prompt() {
            return self.advance(state, token);
        }
        self.embed.advance_from(&mut state.tail, row, token);
        self.moved(state, token);
    }
}
