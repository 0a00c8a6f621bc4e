//! A draft layer that continues from the target's hidden states.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Chain, Row, Sampler, TokenId};
use verdigris_models::draft_head::feature::{FeatureModel, FeatureSequence};
use verdigris_models::{Batch, Rows, Wanted};

use super::Drafter;
use super::children::{Children, Coupling};
use super::grow::{Network, grow};
use super::some_tokens::SomeTokens;
use crate::chance::Chance;
use crate::target::DecodeError;
use crate::tree::{DraftTree, TreeShape};

/// The maximum number of drafts of one token.
const MOST_CHILDREN: usize = 4;

/// A [`FeatureModel`] as a drafter. The target's transforms apply to its rows too.
///
/// It drafts nothing before the first call of its target. After tokens that were written without a call it continues
/// from its own states.
#[doc(alias = "eagle")]
pub struct FeatureDrafter {
    network: FeatureNetwork,
    children: Children,
    /// The number of tokens of the text that the network has read with the target's states.
    known: usize,
    /// The states for the tokens that it has not read in this way, made of the target's, concatenated.
    features: Vec<f32>,
    model: FeatureModel,
    /// The target's states of a call.
    of_target: Vec<f32>,
}

/// The layer and its states within a text.
struct FeatureNetwork {
    sequence: FeatureSequence,
    tokens: SomeTokens,
    width: usize,
    rows: Rows,
    /// The states of the tree tokens read last, in their order.
    states: Vec<f32>,
    /// The state to read the next token with.
    last: Vec<f32>,
    joined: Vec<f32>,
}

impl FeatureDrafter {
    /// Drafts with a network for texts of at most `capacity` tokens, for a target whose rows have `size` logits. It
    /// drafts nothing past its own context.
    ///
    /// # Errors
    /// The network's, if it cannot begin a text.
    pub fn new(
        model: &FeatureModel,
        capacity: usize,
        size: usize,
        transforms: &Chain,
        sampler: Sampler,
        coupling: Coupling,
    ) -> Result<Self, DecodeError> {
        let network = FeatureNetwork {
            sequence: model.begin(capacity.min(model.context_length()))?,
            tokens: SomeTokens::new(model.tokens(), size),
            width: model.hidden_size(),
            rows: model.rows(),
            states: Vec::new(),
            last: Vec::new(),
            joined: Vec::new(),
        };
        let children = Children::new(transforms, sampler, coupling);
        let (model, of_target) = (model.clone(), Vec::new());
        Ok(Self { network, children, known: 0, features: Vec::new(), model, of_target })
    }
}

impl FeatureNetwork {
    /// Reads tokens of the text, each with the target's state before it.
    fn read_known(&mut self, tokens: &[TokenId], features: &[f32]) -> Result<(), DecodeError> {
        self.sequence.forward(&Batch::chain(tokens, Wanted::Last), features, &mut self.rows)?;
        self.go_on_from(tokens.len() - 1);
        Ok(())
    }

    /// Makes the state of the `i`-th token read last the one to read the next token with.
    fn go_on_from(&mut self, i: usize) {
        self.last.clear();
        self.last.extend_from_slice(self.rows.hidden(i));
    }
}

impl Network for FeatureNetwork {
    fn reads(&self, token: TokenId) -> bool {
        (token as usize) < self.tokens.of()
    }

    fn len(&self) -> usize {
        self.sequence.len()
    }

    fn capacity(&self) -> usize {
        self.sequence.capacity()
    }

    fn read(&mut self, batch: &Batch<'_>) -> Result<(), DecodeError> {
        let Some(parents) = batch.parents else {
            // Each needs the state of the one before.
            for token in batch.tokens.chunks(1) {
                self.sequence.forward(&Batch::chain(token, Wanted::Last), &self.last, &mut self.rows)?;
                self.go_on_from(0);
            }
            return Ok(());
        };
        self.joined.clear();
        for parent in parents {
            let state = parent.map_or(&self.last[..], |parent| &self.states[parent * self.width..][..self.width]);
            self.joined.extend_from_slice(state);
        }
        self.sequence.forward(batch, &self.joined, &mut self.rows)?;
        self.states.clear();
        (0..batch.tokens.len()).for_each(|i| self.states.extend_from_slice(self.rows.hidden(i)));
        Ok(())
    }

    fn load(&self, i: usize, row: &mut Row) {
        self.tokens.load(self.rows.row(i), row);
    }

    fn truncate(&mut self, length: usize) {
        self.sequence.truncate(length);
    }
}

impl Drafter for FeatureDrafter {
    fn draft(
        &mut self,
        _: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let Self { network, children, known, features, .. } = self;
        // Tokens read with the layer's own states are read again with the target's.
        network.truncate(*known);
        let shown = *known + features.len() / network.width;
        if network.capacity() < text.len() - 1 || shown == 0 {
            return Ok(());
        }
        // The first token follows no state.
        let unseen = &text[*known + 1..];
        if unseen.iter().any(|&token| !network.reads(token)) {
            return Ok(());
        }
        let (with_states, without) = unseen.split_at(shown - *known);
        network.read_known(with_states, features)?;
        // The last one is read again, for its row.
        *known = shown - 1;
        features.drain(..features.len() - network.width);
        grow(network, children, without, state, shape, chance, tree)
    }

    fn unread(&self, _: usize, _: &[TokenId]) -> usize {
        (self.features.len() / self.network.width).saturating_sub(1)
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
        rows.hidden_of(kept, &mut self.of_target);
        self.model.read_states(&self.of_target, &mut self.features);
        Ok(())
    }
}
