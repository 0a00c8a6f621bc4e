//! States of prompts outside of memory, such as in files.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::Sequence;

/// Keeps states of the beginnings of texts of one model outside of memory. It is called between two passes, so it must
/// be quick: reading a state must take much less time than computing it, and writing should be left to another thread.
pub trait PrefixStore: Send + Sync {
    /// Extends `sequence`, which holds the first of these tokens, by all following ones that are stored, if it is then
    /// longer than `kept`, the number that is in memory. If nothing is restored, `sequence` may hold fewer tokens
    /// afterwards.
    fn restore(&self, texts: StoredTexts<'_>, tokens: &[TokenId], kept: usize, sequence: &mut dyn Sequence);

    /// Beginnings are stored only if their number of tokens is a multiple of this.
    fn unit(&self) -> usize {
        1
    }

    /// Stores the state of these tokens, which `sequence` holds and no others, unless it is stored.
    fn save(&self, texts: StoredTexts<'_>, tokens: Arc<[TokenId]>, sequence: Box<dyn Sequence>);
}

/// The texts that may use a stored state: those that may share pages.
#[derive(Clone, Copy, Debug)]
pub struct StoredTexts<'a> {
    /// The capacity of their sequences.
    pub capacity: usize,
    /// Their [salt](crate::Ask::salt).
    pub salt: &'a str,
}

/// The beginning of a text that may be stored. Any text but those with [`Storing::Nothing`] can continue from a stored
/// state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storing {
    /// Nothing.
    #[default]
    Nothing,
    /// The first tokens of the prompt, of the given number.
    First(usize),
    /// The tokens that the text shares with an earlier one, if they are still in memory.
    Shared,
}

/// The part of a text that is stored.
pub(crate) struct Stored {
    pub(crate) storing: Storing,
    pub(crate) salt: Arc<str>,
    pub(crate) prompt: Arc<[TokenId]>,
    /// The number of first tokens to store as soon as they are read.
    pub(crate) next: usize,
    unit: usize,
    most: usize,
}

impl Stored {
    /// `has_parts` is that of the model's [`PageShape`](verdigris_models::PageShape).
    pub(crate) fn new(
        store: &dyn PrefixStore,
        storing: Storing,
        salt: Arc<str>,
        prompt: Arc<[TokenId]>,
        has_parts: bool,
    ) -> Self {
        // The same prompt reads its last token again, for its row, from the state before it.
        let most = prompt.len() - usize::from(!has_parts);
        let mut stored = Self { storing, salt, prompt, next: 0, unit: store.unit(), most };
        if let Storing::First(tokens) = storing {
            stored.store_first(tokens);
        }
        stored
    }

    fn store_first(&mut self, tokens: usize) {
        self.next = tokens.min(self.most) / self.unit * self.unit;
    }

    /// Notes that the text begins with tokens of an earlier one.
    pub(crate) fn shares(&mut self, tokens: usize) {
        if self.storing == Storing::Shared {
            self.store_first(tokens);
        }
    }
}
