//! Guesses at how a text goes on.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, Sequence, Wanted};

use crate::chance::Chance;
use crate::target::DecodeError;

/// A guess at one token.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The token.
    pub token: TokenId,
    /// The law that it was drawn from, exactly as it was drawn; `None` for a guess at the token that the target
    /// will draw.
    pub proposal: Option<Vec<f64>>,
}

/// Guesses the tokens that follow a text.
///
/// # Contract
/// - At most `limit` drafts come back, each one after the draft before it. One that the target has no token for is
///   rejected.
/// - Whether a draft is made may depend on the text and on the drafts before it, but not on the token drawn:
///   a drawn token is always handed over.
/// - A law sums to one, and is the one drawn from through `chance`.
/// - What comes back has no influence on the law of the text, only on how fast it is written.
pub trait Drafter {
    /// Drafts after `text` (prompt and output). `state` is the state of the target's transforms there.
    fn draft(
        &mut self,
        text: &[TokenId],
        state: &ChainState,
        limit: usize,
        chance: &mut dyn Chance,
    ) -> Result<Vec<Draft>, DecodeError>;
}

/// A small model as a drafter. The target's transforms act on its rows too, so that its guesses obey the same
/// constraint and prefer the same tokens.
#[doc(alias = "assistant_model")]
pub struct DraftModel<'a> {
    sequence: Box<dyn Sequence>,
    /// How many tokens the model can read.
    size: usize,
    /// How many logits of its rows count.
    cut: usize,
    /// What the sequence holds.
    held: Vec<TokenId>,
    transforms: &'a Chain,
    sampler: Sampler,
    coupling: Coupling,
    row: Row,
    rows: Rows,
}

/// Where the chance of a drafted token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coupling {
    /// From a number of its own: the draft comes with its law, and is accepted as often as any rule can that
    /// has the target's law.
    Independent,
    /// From the number that the target itself will draw with. A draft is a guess at that very token, so the text is
    /// the one that plain decoding writes with the same seed, however many drafts are made.
    Shared,
}

impl<'a> DraftModel<'a> {
    /// Drafts with `model`, for texts of at most `capacity` tokens. Past its own context it drafts nothing, nor after a
    /// token that its vocabulary is too short for, nor from a row that is no law.
    ///
    /// # Errors
    /// The model's, where it cannot begin a text.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        capacity: usize,
        transforms: &'a Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        let capacity = capacity.min(model.context_length());
        let size = model.vocabulary_size();
        let sequence = model.begin(capacity)?;
        let (row, rows) = (Row::default(), Rows::default());
        Ok(Self { sequence, size, cut: size, held: Vec::new(), transforms, sampler, coupling, row, rows })
    }
}

impl DraftModel<'_> {
    /// Cuts its rows to the length of the target's. What is longer is padding, and would be drafted in vain.
    #[must_use]
    pub fn cut(self, target: usize) -> Self {
        Self { cut: self.size.min(target), ..self }
    }
}

