//! The texts of a search that are still being written.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, BatchItem, LanguageModel, Rows, Sequence, Wanted};

use crate::limits::{Limits, Stop};
use crate::target::{DecodeError, Target};

/// Says whether a text ends with its last token for a reason of one's own, as where a stop string has come.
pub type Ends<'e> = &'e dyn Fn(&[TokenId]) -> bool;

/// A text that is still being written.
struct Open {
    sequence: Box<dyn Sequence>,
    state: ChainState,
    tokens: Vec<TokenId>,
}

/// All of them, which have the same number of tokens.
pub(super) struct Front<'a> {
    model: Arc<dyn LanguageModel>,
    target: &'a Target,
    end: Vec<TokenId>,
    prompt: Vec<TokenId>,
    open: Vec<Open>,
    /// What the model said of each.
    rows: Vec<Rows>,
    /// The most tokens of a text, and why there can be no more.
    most: (usize, Stop),
}

impl<'a> Front<'a> {
    /// One text without tokens.
    pub(super) fn new(
        model: Arc<dyn LanguageModel>,
        target: &'a Target,
        prompt: &[TokenId],
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let sequence = limits.begin(model.clone(), prompt)?;
        // The last token of a text is never read.
        let room = sequence.capacity() + 1 - prompt.len();
        let most = if limits.max_tokens <= room { (limits.max_tokens, Stop::Length) } else { (room, Stop::Context) };
        let open = vec![Open { sequence, state: target.transforms.start(prompt), tokens: Vec::new() }];
        let (end, prompt) = (limits.end.clone(), prompt.to_vec());
        Ok(Self { model, target, end, prompt, open, rows: vec![Rows::default()], most })
    }

    /// How many tokens end a text.
    pub(super) fn ends(&self) -> usize {
        self.end.len()
    }

    /// The most tokens of a text.
    pub(super) fn most(&self) -> usize {
        self.most.0
    }

    /// Why a text can have no more tokens than the most.
    pub(super) fn at_most(&self) -> Stop {
        self.most.1
    }

    /// How many tokens stand before the next one, prompt included.
    pub(super) fn position(&self) -> usize {
        self.prompt.len() + self.open.first().map_or(0, |open| open.tokens.len())
    }

    /// The tokens of a text with one more.
    pub(super) fn text(&self, of: usize, token: TokenId) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(self.open[of].tokens.len() + 1);
        tokens.extend_from_slice(&self.open[of].tokens);
        tokens.push(token);
        tokens
    }

    /// What ends a text with this token: the token itself, somebody else's reason, or the number of tokens.
    pub(super) fn stop(&self, of: usize, token: TokenId, ends: Ends<'_>) -> Option<Stop> {
        if self.end.contains(&token) {
            return Some(Stop::End);
        }
        if ends(&self.text(of, token)) {
            return Some(Stop::StopString);
        }
        (self.open[of].tokens.len() + 1 >= self.most.0).then_some(self.most.1)
    }

    /// The tokens of a text that ends with this one, which is not part of it where it is an end token.
    pub(super) fn ended(&self, of: usize, token: TokenId, stop: Stop) -> Vec<TokenId> {
        if stop == Stop::End { self.open[of].tokens.clone() } else { self.text(of, token) }
    }

    /// Has the model read what it has not seen of the texts, in one call.
    pub(super) fn read(&mut self) -> Result<(), DecodeError> {
        let Self { open, rows, prompt, .. } = self;
        rows.resize_with(open.len().max(rows.len()), Rows::default);
        let mut items: Vec<BatchItem<'_>> = Vec::with_capacity(open.len());
        for (Open { sequence, tokens, .. }, rows) in open.iter_mut().zip(rows) {
            let unseen = if tokens.is_empty() { &prompt[..] } else { &tokens[tokens.len() - 1..] };
            items.push(BatchItem { sequence: &mut **sequence, batch: Batch::chain(unseen, Wanted::Last), rows });
        }
        Ok(self.model.forward_each(&mut items)?)
    }

    /// What the model said of the token after a text: its logits.
    pub(super) fn logits(&self, of: usize) -> &[f32] {
        self.rows[of].last()
    }

    /// Does to a row what the law does to it after a text.
    pub(super) fn transform(&self, of: usize, row: &mut Row) {
        self.target.transforms.apply(&self.open[of].state, row);
    }

    /// Goes on with these texts, each with one more token. The last that goes on from a text has its cache, the others
    /// share it.
    pub(super) fn descend(&mut self, to: &[(usize, TokenId)]) -> Result<(), DecodeError> {
        let mut children = vec![0; self.open.len()];
        to.iter().for_each(|&(of, _)| children[of] += 1);
        let mut before: Vec<Option<Open>> = std::mem::take(&mut self.open).into_iter().map(Some).collect();
        for &(of, token) in to {
            children[of] -= 1;
            let mut next = match (children[of], &before[of]) {
                (0, _) => before[of].take().expect("the last to go on from it"),
                (_, Some(Open { sequence, state, tokens })) => {
                    Open { sequence: sequence.fork()?, state: state.clone(), tokens: tokens.clone() }
                }
                (_, None) => unreachable!("others go on from it"),
            };
            self.target.transforms.advance(&mut next.state, token);
            next.tokens.push(token);
            self.open.push(next);
        }
        Ok(())
    }
}
