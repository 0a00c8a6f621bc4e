//! Prompt lookup.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, TokenId, Transform};

use crate::chance::Chance;
use crate::drafter::Drafter;
use crate::drafter::suffix_automaton::SuffixAutomaton;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The maximum number of drafts of the next token.
const MOST_CHILDREN: usize = 3;

/// Lengths of a repeated suffix. From the first on, it is preferred to other drafters as long as nothing has been
/// measured; from the second on, the text almost always continues as it did before.
const LENGTHS: [usize; 2] = [4, 8];

/// Prompt lookup: drafts the tokens that followed an earlier occurrence of the last tokens (Saxena 2023), found by a
/// suffix automaton (Hu et al., *SAM Decoding*, arXiv:2411.10666).
///
/// The longest suffix that occurred before is used, at its latest occurrence. If that reaches into the end of the text,
/// the drafts continue the repetition. In a tree, the other drafts of the next token are those that followed shorter
/// suffixes. Acceptance depends on the length of the suffix, so there are [ways](Drafter::ways) for short, longer and
/// long ones.
///
/// A new token takes amortised constant time, and a call compares the text with the part already read; 10,000 tokens
/// take about a megabyte.
#[doc(alias = "prompt_lookup")]
#[doc(alias = "ngram")]
#[derive(Clone)]
pub struct Lookup {
    min_match: usize,
    transforms: Option<Chain>,
    automaton: SuffixAutomaton,
}

impl Default for Lookup {
    fn default() -> Self {
        Self::new(2)
    }
}

impl Lookup {
    /// Drafts after suffixes of at least `min_match` tokens.
    pub fn new(min_match: usize) -> Self {
        Self { min_match: min_match.max(1), transforms: None, automaton: SuffixAutomaton::default() }
    }

    /// Drafts the tokens that these transforms, the target's, have decided, instead of those found.
    #[must_use]
    pub fn over(self, transforms: &Chain) -> Self {
        Self { transforms: Some(transforms.clone()), ..self }
    }

    /// The class of the longest suffix of a text that occurred before, by its length: 0 if none is long enough, then 1
    /// to 3.
    pub(super) fn class(&mut self, text: &[TokenId]) -> usize {
        self.automaton.read(text, MOST_CHILDREN);
        let found = self.automaton.found().first().filter(|found| found.length >= self.min_match);
        found.map_or(0, |found| 1 + LENGTHS.iter().filter(|&&length| found.length >= length).count())
    }

    /// Drafts a chain of the tokens that followed an occurrence ending at `end`.
    fn follow(&self, text: &[TokenId], end: usize, mut state: Option<ChainState>, depth: usize, tree: &mut DraftTree) {
        let mut parent = None;
        for i in 0..depth {
            let found = text[end + i % (text.len() - end)];
            let forced = self.transforms.as_ref().zip(state.as_ref()).and_then(|(steps, state)| steps.decided(state));
            let token = forced.unwrap_or(found);
            parent = Some(tree.guess(parent, token));
            if token != found {
                break;
            }
            if let Some((steps, state)) = self.transforms.as_ref().zip(state.as_mut()) {
                steps.advance(state, token);
            }
        }
    }
}

impl Drafter for Lookup {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        _: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        self.automaton.read(text, MOST_CHILDREN);
        let state = self.transforms.as_ref().map(|_| state);
        let found = self.automaton.found().iter().filter(|found| found.length >= self.min_match);
        for (asked, found) in shape.children(None).zip(found) {
            // The path of first children from this node down.
            let path = std::iter::successors(Some(asked), |&node| shape.children(Some(node)).next());
            self.follow(text, found.end, state.cloned(), path.count(), tree);
        }
        Ok(())
    }

    /// Way 0 if no suffix occurred before, so that there is nothing to draft.
    fn ways(&mut self, text: &[TokenId]) -> &'static [usize] {
        &[[0], [1], [2], [3]][self.class(text)]
    }

    fn most_children(&self) -> usize {
        MOST_CHILDREN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seeded;
    use crate::drafter::drafts;
    use crate::table::Cycle;
    use verdigris_logits::Random;

    fn look_up(lookup: &mut Lookup, text: &[TokenId], shape: TreeShape) -> Vec<(TokenId, Option<usize>)> {
        let state = lookup.transforms.clone().unwrap_or_default().start(text);
        let drafts = drafts(lookup, text, &state, shape, &mut Seeded(Random::new(3)));
        assert!(drafts.iter().all(|(_, _, distribution)| distribution.is_none()));
        drafts.into_iter().map(|(token, parent, _)| (token, parent)).collect()
    }

    #[test]
    fn lookup_takes_the_latest_of_the_longest_suffixes() {
        let lookup = |text: &[TokenId], limit| -> Vec<TokenId> {
            let drafts = look_up(&mut Lookup::new(2), text, TreeShape::chain(limit));
            drafts.into_iter().map(|(token, _)| token).collect()
        };
        // Twice after 1 2, and once after 9 1 2, which is longer.
        assert_eq!(lookup(&[9, 1, 2, 30, 31, 1, 2, 40, 41, 9, 1, 2], 2), [30, 31]);
        // Of several occurrences, the latest.
        assert_eq!(lookup(&[1, 2, 30, 1, 2, 40, 1, 2, 50, 1, 2], 1), [50]);
        // The drafts continue the repetition.
        assert_eq!(lookup(&[7, 7, 7], 5), [7; 5]);
        assert_eq!(lookup(&[1, 2, 30, 31, 1, 2], 9), [30, 31, 1, 2, 30, 31, 1, 2, 30]);
        // A suffix of one token is too short, and a text without repetitions has none.
        assert_eq!(lookup(&[1, 30, 1], 3), [] as [TokenId; 0]);
        assert_eq!(lookup(&[1, 2, 3], 3), [] as [TokenId; 0]);
    }

    #[test]
    fn other_drafts_of_a_token_follow_shorter_suffixes() {
        let text = [9, 1, 2, 30, 31, 1, 2, 40, 41, 9, 1, 2];
        let tree = look_up(&mut Lookup::new(2), &text, TreeShape::levels(&[2, 2]));
        assert_eq!(tree, [(30, None), (31, Some(0)), (40, None), (41, Some(2))]);
    }

    #[test]
    fn suffixes_of_other_lengths_are_other_ways() {
        let mut lookup = Lookup::new(2);
        let text = |repeated: u32| (0..20).chain(5..5 + repeated).collect::<Vec<u32>>();
        let ways = [0, 1, 2, 3, 4, 7, 8, 12].map(|repeated| lookup.ways(&text(repeated))[0]);
        assert_eq!(ways, [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn what_is_decided_takes_the_place_of_what_was_found() {
        // The second and third token of three follow from the one before: 6 and 7 after 5.
        let steps = Chain::new().then(Cycle { tokens: 9, tells: true });
        let mut lookup = Lookup::new(2).over(&steps);
        let drafted = look_up(&mut lookup, &[1, 2, 5, 6, 8, 1, 2], TreeShape::chain(6));
        assert_eq!(drafted, [(5, None), (6, Some(0)), (7, Some(1))]);
    }
}
