//! The maximum number of tokens of a thought.

use verdigris_logits::{Row, TokenId, Transform};

use super::sections::{SectionPosition, Sections};

/// Forces the end marker of a thought once its tokens are used up, after which no other thought begins.
///
/// It acts after the constraint: where that does not allow the marker's next token, since too few tokens are left for
/// it, the row stays as it is.
pub(in crate::request) struct ThoughtBudget {
    sections: Sections,
    tokens: usize,
}

impl ThoughtBudget {
    pub(in crate::request) fn new(sections: Sections, tokens: usize) -> Self {
        Self { sections, tokens }
    }
}

impl Transform for ThoughtBudget {
    type State = SectionPosition;

    fn start(&self, _prompt: &[TokenId]) -> SectionPosition {
        self.sections.start.clone()
    }

    fn apply(&self, position: &SectionPosition, row: &mut Row) {
        if position.is_of_prompt() {
            return;
        }
        let Some(over) = position.thought_tokens().checked_sub(self.tokens) else { return };
        if self.sections.may_think_again(position) {
            row.with_set(row.len(), |row, others| {
                let tokens = 0..row.len() as TokenId;
                let is_other = |token: &TokenId| !self.sections.thinks_again(position, *token);
                tokens.filter(is_other).for_each(|token| others.insert(token));
                row.restrict(others);
            });
        }
        if !position.is_thought() {
            return;
        }
        let marker = self.sections.close_tokens();
        // After a marker that did not end the thought, because its first bytes belong to another token, it is forced
        // again.
        let token = marker[over % marker.len()];
        if row.logits().get(token as usize).is_some_and(|logit| *logit > f32::NEG_INFINITY) {
            row.with_set(row.len(), |row, only| {
                only.insert(token);
                row.restrict(only);
            });
        }
    }

    fn advance(&self, position: &mut SectionPosition, token: TokenId) {
        self.sections.advance(position, token);
    }
}
