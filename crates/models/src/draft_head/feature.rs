//! One decoder layer that continues from the hidden states of a target, and then from its own: the idea of EAGLE (Li,
//! Wei, Zhang and Zhang, *EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty*, ICML 2024).
//!
//! For a token `t` that was written after the hidden state `f`, the layer reads
//!
//! ```text
//! x = W [norm(embedding(t)); norm(f)]
//! ```
//!
//! and its output, normalised, approximates the target's next hidden state: rows of the target's output matrix turn it
//! into logits, and the next guess continues from it. The target's own states replace it as soon as they are known. As
//! in EAGLE-3 (arXiv:2503.01840) it is trained on its own states too.

use std::sync::Arc;

use verdigris_logits::TokenId;

use super::files::DraftFiles;
use super::fusion::{Fusion, Taps, UseOfRow};
use crate::cache::CacheLayout;
use crate::cpu::{Beginning, CpuDecoder, CpuItem, Peers, Sight, State, Work, forward, reserve};
use crate::description::config::{DecoderConfig, Norm};
use crate::description::families::{LLAMA, llama_layers};
use crate::description::parts::Parts;
use crate::error::ModelError;
use crate::language_model::{Batch, Rows};

/// The weights of a feature drafter, shared by all texts.
#[derive(Clone, Debug)]
pub struct FeatureModel {
    decoder: Arc<CpuDecoder>,
    fusion: Arc<Fusion>,
    /// The target's states that it reads, if they are not the last ones.
    taps: Option<Arc<Taps>>,
    /// Whether it continues from its states after the last norm.
    continues_from_normed: bool,
    tokens: Arc<[TokenId]>,
}

impl FeatureModel {
    pub(super) fn new(files: DraftFiles) -> Result<Self, ModelError> {
        let config = (LLAMA.config)(&files.fields).map_err(|fault| files.wrong(fault))?;
        let of_target = &files.config;
        let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
        if (config.width, config.vocabulary) != (of_target.width, of_target.vocabulary) {
            return Err(files.wrong(format!(
                "it has hidden_size {} and vocab_size {}, and its target {} and {}",
                config.width, config.vocabulary, of_target.width, of_target.vocabulary
            )));
        }
        let config = DecoderConfig {
            context: config.context.min(of_target.context),
            logit_cap: of_target.logit_cap,
            logit_scale: of_target.logit_scale,
            tied: false,
            ..config
        };
        config.check().map_err(|fault| files.wrong(fault.to_string()))?;
        let width = config.width;
        let (layers, norm) = llama_layers(&files.checkpoint, &config, &files.fields)?;
        let fusion = Fusion {
            embedding_norm: files.checkpoint.vector("fusion.embedding_norm.weight", width)?,
            hidden_norm: files.checkpoint.vector("fusion.hidden_norm.weight", width)?,
            epsilon: epsilon as f32,
            use_of_row: UseOfRow::Stream(files.checkpoint.matrix("fusion.weight", [width, 2 * width])?),
        };
        let DraftFiles { embedding, output, tokens, .. } = files;
        let parts = Parts::new(embedding, layers, norm, output);
        Self::assemble(config, parts, fusion, None, true, tokens)
    }

    /// A drafter of these parts, which reads the target's last states unless there are taps.
    pub(super) fn assemble(
        config: DecoderConfig,
        parts: Parts,
        fusion: Fusion,
        taps: Option<Taps>,
        continues_from_normed: bool,
        tokens: Vec<TokenId>,
    ) -> Result<Self, ModelError> {
        let decoder = Arc::new(CpuDecoder::new(config, parts, None, CacheLayout::DEFAULT)?);
        let (fusion, taps, tokens) = (Arc::new(fusion), taps.map(Arc::new), tokens.into());
        Ok(Self { decoder, fusion, taps, continues_from_normed, tokens })
    }

    /// The tokens that it can guess: its rows have one logit for each, in this order.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// The length of its own hidden states.
    pub fn hidden_size(&self) -> usize {
        self.decoder.config.width
    }

    /// The length of the target's hidden states.
    pub fn target_hidden_size(&self) -> usize {
        self.taps.as_ref().map_or(self.hidden_size(), |taps| taps.width)
    }

