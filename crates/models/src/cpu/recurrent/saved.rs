//! The states of layers as bytes: for each layer the last inputs of its convolution and its matrices, as numbers in
//! F32, little-endian.

use std::sync::Arc;

use verdigris_logits::TokenId;

use super::{LayerState, Memory, Recurrent, Snapshot};

/// The states of all layers of one kind of sequence, in order.
pub(in crate::cpu) struct SavedStates(Vec<Arc<LayerState>>);

impl Recurrent {
    /// The numbers of first tokens after which the states are known, in order; `None` without such layers.
    pub(in crate::cpu) fn known_at(&self) -> Option<Vec<usize>> {
        if self.is_empty() {
            return None;
        }
        let held = self.tokens.len();
        let mut known: Vec<usize> = self.snapshots.iter().map(|snapshot| snapshot.length).collect();
        known.extend([Some(self.base), self.now].into_iter().flatten());
        known.retain(|&length| length <= held && length > 0);
        known.sort_unstable();
        known.dedup();
        Some(known)
    }

    /// The states after the first `length` tokens, if they are known.
    pub(in crate::cpu) fn bytes_at(&self, length: usize) -> Option<Vec<u8>> {
        if !self.known_at()?.contains(&length) {
            return None;
        }
        let snapshot = || self.snapshots.iter().find(|snapshot| snapshot.length == length);
        let mut bytes = Vec::new();
        for (layer, memory) in self.layers.iter().enumerate() {
            let Some(memory) = memory else { continue };
            let state = match () {
                () if self.now == Some(length) => &memory.now,
                () if self.base == length => &memory.base,
                () => snapshot()?.states[layer].as_ref()?,
            };
            let numbers = state.history.iter().chain(&state.matrices);
            bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
        }
        Some(bytes)
    }

    /// The states in some bytes, if they have the length that the layers need.
    pub(in crate::cpu) fn states_of(&self, bytes: &[u8]) -> Option<SavedStates> {
        let (numbers, rest) = bytes.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes));
        let mut states = Vec::new();
        for Memory { shape, .. } in self.layers.iter().flatten() {
            let mut state = shape.zero();
            for number in state.history.iter_mut().chain(&mut state.matrices) {
                *number = numbers.next()?;
            }
            states.push(Arc::new(state));
        }
        let is_whole = rest.is_empty() && numbers.next().is_none() && !states.is_empty();
        is_whole.then_some(SavedStates(states))
    }

    /// Appends tokens to the first `length`. Without the states after the last of them, some are read again before the
    /// next ones.
    pub(in crate::cpu) fn restore(&mut self, length: usize, tokens: &[TokenId], states: Option<SavedStates>) {
        if self.is_empty() {
            return;
        }
        self.tokens.truncate(length);
        self.tokens.extend_from_slice(tokens);
        self.snapshots.retain(|snapshot| snapshot.length <= length);
        self.forget();
        let Some(SavedStates(states)) = states else { return };
        let held = self.tokens.len();
        (self.base, self.now) = (held, Some(held));
        for (memory, state) in self.layers.iter_mut().flatten().zip(states) {
            (memory.base, memory.now) = (state.clone(), state);
        }
        let states = self.layers.iter().map(|memory| memory.as_ref().map(|memory| memory.base.clone())).collect();
        self.snapshots.push(Snapshot { length: held, states });
    }
}
