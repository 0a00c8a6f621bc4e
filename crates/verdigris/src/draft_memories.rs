//! What an engine has learned of drafting: one memory for each way to draft.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use verdigris_decoding::{Coupling, DraftMemory};

/// Past so many ways all are forgotten: a program that makes its drafters anew for each text does not fill the memory.
const MOST: usize = 64;

/// How texts are drafted, as far as it changes what pays.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DraftingWay {
    /// The address of the drafter. Should another one come to lie there, what is remembered is soon corrected.
    pub(crate) drafter: Option<usize>,
    pub(crate) lookup: bool,
    pub(crate) coupling: Coupling,
}

#[derive(Default)]
pub(crate) struct DraftMemories(Mutex<HashMap<DraftingWay, DraftMemory>>);

impl DraftMemories {
    pub(crate) fn of(&self, way: DraftingWay) -> DraftMemory {
        let mut memories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if memories.len() == MOST && !memories.contains_key(&way) {
            memories.clear();
        }
        memories.entry(way).or_default().clone()
    }
}
