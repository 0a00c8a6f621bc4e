//! Layers that attend to their target's keys and values, and continue from their own guesses.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId};
use verdigris_models::draft_head::assistant::{AssistantModel, AssistantSequence};
use verdigris_models::{Batch, Rows};

use super::Drafter;
use super::children::{Children, Coupling};
use super::grow::{Network, grow};
use super::some_tokens::SomeTokens;
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The maximum number of drafts of one token.
const MOST_CHILDREN: usize = 4;

/// An [`AssistantModel`] as a drafter. The target's transforms apply to its rows too.
///
/// It drafts nothing before the first call of its target, and nothing past its own context. It sees no draft, so only
/// the state that it continues from says which tokens it has guessed, and which were written without a call.
#[doc(alias = "mtp")]
pub struct AssistantDrafter {
    network: AssistantNetwork,
    children: Children,
    model: AssistantModel,
    /// The target's states of a call.
    of_target: Vec<f32>,
    /// Whether the text has become longer than the context.
    is_over: bool,
}

/// The layers within a text.
struct AssistantNetwork {
    sequence: AssistantSequence,
    tokens: SomeTokens,
    /// The length of a state.
    width: usize,
    /// The length of a row.
    size: usize,
    /// The number of tokens that were read after those of the text.
    guessed: usize,
    /// The rows requested last.
    logits: Vec<f32>,
    /// The states after the tokens of a tree, in their order.
    states: Vec<f32>,
    /// The state to read the next token with.
    last: Vec<f32>,
    joined: Vec<f32>,
    next: Vec<f32>,
}

impl AssistantDrafter {
    /// Drafts with an assistant for texts of at most `capacity` tokens, for a target whose rows have `size` logits.
    ///
    /// # Errors
    /// The assistant's, if it cannot begin a text.
    pub fn new(
        model: &AssistantModel,
        capacity: usize,
        size: usize,
        transforms: &Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        let network = AssistantNetwork {
            // A guess needs room for a token.
            sequence: model.begin((capacity + 1).min(model.context_length()))?,
            tokens: SomeTokens::new(model.tokens(), size),
            width: model.hidden_size(),
            size: model.tokens().len(),
            guessed: 0,
            logits: Vec::new(),
            states: Vec::new(),
            last: Vec::new(),
            joined: Vec::new(),
            next: Vec::new(),
        };
        let children = Children::new(transforms, sampler, coupling);
        Ok(Self { network, children, model: model.clone(), of_target: Vec::new(), is_over: false })
    }
}

impl Network for AssistantNetwork {
    fn reads(&self, token: TokenId) -> bool {
        (token as usize) < self.tokens.of()
    }

    fn len(&self) -> usize {
        self.sequence.len() + self.guessed
    }

    fn capacity(&self) -> usize {
        self.sequence.capacity()
    }

    fn read(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        let Self { sequence, width, logits, states, last, joined, next, .. } = self;
        self.guessed += batch.tokens.len();
        let Some(parents) = batch.parents else {
            for token in batch.tokens.chunks(1) {
                sequence.guess(token, last, logits, next)?;
                std::mem::swap(last, next);
            }
            return Ok(());
        };
        // Those before are the nodes of earlier levels.
        let first = batch.first_wanted();
        states.truncate(first * *width);
        joined.clear();
        for parent in &parents[first..] {
            let state = parent.map_or(&last[..], |parent| &states[parent * *width..][..*width]);
            joined.extend_from_slice(state);
        }
        sequence.guess(&batch.tokens[first..], joined, logits, next)?;
        states.extend_from_slice(next);
        Ok(())
    }

    fn load(&self, i: usize, row: &mut Row) {
        self.tokens.load(&self.logits[i * self.size..][..self.size], row);
    }

    fn truncate(&mut self, length: usize) {
        self.guessed = length - self.sequence.len();
    }
}

impl Drafter for AssistantDrafter {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let Self { network, children, is_over, .. } = self;
        let seen = network.sequence.len();
        let unseen = text.get(seen..).unwrap_or_default();
        let is_known = unseen.iter().all(|&token| network.reads(token));
        if seen == 0 || *is_over || unseen.is_empty() || !is_known {
            return Ok(());
        }
        network.guessed = 0;
        network.last.clear();
        network.last.extend_from_slice(network.sequence.last_state());
        grow(network, children, unseen, state, shape, chance, tree)
    }

    fn most_children(&self) -> usize {
        MOST_CHILDREN
    }

    fn reads_features(&self) -> bool {
        true
    }

    fn layers(&self) -> &[usize] {
        self.model.layers()
    }

    fn observe(&mut self, _: &[TokenId], rows: &Rows, kept: &[usize]) -> Result<(), DecodeError> {
        let Self { network, of_target, is_over, .. } = self;
        *is_over |= network.sequence.len() + kept.len() >= network.sequence.capacity();
        if *is_over {
            return Ok(());
        }
        rows.hidden_of(kept, of_target);
        network.sequence.read(of_target)?;
        Ok(())
    }
}
