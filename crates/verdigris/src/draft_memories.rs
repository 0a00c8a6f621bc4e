//! The memories of an engine about drafting, one for each way to draft.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use verdigris_decoding::{Coupling, DraftMemory};

/// The maximum number of ways. Beyond it all are dropped, so a program that makes new drafters for each text does not
/// leak memory.
const MOST: usize = 64;

/// A way to draft: the settings that affect how many drafts are worthwhile.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DraftingWay {
    /// The address of the drafter. If another drafter is later allocated there, the memory soon adapts to it.
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
