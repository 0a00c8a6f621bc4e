//! A memory of pages as models have it: forks share pages, and a shared page is copied before it is written to.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use verdigris_logits::TokenId;

use verdigris_schedule::policy::{PrefixId, TextId};

/// The memory of a text. The tokens represent their keys and values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pages: Vec<Rc<Vec<TokenId>>>,
    length: usize,
}

impl Held {
    pub(crate) fn tokens(&self, page_tokens: usize) -> Vec<TokenId> {
        (0..self.length).map(|at| self.pages[at / page_tokens][at % page_tokens]).collect()
    }

    pub(crate) fn append(&mut self, page_tokens: usize, tokens: &[TokenId]) {
        for &token in tokens {
            let at = self.length / page_tokens;
            if at == self.pages.len() {
                self.pages.push(Rc::new(vec![TokenId::MAX; page_tokens]));
            }
            Rc::make_mut(&mut self.pages[at])[self.length % page_tokens] = token;
            self.length += 1;
        }
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        assert!(length <= self.length);
        self.length = length;
    }

    /// Returns a copy of the first `length` tokens, with only the pages that contain them.
    pub(crate) fn first(&self, page_tokens: usize, length: usize) -> Self {
        assert!(length <= self.length);
        Self { pages: self.pages[..length.div_ceil(page_tokens)].to_vec(), length }
    }
}

/// All memory in use.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) texts: HashMap<TextId, Held>,
    pub(crate) kept: HashMap<PrefixId, Held>,
}

impl Memory {
    /// The number of pages, each counted once.
    pub(crate) fn pages(&self) -> usize {
        let all = self.texts.values().chain(self.kept.values()).flat_map(|held| &held.pages);
        all.map(Rc::as_ptr).collect::<HashSet<_>>().len()
    }
}
