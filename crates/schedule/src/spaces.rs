//! Groups of texts that share pages.

use std::sync::Arc;

use verdigris_models::LanguageModel;

use crate::policy::Space;

/// The groups of texts that can continue from each other's memory: those of one model, one capacity and one salt.
#[derive(Default)]
pub(crate) struct Spaces {
    known: Vec<KnownSpace>,
    next: Space,
}

struct KnownSpace {
    id: Space,
    model: Arc<dyn LanguageModel>,
    capacity: usize,
    salt: Arc<str>,
    texts: usize,
}

impl Spaces {
    /// The maximum number of spaces without a text, whose kept pages may serve later texts. Each tenant of a server has
    /// one.
    const EMPTY: usize = 256;

    pub(crate) fn enter(&mut self, model: &Arc<dyn LanguageModel>, capacity: usize, salt: &Arc<str>) -> Space {
        let is_it =
            |space: &KnownSpace| Arc::ptr_eq(&space.model, model) && space.capacity == capacity && space.salt == *salt;
        let at = self.known.iter().position(is_it).unwrap_or_else(|| {
            self.next += 1;
            let (model, salt) = (model.clone(), salt.clone());
            self.known.push(KnownSpace { id: self.next, model, capacity, salt, texts: 0 });
            self.known.len() - 1
        });
        self.known[at].texts += 1;
        self.known[at].id
    }

    pub(crate) fn leave(&mut self, id: Space) {
        let at = self.known.iter().position(|space| space.id == id).expect("a space that was entered");
        let mut space = self.known.remove(at);
        space.texts -= 1;
        self.known.push(space);
        if self.known.iter().filter(|space| space.texts == 0).count() > Self::EMPTY {
            // The space that was left longest ago. Its pages are no longer found, so they are dropped one after the
            // other.
            let oldest = self.known.iter().position(|space| space.texts == 0).expect("there are some");
            self.known.remove(oldest);
        }
    }
}
