//! Whether a text was ended early because its tokens ran out.

use verdigris_logits::{TokenId, TokenSet, Transform};

use super::Constraint;

/// Sets of bytes.
type Bytes = [u64; 4];

impl Constraint {
    /// Whether a text with [as many tokens as allowed](Constraint::within) came so close to the limit that
    /// continuations which were otherwise allowed had to be ruled out: strings that were cut, lists that were closed
    /// early, values chosen to fit. Other spellings of the same text with more tokens do not count.
    pub fn ran_out_of_room(&self, prompt: &[TokenId], tokens: &[TokenId]) -> bool {
        let mut state = self.start(prompt);
        for &token in tokens {
            if self.is_tight(&state) {
                let (machine, at, left) = (&state.machine, state.at, state.left.saturating_sub(1));
                let free = machine.mask(at);
                let mut within = TokenSet::new(free.tokens.capacity());
                machine.mask_ending_within(at, left, self.tokens, &mut within);
                let is_applied = free.accepts || !within.is_empty();
                let [free, within] = [&free.tokens, &within].map(|tokens| self.first_bytes(tokens));
                if is_applied && free.iter().zip(&within).any(|(free, within)| free & !within != 0) {
                    return true;
                }
            }
            self.advance(&mut state, token);
        }
        false
    }

    /// The set of first bytes of tokens.
    fn first_bytes(&self, tokens: &TokenSet) -> Bytes {
        let mut bytes = Bytes::default();
        for first in tokens.iter().filter_map(|token| self.lexicon.bytes(token).first()) {
            bytes[usize::from(*first) / 64] |= 1 << (first % 64);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::LEXICON;
    use crate::grammar::Grammar;

    #[test]
    fn a_text_that_was_cut_is_told_from_one_that_fits() {
        let ran_out = |pattern: &str, text: &str, more: usize| {
            let tokens = LEXICON.tokenizer().encode(text).unwrap();
            let within = Constraint::new(Grammar::regex(pattern).unwrap(), &LEXICON).within(tokens.len() + more);
            within.ran_out_of_room(&[], &tokens)
        };
        let name = r#"\{"name":"[a-z ]*","age":[0-9]{1,2}\}"#;
        assert!(ran_out(name, r#"{"name":"the captain of the","age":2}"#, 0));
        // With more room, nothing was ruled out.
        assert!(!ran_out(name, r#"{"name":"the captain of the","age":2}"#, 40));
        // One of several words can be written in few tokens or many; the text is the same.
        assert!(!ran_out(" (yes|no|maybe)", " yes", 0));
        assert!(!ran_out(" the captain", " the captain", 0));
    }
}
