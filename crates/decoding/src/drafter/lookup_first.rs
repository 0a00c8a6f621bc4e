//! Prompt lookup where the text repeats itself, and another drafter where it does not.

use verdigris_logits::TokenId;
use verdigris_logits::transform::ChainState;
use verdigris_models::Rows;

use super::{Drafter, Lookup};
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The way of the other drafter, and that of lookup.
const OTHER: usize = 0;
const LOOKUP: usize = 1;

/// [`Lookup`] where it finds something, else another drafter: copies are drafted for nothing and far ahead, and all else
/// by who knows the language.
pub struct LookupFirst<'a, D> {
    lookup: Lookup<'a>,
    other: D,
}

impl<'a, D: Drafter> LookupFirst<'a, D> {
    /// Asks `other` where `lookup` finds no suffix that is long enough for it.
    pub fn new(lookup: Lookup<'a>, other: D) -> Self {
        Self { lookup, other }
    }
}

impl<D: Drafter> Drafter for LookupFirst<'_, D> {
    fn draft(
        &mut self,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        match self.way(text) {
            LOOKUP => self.lookup.draft(text, state, shape, chance, tree),
            _ => self.other.draft(text, state, shape, chance, tree),
        }
    }

    fn way(&mut self, text: &[TokenId]) -> usize {
        if self.lookup.finds(text) { LOOKUP } else { OTHER }
    }

    fn most_children(&self) -> usize {
        self.lookup.most_children().max(self.other.most_children())
    }

    fn reads_features(&self) -> bool {
        self.other.reads_features()
    }

    fn observe(&mut self, tokens: &[TokenId], rows: &Rows, kept: &[usize]) -> Result<(), DecodeError> {
        self.other.observe(tokens, rows, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seeded;
    use crate::drafter::{Undrafted, drafts};
    use verdigris_logits::{Chain, Random, Transform};

    /// Drafts one token, always the same.
    struct Nine;

    impl Drafter for Nine {
        fn draft(
            &mut self,
            _: &[TokenId],
            _: &ChainState,
            _: &TreeShape,
            _: &mut dyn Chance,
            tree: &mut DraftTree,
        ) -> Result<(), DecodeError> {
            tree.guess(None, 9);
            Ok(())
        }
    }

    #[test]
    fn the_other_drafts_where_nothing_is_repeated() {
        let mut both = LookupFirst::new(Lookup::new(4), Nine);
        let mut drafted = |text: &[TokenId]| -> Vec<TokenId> {
            let state = Chain::new().start(text);
            let drafts = drafts(&mut both, text, &state, TreeShape::chain(3), &mut Seeded(Random::new(1)));
            drafts.into_iter().map(|(token, ..)| token).collect()
        };
        assert_eq!(drafted(&[1, 2, 3]), [9]);
        // Three tokens are too few, four are enough.
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 6, 2, 3, 4]), [9]);
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 6, 2, 3, 4, 5]), [6, 2, 3]);
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 7]), [9]);
        assert!(!LookupFirst::new(Lookup::default(), Undrafted).reads_features());
    }
}
