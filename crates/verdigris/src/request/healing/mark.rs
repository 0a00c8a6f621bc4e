//! The mark of a text that begins with the end of its prompt.

use verdigris_logits::{Row, TokenId, Transform};
use verdigris_watermark::Embed;
use verdigris_watermark::embed::Tail;

use super::prompt::Healing;

/// Marks a text from the first token after the removed end of the prompt. To the mark, tokens with bytes of the prompt
/// are part of the prompt: a reader of the answer alone cannot know them.
pub(in crate::request) struct HealedMark {
    pub(in crate::request) embed: Embed,
    pub(in crate::request) healing: Healing,
}

/// The state of the mark, and the number of bytes of the prompt that are left.
#[derive(Clone)]
pub(in crate::request) struct HealedState {
    rest: usize,
    tail: Tail,
}

impl HealedMark {
    /// Moves on, if the token has bytes of the prompt.
    fn is_of_prompt(&self, state: &mut HealedState, token: TokenId) -> bool {
        let is_of_prompt = state.rest > 0;
        if is_of_prompt {
            state.rest = self.healing.after(state.rest, token);
            self.embed.advance_prompt(&mut state.tail, token);
        }
        is_of_prompt
    }

    /// The state of the mark, unless the next token has bytes of the prompt.
    pub(in crate::request) fn marked<'s>(&self, state: &'s HealedState) -> Option<&'s Tail> {
        (state.rest == 0).then_some(&state.tail)
    }
}

impl Transform for HealedMark {
    type State = HealedState;

    fn start(&self, prompt: &[TokenId]) -> HealedState {
        HealedState { rest: self.healing.rest(), tail: self.embed.start(prompt) }
    }

    fn apply(&self, state: &HealedState, row: &mut Row) {
        if let Some(tail) = self.marked(state) {
            self.embed.apply(tail, row);
        }
    }

    fn advance(&self, state: &mut HealedState, token: TokenId) {
        if !self.is_of_prompt(state, token) {
            self.embed.advance(&mut state.tail, token);
        }
    }

    fn advance_from(&self, state: &mut HealedState, row: &Row, token: TokenId) {
        if !self.is_of_prompt(state, token) {
            self.embed.advance_from(&mut state.tail, row, token);
        }
    }
}
