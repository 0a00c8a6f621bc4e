//! The input of a feature drafter's layer: a token, and the hidden state before it.

use std::sync::Arc;

use verdigris_kernels::{linear, rms_norm};

use crate::description::weight::Weight;

/// Combines an embedding and a hidden state into one row: `[norm(embedding); norm(state)]`.
#[derive(Debug)]
pub(super) struct Fusion {
    pub(super) embedding_norm: Vec<f32>,
    pub(super) hidden_norm: Vec<f32>,
    pub(super) epsilon: f32,
    pub(super) use_of_row: UseOfRow,
}

/// The part of the layer that reads the combined row.
#[derive(Debug)]
pub(super) enum UseOfRow {
    /// The residual stream begins as its product with this matrix: `hidden size x (2 hidden size)`.
    Stream(Weight),
    /// Attention reads it. The residual stream begins as the state, normalised or not (EAGLE-3).
    Attention { stream_is_normalised: bool },
}

/// The states that a head reads: those after some of the target's layers, side by side.
#[derive(Debug)]
pub(super) struct Taps {
    /// See [`Rows::with_layers`](crate::Rows::with_layers).
    pub(super) layers: Arc<[usize]>,
    /// The width of the target.
    pub(super) width: usize,
    /// The norm of all states of a token as one row.
    pub(super) norm: Option<Vec<f32>>,
    pub(super) epsilon: f32,
    /// `hidden size x (layers x width of the target)`.
    pub(super) matrix: Weight,
}

impl Fusion {
    /// Combines a row of embeddings and a state.
    pub(super) fn join(&self, embedding: &[f32], state: &[f32], joined: &mut [f32]) {
        let (of_token, of_state) = joined.split_at_mut(embedding.len());
        rms_norm(embedding, &self.embedding_norm, self.epsilon, of_token);
        rms_norm(state, &self.hidden_norm, self.epsilon, of_state);
    }

    /// The beginning of the residual stream, from states of `width` numbers and combined rows.
    pub(super) fn stream(&self, states: &[f32], joined: &[f32], width: usize, stream: &mut Vec<f32>) {
        stream.resize(states.len(), 0.0);
        match &self.use_of_row {
            UseOfRow::Stream(matrix) => linear(joined, matrix.matrix().weights(), stream),
            UseOfRow::Attention { stream_is_normalised: false } => stream.copy_from_slice(states),
            UseOfRow::Attention { stream_is_normalised: true } => {
                let of_state = joined.chunks_exact(2 * width).map(|row| &row[width..]);
                stream.chunks_exact_mut(width).zip(of_state).for_each(|(stream, state)| stream.copy_from_slice(state));
            }
        }
    }
}

impl Taps {
    /// Appends a state of the head for each token of `of_target`.
    pub(super) fn read(&self, of_target: &[f32], states: &mut Vec<f32>) {
        let mut normed = Vec::new();
        let read = match &self.norm {
            None => of_target,
            Some(weight) => {
                normed.resize(of_target.len(), 0.0);
                rms_norm(of_target, weight, self.epsilon, &mut normed);
                &normed[..]
            }
        };
        let before = states.len();
        let tokens = of_target.len() / self.matrix.columns();
        states.resize(before + tokens * self.matrix.rows(), 0.0);
        linear(read, self.matrix.matrix().weights(), &mut states[before..]);
    }
}
