//! The inputs of a pass, and the memory that passes reuse.

use super::alternating::Streams;
use super::both::BothMemory;
use super::feed_forward::Experts;
use super::per_head::PerHead;
use super::per_layer::PerLayerInputs;
use super::recurrent::RecurrentWork;
use super::state::State;
use crate::description::config::Attention;
use crate::language_model::{Batch, Rows};
use crate::slices::TokenSlice;

/// The input of one of several texts, and where its rows are written.
pub(crate) struct CpuItem<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) batch: Batch<'a>,
    /// The initial residual stream of its tokens, if that is not their embeddings.
    pub(crate) beginning: Option<Beginning<'a>>,
    pub(crate) sight: Sight,
    pub(crate) rows: &'a mut Rows,
}

/// The tokens of a batch that each of them sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Those before them; in a tree, those on their own path.
    Before,
    /// All of them. The batch is a chain that fits into one pass.
    All {
        /// Whether layers with a sliding window only see those before them.
        but_windows: bool,
    },
    /// None of them: only the tokens that were held before, at least one, each at the position of the last. Nothing
    /// of the batch is stored, so the caller cuts the text back to what was held.
    Held,
}

impl Sight {
    /// Whether the tokens see each other in both directions in this layer.
    pub(super) fn is_both_ways(self, attention: &Attention) -> bool {
        match self {
            Self::Before | Self::Held => false,
            Self::All { but_windows } => !(but_windows && attention.window.is_some()),
        }
    }
}

/// The beginning of tokens, if it is not their embeddings.
#[derive(Clone, Copy)]
pub(crate) struct Beginning<'a> {
    /// The residual stream.
    pub(crate) stream: &'a [f32],
    /// The rows that the first mixer reads, if they are not the normalised stream. Then there is one item.
    pub(crate) mixed: Option<&'a [f32]>,
}

/// The buffers of a pass, reused by the next.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(super) slices: Vec<TokenSlice>,
    /// The length of each text before the call.
    pub(super) lengths: Vec<usize>,
    pub(super) positions: Vec<u32>,
    pub(super) visible: Vec<bool>,
    /// A mask that hides nothing.
    pub(super) all: Vec<bool>,
    pub(super) cos: Vec<f32>,
    pub(super) sin: Vec<f32>,
    /// The residual stream.
    pub(super) h: Vec<f32>,
    /// The input of a part of a layer.
    pub(super) x: Vec<f32>,
    pub(super) query: Vec<f32>,
    pub(super) key: Vec<f32>,
    pub(super) value: Vec<f32>,
    /// The gates of attention.
    pub(super) gates: Vec<f32>,
    pub(super) mixed: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) experts: Experts,
    pub(super) both: BothMemory,
    pub(super) per_layer: PerLayerInputs,
    pub(super) streams: Streams,
    pub(super) recurrent: RecurrentWork,
    pub(super) latent: LatentMemory,
    /// The output of a part of a layer.
    pub(super) y: Vec<f32>,
    pub(super) normed: Vec<f32>,
    /// The logits of all ranks.
    pub(super) gathered: Vec<f32>,
}

/// The memory of attention to latent vectors.
#[derive(Debug, Default)]
pub(super) struct LatentMemory {
    pub(super) per_head: PerHead,
    /// The elements between the two matrices of queries.
    pub(super) between: Vec<f32>,
    /// The products of the residual stream: a latent vector and the elements of a key that are rotated.
    pub(super) down: Vec<f32>,
    /// The queries of each head as the model defines them: `m x heads x (unrotated + rotated)`.
    pub(super) query: Vec<f32>,
    /// Each head's mean of latent vectors: `m x heads x rank`.
    pub(super) mean: Vec<f32>,
}
