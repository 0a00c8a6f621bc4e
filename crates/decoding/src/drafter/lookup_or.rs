//! Prompt lookup, or another drafter, whichever promises more.

use verdigris_logits::TokenId;
use verdigris_logits::transform::ChainState;
use verdigris_models::Rows;

use super::{Drafter, Lookup};
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The way of the other drafter. [`Lookup`] keeps its own.
const OTHER: usize = 0;

/// [`Lookup`] combined with another drafter. Lookup drafts copies for free and far ahead, the other drafter everything
/// else. If both can draft, measurements decide; before there are any, lookup is preferred unless the repeated suffix
/// is short.
pub struct LookupOr<D> {
    lookup: Lookup,
    other: D,
}

impl<D: Drafter> LookupOr<D> {
    /// Combines the two. All drafts of the other one belong to one way.
    pub fn new(lookup: Lookup, other: D) -> Self {
        Self { lookup, other }
    }
}

impl<D: Drafter> Drafter for LookupOr<D> {
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        match way {
            OTHER => self.other.draft(way, text, state, shape, chance, tree),
            _ => self.lookup.draft(way, text, state, shape, chance, tree),
        }
    }

    fn ways(&mut self, text: &[TokenId]) -> &'static [usize] {
        [&[OTHER] as &[_], &[OTHER, 1], &[2, OTHER], &[3, OTHER]][self.lookup.class(text)]
    }

    fn unread(&self, way: usize, text: &[TokenId]) -> usize {
        if way == OTHER { self.other.unread(way, text) } else { 0 }
    }

    fn most_children(&self) -> usize {
        self.lookup.most_children().max(self.other.most_children())
    }

    fn reads_features(&self) -> bool {
        self.other.reads_features()
    }

    fn layers(&self) -> &[usize] {
        self.other.layers()
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

    /// Always drafts the same single token.
    struct Nine;

    impl Drafter for Nine {
        fn draft(
            &mut self,
            _: usize,
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
    fn the_other_is_first_where_little_is_repeated() {
        let mut both = LookupOr::new(Lookup::default(), Nine);
        let mut drafted = |text: &[TokenId]| -> (&[usize], Vec<TokenId>) {
            let (ways, state) = (both.ways(text), Chain::new().start(text));
            let drafts = drafts(&mut both, text, &state, TreeShape::chain(3), &mut Seeded(Random::new(1)));
            (ways, drafts.into_iter().map(|(token, ..)| token).collect())
        };
        assert_eq!(drafted(&[1, 2, 3]), (&[0][..], vec![9]));
        // Three tokens are too few, four are enough.
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 6, 2, 3, 4]), (&[0, 1][..], vec![9]));
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 6, 2, 3, 4, 5]), (&[2, 0][..], vec![6, 2, 3]));
        assert_eq!(drafted(&[1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 7]), (&[0][..], vec![9]));
        assert!(!LookupOr::new(Lookup::default(), Undrafted).reads_features());
    }
}