    /// The layers after which it reads the target's states: see [`Rows::with_layers`]. If there are none, it reads the
    /// last ones.
    pub fn layers(&self) -> &[usize] {
        self.taps.as_ref().map_or(&[][..], |taps| &taps.layers[..])
    }

    /// Appends the hidden state to read each token with, from the target's states before it.
    pub fn read_states(&self, of_target: &[f32], states: &mut Vec<f32>) {
        match &self.taps {
            Some(taps) => taps.read(of_target, states),
            None => states.extend_from_slice(of_target),
        }
    }

    /// Empty rows that keep the states to continue from.
    pub fn rows(&self) -> Rows {
        if self.continues_from_normed { Rows::with_hidden() } else { Rows::with_layers(&[1]) }
    }

    /// The most tokens that a text can have.
    pub fn context_length(&self) -> usize {
        self.decoder.config.context
    }

    /// Begins a text with room for `capacity` tokens.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`] for more than the context, and an error if there is not enough memory.
    pub fn begin(&self, capacity: usize) -> Result<FeatureSequence, ModelError> {
        let state = State::new(&self.decoder, capacity)?;
        Ok(FeatureSequence { model: self.clone(), state, work: Work::default(), joined: Vec::new(), x: Vec::new() })
    }
}

/// One text as a feature drafter sees it. It starts with the second token of the text, since no hidden state precedes
/// the first.
pub struct FeatureSequence {
    model: FeatureModel,
    state: State,
    work: Work,
    joined: Vec<f32>,
    x: Vec<f32>,
}

impl FeatureSequence {
    /// The number of tokens held.
    pub fn len(&self) -> usize {
        self.state.held.length()
    }

    /// Whether no token is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of tokens that can be held.
    pub fn capacity(&self) -> usize {
        self.state.held.capacity()
    }

    /// Reads tokens (each after its parent, as in [`Batch`]). `features` has a hidden state for each of them, that of
    /// the token before it: `tokens x hidden size`, made of the target's by [`FeatureModel::read_states`]. Rows have a
    /// logit for each of the [tokens](FeatureModel::tokens) that can be guessed; [`Rows::hidden`] are the states to
    /// continue from if the rows are those of [`FeatureModel::rows`].
    ///
    /// # Errors
    /// [`ModelError::UnknownToken`], [`ModelError::ContextFull`], and an error if there is not enough memory.
    ///
    /// # Panics
    /// If there is not one feature per token.
    pub fn forward(&mut self, batch: &Batch<'_>, features: &[f32], rows: &mut Rows) -> Result<(), ModelError> {
        let Self { model: FeatureModel { decoder, fusion, .. }, state, work, joined, x } = self;
        let width = decoder.config.width;
        assert_eq!(features.len(), batch.tokens.len() * width, "a hidden state for each token");
        state.held.after(batch, decoder.config.vocabulary)?;
        joined.resize(2 * features.len(), 0.0);
        x.resize(width, 0.0);
        for ((joined, feature), &token) in
            joined.chunks_exact_mut(2 * width).zip(features.chunks_exact(width)).zip(batch.tokens)
        {
            decoder.parts.embedding.decode(token as usize, x);
            fusion.join(x, feature, joined);
        }
        fusion.stream(features, joined, width, x);
        let mixed = matches!(fusion.use_of_row, UseOfRow::Attention { .. }).then_some(&joined[..]);
        let items = &mut [CpuItem {
            state,
            batch: *batch,
            beginning: Some(Beginning { stream: x, mixed }),
            sight: Sight::Before,
            rows,
        }];
        reserve(decoder, items)?;
        forward(decoder, items, work, &mut Peers::none())
    }

    /// Forgets all tokens past the first `length`.
    ///
    /// # Panics
    /// If fewer are held.
    pub fn truncate(&mut self, length: usize) {
        self.state.held.truncate(length);
    }

    /// See [`Sequence::keep`](crate::Sequence::keep).
    ///
    /// # Errors
    /// If there is not enough memory.
    ///
    /// # Panics
    /// If the indices are not strictly ascending, or not held.
    pub fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.state.keep(from, path)
    }
}
