//! Prompt lookup.

use verdigris_logits::TokenId;
use verdigris_logits::transform::ChainState;

use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// Prompt lookup: what followed the last tokens when they stood in the text before (Saxena 2023).
///
/// The longest suffix that occurred before decides, and of its occurrences the latest. Each call compares the end of
/// the text at every position of it: for a text of n tokens at most n times [`Lookup::max_match`] comparisons, which is
/// far less than a call of a model costs.
#[doc(alias = "prompt_lookup")]
#[doc(alias = "ngram")]
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    /// The shortest suffix that counts.
    pub min_match: usize,
    /// The longest suffix that is looked for.
    pub max_match: usize,
}

impl Default for Lookup {
    fn default() -> Self {
        Self { min_match: 2, max_match: 8 }
    }
}

impl Drafter for Lookup {
    fn draft(
        &mut self,
        text: &[TokenId],
        _: &ChainState,
        shape: &TreeShape,
        _: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let mut best = (0, 0);
        // `end` is where an earlier occurrence of the suffix ends; something must follow it.
        for end in (1..text.len()).rev() {
            let backwards = text[..end].iter().rev().zip(text.iter().rev());
            let length = backwards.take(self.max_match).take_while(|(a, b)| a == b).count();
            if length > best.0 {
                best = (length, end);
                if length == self.max_match {
                    break;
                }
            }
        }
        let (length, end) = best;
        if length < self.min_match.max(1) {
            return Ok(());
        }
        for &token in text[end..].iter().take(shape.depth()) {
            tree.guess(tree.len().checked_sub(1), token);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seeded;
    use crate::drafter::drafts;
    use verdigris_logits::{Chain, Random, Transform};

    #[test]
    fn lookup_takes_the_latest_of_the_longest_suffixes() {
        let lookup = |text: &[TokenId], limit| -> Vec<TokenId> {
            let mut lookup = Lookup { min_match: 2, max_match: 4 };
            let (state, chance) = (Chain::new().start(&[]), &mut Seeded(Random::new(3)));
            let drafts = drafts(&mut lookup, text, &state, TreeShape::chain(limit), chance);
            drafts.into_iter().map(|(token, _, law)| if law.is_none() { token } else { TokenId::MAX }).collect()
        };
        // Twice after 1 2, and once after 9 1 2, which is longer.
        assert_eq!(lookup(&[9, 1, 2, 30, 31, 1, 2, 40, 41, 9, 1, 2], 2), [30, 31]);
        // Of equals the latest.
        assert_eq!(lookup(&[1, 2, 30, 1, 2, 40, 1, 2, 50, 1, 2], 1), [50]);
        // Longer than the longest that is looked for: the latest again.
        assert_eq!(lookup(&[8, 1, 2, 3, 4, 30, 9, 1, 2, 3, 4, 40, 8, 1, 2, 3, 4], 1), [40]);
        // It may reach into itself, and hands over what there is.
        assert_eq!(lookup(&[7, 7, 7], 5), [7]);
        assert_eq!(lookup(&[1, 2, 30, 31, 1, 2], 9), [30, 31, 1, 2]);
        // One token is too short a suffix, and a text without repeats has none.
        assert_eq!(lookup(&[1, 30, 1], 3), [] as [TokenId; 0]);
        assert_eq!(lookup(&[1, 2, 3], 3), [] as [TokenId; 0]);
    }
}
