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
    pub law: Option<Vec<f64>>,
}

/// Guesses the tokens that follow a text.
///
/// # Contract
/// - At most `limit` drafts come back, each one after the draft before it.
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
pub struct DraftModel<'a> {
    sequence: Box<dyn Sequence>,
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
    /// Drafts with `model`, for texts of at most `capacity` tokens. Past its own context it drafts nothing.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        capacity: usize,
        transforms: &'a Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        let capacity = capacity.min(model.context_length());
        let sequence = model.begin(capacity)?;
        let (row, rows) = (Row::default(), Rows::default());
        Ok(Self { sequence, held: Vec::new(), transforms, sampler, coupling, row, rows })
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
        let (mut state, mut drafts) = (state.clone(), Vec::new());
        while drafts.len() < limit && self.sequence.len() + unseen.len() <= self.sequence.capacity() {
            self.sequence.forward(&Batch::chain(&unseen, Wanted::Last), &mut self.rows)?;
            self.held.append(&mut unseen);
            self.row.load(self.rows.last());
            self.transforms.apply(&state, &mut self.row);
            if self.row.max().is_none() {
                break; // no token is possible: the target will say so
            }
            let position = text.len() + drafts.len();
            let draft = match self.coupling {
                Coupling::Independent => {
                    let law = self.sampler.distribution(&self.row);
                    Draft { token: chance.draft(&law, position), law: Some(law) }
                }
                Coupling::Shared => {
                    let Some(token) = chance.token(self.sampler, &self.row, position) else { break };
                    Draft { token, law: None }
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
/// The longest suffix that occurred before decides, and of its occurrences the latest.
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
        Ok(text[end..].iter().take(limit).map(|&token| Draft { token, law: None }).collect())
    }
}
