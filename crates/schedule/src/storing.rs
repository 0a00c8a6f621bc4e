//! Takes beginnings of texts from the store of a schedule, and stores them.

use std::sync::Arc;

use verdigris_models::LanguageModel;

use crate::policy::{Space, Step, TextId};
use crate::prefix_store::{PrefixStore, Stored, StoredTexts, Storing};
use crate::schedule::{Entry, Schedule, Stage};

impl Schedule {
    /// Uses a store, which is one for the schedule's own model.
    pub fn with_store(mut self, store: Arc<dyn PrefixStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Takes the stored beginning of a prompt into memory, if it is longer than the one in memory. It becomes kept
    /// pages, from which the text can begin. Faults of memory are left to the text itself.
    pub(crate) fn restore(&mut self, space: Space, model: &Arc<dyn LanguageModel>, capacity: usize, stored: &Stored) {
        let Some(store) = self.store.clone().filter(|_| stored.storing != Storing::Nothing) else { return };
        // The row of the last token must be computed.
        let tokens = &stored.prompt[..stored.prompt.len() - 1];
        let kept = self.policy.kept(space, tokens);
        if kept.tokens == tokens.len() {
            return;
        }
        let sequence = match kept.pages {
            Some((page, tokens)) => self.kept.fork_at(page, tokens),
            None => model.clone().begin(capacity),
        };
        let Ok(mut sequence) = sequence else { return };
        store.restore(StoredTexts { capacity, salt: &stored.salt }, tokens, kept.tokens, &mut *sequence);
        let length = sequence.len();
        if length <= kept.tokens {
            return;
        }
        let from = kept.pages.map_or(0, |(_, tokens)| tokens);
        let ends = (from..length).step_by(self.shape.tokens).map(|at| length.min(at + self.shape.tokens));
        let Ok(pages) = ends.map(|to| sequence.fork_at(to)).collect::<Result<Vec<_>, _>>() else { return };
        let mut steps = Vec::new();
        let adopted = self.policy.adopt(space, &tokens[..length], &mut steps);
        for step in steps {
            if let Step::Forget(prefix) = step {
                self.kept.remove(prefix);
            }
        }
        let restored = adopted.last().map_or(0, |&(_, to)| to.saturating_sub(kept.tokens));
        self.statistics.restored += restored;
        adopted.into_iter().zip(pages).for_each(|((prefix, _), page)| self.kept.insert(prefix, page));
    }

    /// Stores the beginning of a text as soon as the text has read it.
    pub(crate) fn store(&mut self, id: TextId) {
        let Some(store) = &self.store else { return };
        let Entry { stage: Stage::Runs(text), stored: Some(stored), capacity, .. } =
            self.texts.get_mut(&id).expect("a text")
        else {
            return;
        };
        let tokens = stored.next;
        if tokens == 0 || text.sequence().len() < tokens {
            return;
        }
        stored.next = 0;
        // It is only a cache: without memory for a fork there is nothing to store.
        if let Ok(sequence) = text.sequence().fork_at(tokens) {
            let texts = StoredTexts { capacity: *capacity, salt: &stored.salt };
            store.save(texts, stored.prompt[..tokens].into(), sequence);
        }
    }
}
