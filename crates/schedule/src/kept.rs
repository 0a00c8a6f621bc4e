//! The memory kept for texts with a common prefix.

use std::collections::{HashMap, VecDeque};

use verdigris_models::{ModelError, Sequence};

use crate::policy::PrefixId;

/// Pages that are kept, as sequences that end with them.
pub(crate) struct KeptPages {
    pages: HashMap<PrefixId, Box<dyn Sequence>>,
    /// Those that have states of fixed size at their end, the least recently used first. Such states may be as large as
    /// a hundred pages.
    with_states: VecDeque<PrefixId>,
    /// The maximum number of these.
    most: usize,
}

impl KeptPages {
    /// No pages, of which at most `most` will have states of fixed size at their end.
    pub(crate) fn new(most: usize) -> Self {
        Self { pages: HashMap::new(), with_states: VecDeque::new(), most }
    }

    /// Keeps a page.
    pub(crate) fn insert(&mut self, id: PrefixId, page: Box<dyn Sequence>) {
        self.pages.insert(id, page);
        self.count_states(id);
    }

    /// Drops a page.
    pub(crate) fn remove(&mut self, id: PrefixId) {
        self.with_states.retain(|other| *other != id);
        self.pages.remove(&id);
    }

    /// A sequence of the first `tokens` tokens that end with a page, which may have to read some of them again.
    pub(crate) fn fork_at(&self, id: PrefixId, tokens: usize) -> Result<Box<dyn Sequence>, ModelError> {
        self.pages[&id].fork_at(tokens)
    }

    /// The same for a text that begins with it. If the page lacks its states, it computes them now, for later texts
    /// too.
    pub(crate) fn begin_at(&mut self, id: PrefixId, tokens: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let page = self.pages.get_mut(&id).expect("a page that is kept");
        page.read_again()?;
        let begun = page.fork_at(tokens)?;
        self.count_states(id);
        Ok(begun)
    }

    /// Drops the states of a page, if it is still kept.
    pub(crate) fn forget_states(&mut self, id: PrefixId) {
        self.with_states.retain(|other| *other != id);
        if let Some(page) = self.pages.get_mut(&id) {
            page.forget_states();
        }
    }

    /// Records that a page was used. If it has states, and now too many have, the least recently used one loses them.
    fn count_states(&mut self, id: PrefixId) {
        let page = &self.pages[&id];
        if !page.saved_ends().is_some_and(|ends| ends.contains(&page.len())) {
            return;
        }
        self.with_states.retain(|other| *other != id);
        self.with_states.push_back(id);
        if self.with_states.len() > self.most {
            self.forget_states(self.with_states[0]);
        }
    }
}
