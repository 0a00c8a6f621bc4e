//! A smaller model with the same tokens.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId};
use verdigris_models::{Batch, LanguageModel, Rows, Sequence};

use super::Drafter;
use super::children::{Children, Coupling};
use super::grow::{Network, grow};
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The maximum number of drafts of one token: more are hardly ever accepted.
const MOST_CHILDREN: usize = 4;

/// A small model as a drafter. The target's transforms apply to its rows too, so that its guesses obey the same
/// constraint and prefer the same tokens.
#[doc(alias = "assistant_model")]
pub struct DraftModel {
    model: SmallModel,
    /// The tokens that the sequence holds.
    held: Vec<TokenId>,
    children: Children,
}

/// The model and its sequence within a text.
struct SmallModel {
    sequence: Box<dyn Sequence>,
    /// The size of the model's vocabulary.
    size: usize,
    /// The number of logits of its rows that are used.
    cut: usize,
    rows: Rows,
}

impl DraftModel {
    /// Drafts with `model`, for texts of at most `capacity` tokens. It drafts nothing past its own context, after a
    /// token outside its vocabulary, or from a row that is not a distribution.
    ///
    /// # Errors
    /// The model's, if it cannot begin a text.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        capacity: usize,
        transforms: &Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        let capacity = capacity.min(model.context_length());
        let size = model.vocabulary_size();
        let model = SmallModel { sequence: model.begin(capacity)?, size, cut: size, rows: Rows::default() };
        Ok(Self { model, held: Vec::new(), children: Children::new(transforms, sampler, coupling) })
    }

    /// Cuts its rows to the length of the target's. Longer rows end in padding, which would be drafted in vain.
    #[must_use]
    pub fn cut(mut self, target: usize) -> Self {
        self.model.cut = self.model.size.min(target);
        self
    }
}

impl Network for SmallModel {
    fn reads(&self, token: TokenId) -> bool {
        (token as usize) < self.size
    }

    fn len(&self) -> usize {
        self.sequence.len()
    }

    fn capacity(&self) -> usize {
        self.sequence.capacity()
    }

    fn read(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        Ok(self.sequence.forward(batch, &mut self.rows)?)
    }

    fn load(&self, i: usize, row: &mut Row) {
        row.load(&self.rows.row(i)[..self.cut]);
    }

    fn truncate(&mut self, length: usize) {
        self.sequence.truncate(length);
    }
}

impl Drafter for DraftModel {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        // Keep the accepted part of the last drafts. The last token is read again for its row.
        let shared = self.held.iter().zip(text).take_while(|(a, b)| a == b).count();
        let kept = shared.min(text.len() - 1);
        self.model.truncate(kept);
        self.held.truncate(kept);
        let unseen = &text[kept..];
        if unseen.iter().any(|&token| !self.model.reads(token)) {
            return Ok(());
        }
        grow(&mut self.model, &mut self.children, unseen, state, shape, chance, tree)?;
        // In a chain the model has not read the last token, nor tokens that needed no row after them.
        self.held.extend_from_slice(unseen);
        self.held.extend(tree.nodes().iter().map(|node| node.token));
        self.held.truncate(self.model.len());
        Ok(())
    }

    fn unread(&self, _: usize, text: &[TokenId]) -> usize {
        text.len().saturating_sub(1 + self.held.len())
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
    use crate::table::Table;
    use verdigris_logits::{CountPenalty, Random, Transform};

    fn chance() -> Seeded {
        Seeded(Random::new(3))
    }

    /// Rejected drafts that a drafter has read have no effect, although its rows depend on everything it holds.
    #[test]
    fn a_drafter_forgets_what_was_rejected() {
        let (model, chain) = (Table::deep(16, 4, 100), Chain::new());
        let state = chain.start(&[]);
        for coupling in [Coupling::Independent, Coupling::Shared] {
            let drafter = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, coupling).unwrap();
            let mut used = drafter();
            for text in [&[5, 6, 7][..], &[5, 6, 7, 8, 9], &[5, 6, 10, 11], &[5, 6, 10, 11, 12, 13, 14], &[1], &[5, 6]]
            {
                let draft =
                    |drafter: &mut DraftModel| drafts(drafter, text, &state, TreeShape::chain(4), &mut chance());
                let again = draft(&mut used);
                assert_eq!(again.len(), 4);
                assert!(again == draft(&mut drafter()), "{text:?}");
            }
        }
    }

    /// Each draft comes from the distribution after the text and the drafts before it, both of the model and of the
    /// transforms.
    #[test]
    fn drafts_are_steps_of_one_text() {
        let model = Table::deep(16, 4, 100);
        let chain = Chain::new().then(CountPenalty::new(2.0, 1.0).unwrap());
        let mut text = vec![1, 2, 3];
        let mut state = chain.start(&text);
        let new = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, Coupling::Independent).unwrap();
        let together = drafts(&mut new(), &text, &state, TreeShape::chain(12), &mut chance());
        for (token, _, distribution) in &together {
            let alone = drafts(&mut new(), &text, &state, TreeShape::chain(1), &mut chance());
            assert_eq!(&alone[0].2, distribution, "after {text:?}");
            chain.advance(&mut state, *token);
            text.push(*token);
        }
    }

    #[test]
    fn what_a_draft_model_cannot_read_it_does_not_go_on_from() {
        let (model, chain) = (Table::noise(4, 1), Chain::new());
        let state = chain.start(&[]);
        let mut drafter = DraftModel::new(model, 100, &chain, Sampler::Greedy, Coupling::Shared).unwrap();
        let mut count = |text: &[TokenId]| drafts(&mut drafter, text, &state, TreeShape::chain(3), &mut chance()).len();
        assert_eq!([count(&[1, 2]), count(&[1, 2, 4]), count(&[1, 2, 4, 0]), count(&[1, 2, 3])], [3, 0, 0, 3]);
    }
}