impl Drafter for DraftModel<'_> {
    fn draft(
        &mut self,
        text: &[TokenId],
        state: &ChainState,
        limit: usize,
        chance: &mut dyn Chance,
    ) -> Result<Vec<Draft>, DecodeError> {
        // Keeps what of the last drafts was accepted; the last token is read anew for its row.
        let shared = self.held.iter().zip(text).take_while(|(a, b)| a == b).count();
        let kept = shared.min(text.len() - 1);
        self.sequence.truncate(kept);
        self.held.truncate(kept);
        let mut unseen = text[kept..].to_vec();
        if unseen.iter().any(|&token| token as usize >= self.size) {
            return Ok(Vec::new());
        }
        let (mut state, mut drafts) = (state.clone(), Vec::new());
        while drafts.len() < limit && self.sequence.len() + unseen.len() <= self.sequence.capacity() {
            self.sequence.forward(&Batch::chain(&unseen, Wanted::Last), &mut self.rows)?;
            self.held.append(&mut unseen);
            self.row.load(&self.rows.last()[..self.cut]);
            self.transforms.apply(&state, &mut self.row);
            if self.row.max().is_none() {
                break; // no token can be drawn: the target will say so where it is the same with it
            }
            let position = text.len() + drafts.len();
            let draft = match self.coupling {
                Coupling::Independent => {
                    let law = self.sampler.distribution(&self.row);
                    Draft { token: chance.draft(&law, position, drafts.len()), proposal: Some(law) }
                }
                Coupling::Shared => {
                    let Some(token) = chance.token(self.sampler, &self.row, position) else { break };
                    Draft { token, proposal: None }
                }
            };
            self.transforms.advance(&mut state, draft.token);
            unseen.push(draft.token);
            drafts.push(draft);
        }
        Ok(drafts)
    }
}

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
        limit: usize,
        _: &mut dyn Chance,
    ) -> Result<Vec<Draft>, DecodeError> {
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
            return Ok(Vec::new());
        }
        Ok(text[end..].iter().take(limit).map(|&token| Draft { token, proposal: None }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Seeded;
    use crate::table::Table;
    use verdigris_logits::{CountPenalty, Random};

    fn chance() -> Seeded {
        Seeded(Random::new(3))
    }

    /// What a drafter holds of drafts that were not gone on with does not show, though its rows depend on all that it
    /// holds.
    #[test]
    fn a_drafter_forgets_what_was_rejected() {
        let (model, chain) = (Table::deep(16, 4, 100), Chain::new());
        let state = chain.start(&[]);
        for coupling in [Coupling::Independent, Coupling::Shared] {
            let drafter = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, coupling).unwrap();
            let mut used = drafter();
            for text in [&[5, 6, 7][..], &[5, 6, 7, 8, 9], &[5, 6, 10, 11], &[5, 6, 10, 11, 12, 13, 14], &[1], &[5, 6]]
            {
                let draft = |drafter: &mut DraftModel<'_>| drafter.draft(text, &state, 4, &mut chance()).unwrap();
                let again = draft(&mut used);
                assert_eq!(again.len(), 4);
                assert!(again == draft(&mut drafter()), "{text:?}");
            }
        }
    }

    /// Each draft comes from the law of the text with the drafts before it: of the model, and of the steps.
    #[test]
    fn drafts_are_steps_of_one_text() {
        let model = Table::deep(16, 4, 100);
        let chain = Chain::new().then(CountPenalty::new(2.0, 1.0).unwrap());
        let mut text = vec![1, 2, 3];
        let mut state = chain.start(&text);
        let new = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, Coupling::Independent).unwrap();
        let together = new().draft(&text, &state, 12, &mut chance()).unwrap();
        for draft in &together {
            let alone = new().draft(&text, &state, 1, &mut chance()).unwrap();
            assert_eq!(alone[0].proposal, draft.proposal, "after {text:?}");
            chain.advance(&mut state, draft.token);
            text.push(draft.token);
        }
    }

    #[test]
    fn what_a_draft_model_cannot_read_it_does_not_go_on_from() {
        let (model, chain) = (Table::noise(4, 1), Chain::new());
        let state = chain.start(&[]);
        let mut drafter = DraftModel::new(model, 100, &chain, Sampler::Greedy, Coupling::Shared).unwrap();
        let mut drafts = |text: &[TokenId]| drafter.draft(text, &state, 3, &mut chance()).unwrap().len();
        assert_eq!([drafts(&[1, 2]), drafts(&[1, 2, 4]), drafts(&[1, 2, 4, 0]), drafts(&[1, 2, 3])], [3, 0, 0, 3]);
    }

    #[test]
    fn lookup_takes_the_latest_of_the_longest_suffixes() {
        let lookup = |text: &[TokenId], limit| -> Vec<TokenId> {
            let mut lookup = Lookup { min_match: 2, max_match: 4 };
            let drafts = lookup.draft(text, &Chain::new().start(&[]), limit, &mut chance()).unwrap();
            drafts
                .into_iter()
                .map(|Draft { token, proposal }| if proposal.is_none() { token } else { TokenId::MAX })
                .collect()
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
