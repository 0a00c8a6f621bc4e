//! The texts of a search that are still being written.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, BatchItem, LanguageModel, Rows, Sequence, Wanted};

use crate::limits::{Limits, Stop};
use crate::target::{DecodeError, Target};

/// Decides whether a text ends with its last token for a reason of the caller's, such as a stop string.
pub type Ends<'e> = &'e dyn Fn(&[TokenId]) -> bool;

/// A text that is still being written.
struct Open {
    sequence: Box<dyn Sequence>,
    state: ChainState,
    tokens: Vec<TokenId>,
}

/// All texts that are still being written. They have the same number of tokens.
pub(super) struct Front<'a> {
    model: Arc<dyn LanguageModel>,
    target: &'a Target,
    end: Vec<TokenId>,
    prompt: Vec<TokenId>,
    open: Vec<Open>,
    /// The model's rows after each text.
    rows: Vec<Rows>,
    /// The maximum number of tokens of a text, and the reason for that limit.
    most: (usize, Stop),
}

impl<'a> Front<'a> {
    /// A front of one text without tokens.
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

    /// The number of end tokens.
    pub(super) fn ends(&self) -> usize {
        self.end.len()
    }

    /// The maximum number of tokens of a text.
    pub(super) fn most(&self) -> usize {
        self.most.0
    }

    /// The reason that a text ends at the maximum.
    pub(super) fn at_most(&self) -> Stop {
        self.most.1
    }

    /// The number of tokens before the next one, prompt included.
    pub(super) fn position(&self) -> usize {
        self.prompt.len() + self.open.first().map_or(0, |open| open.tokens.len())
    }

    /// The tokens of a text followed by one more.
    pub(super) fn text(&self, of: usize, token: TokenId) -> Vec<TokenId> {
        let mut tokens = Vec::with_capacity(self.open[of].tokens.len() + 1);
        tokens.extend_from_slice(&self.open[of].tokens);
        tokens.push(token);
        tokens
    }

    /// The reason that a text ends with this token, if it does: an end token, the caller's decision, or the number of
    /// tokens.
    pub(super) fn stop(&self, of: usize, token: TokenId, ends: Ends<'_>) -> Option<Stop> {
        if self.end.contains(&token) {
            return Some(Stop::End);
        }
        if ends(&self.text(of, token)) {
            return Some(Stop::StopString);
        }
        (self.open[of].tokens.len() + 1 >= self.most.0).then_some(self.most.1)
    }

    /// The tokens of a text that ends with this one, which is left out if it is an end token.
    pub(super) fn ended(&self, of: usize, token: TokenId, stop: Stop) -> Vec<TokenId> {
        if stop == Stop::End { self.open[of].tokens.clone() } else { self.text(of, token) }
    }

    /// Lets the model read the unseen tokens of all texts, in one call.
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

    /// The model's logits after a text.
    pub(super) fn logits(&self, of: usize) -> &[f32] {
        self.rows[of].last()
    }

    /// Applies the target's transforms to the row after a text.
    pub(super) fn transform(&self, of: usize, row: &mut Row) {
        self.target.transforms.apply(&self.open[of].state, row);
    }

    /// Continues with these texts, each with one more token. The last continuation of a text takes over its cache, the
    /// others fork it.
    pub(super) fn descend(&mut self, to: &[(usize, TokenId)]) -> Result<(), DecodeError> {
        let mut children = vec![0; self.open.len()];
        to.iter().for_each(|&(of, _)| children[of] += 1);
        let mut before: Vec<Option<Open>> = std::mem::take(&mut self.open).into_iter().map(Some).collect();
        for &(of, token) in to {
            children[of] -= 1;
            let mut next = match (children[of], &before[of]) {
                (0, _) => before[of].take().expect("the last continuation of this text"),
                (_, Some(Open { sequence, state, tokens })) => {
                    Open { sequence: sequence.fork()?, state: state.clone(), tokens: tokens.clone() }
                }
                (_, None) => unreachable!("further continuations of this text"),
            };
            self.target.transforms.advance(&mut next.state, token);
            next.tokens.push(token);
            self.open.push(next);
        }
        Ok(())
    }
}
