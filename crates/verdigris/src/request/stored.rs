//! States of prompts that are kept in files.

use std::sync::Arc;

use verdigris_schedule::{PrefixStore, Storing};

use crate::error::Error;
use crate::request::Request;
use crate::stored::cache::PromptCache;

impl Request<'_> {
    /// Keeps the state of the prompt in a file, and takes from there what the prompt has in common with the one that is
    /// in it. Of several texts after one prompt the first reads it; of several prompts the first that has ended is
    /// kept.
    pub fn prompt_cache(mut self, cache: &PromptCache) -> Self {
        self.caller.cache = Some(cache.clone_of_file());
        self
    }

    /// The beginning of the prompt that a [`PrefixFolder`](crate::PrefixFolder) of the service keeps.
    pub fn storing(mut self, storing: Storing) -> Self {
        self.caller.storing = storing;
        self
    }

    /// The store of the request itself.
    pub(super) fn own_store(&self) -> Option<Arc<dyn PrefixStore>> {
        self.caller.cache.clone().map(|cache| cache as Arc<dyn PrefixStore>)
    }

    /// The part of the prompt that is stored.
    pub(super) fn stores(&self) -> Storing {
        if self.caller.cache.is_some() { Storing::First(usize::MAX) } else { self.caller.storing }
    }

    /// Refuses a prompt cache with a way to write that must compute the whole prompt itself, if it has a name.
    pub(super) fn check_cache(&self, with: Option<&'static str>) -> Result<(), Error> {
        let Some(cache) = &self.caller.cache else { return Ok(()) };
        cache.check(self.engine)?;
        let why = "it needs all computations of the prompt, and the cache saves them; leave out one of the two";
        with.map_or(Ok(()), |with| Err(Error::Apart { what: "a prompt cache".into(), with, why }))
    }
}
