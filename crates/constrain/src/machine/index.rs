//! Data that all machines over one vocabulary share.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use foldhash::HashMap;
use verdigris_logits::{TokenId, TokenSet};
use verdigris_text::Vocabulary;

use super::allowed::Recipe;
use super::closings::Closings;
use super::slice::TokenSlice;
use crate::terminal::any_string::AnyString;
use crate::terminal::escape::Escapes;
use crate::vocabulary::trie::Trie;

/// The maximum number of slices and sets that are kept. A slice has a list of at most 512 tokens, and one of its exits.
const MAX_SLICES: usize = 4096;
const MAX_SETS: usize = 512;

/// A vocabulary as a tree of bytes, and sets of tokens that recur between grammars.
///
/// Make it once per vocabulary; every [`Machine`](crate::Machine) over that vocabulary reads it and adds to it. Results
/// do not depend on the order of requests, and memory is bounded: a few thousand lists of tokens and 64 MiB of sets.
/// Any number of threads may use it.
#[doc(alias = "TokTrie")]
#[doc(alias = "TokenizerInfo")]
#[derive(Debug)]
pub struct TokenIndex {
    trie: Trie,
    /// The slices of strings with any content.
    slices: RwLock<HashMap<AnyString, Arc<TokenSlice>>>,
    /// Sets that recur between schemas. A recipe refers to sets by address, so those sets are kept with it.
    sets: RwLock<HashMap<Recipe, CachedSet>>,
    /// The remainders of tokens after such strings, from inside and from before the opening quote, with minimal escapes
    /// and with any.
    closings: [OnceLock<Closings>; 4],
    /// Tokens that contain a whole name and close its object, with their bytes.
    names_inside: OnceLock<Vec<(TokenId, Vec<u8>)>>,
}

/// A set, and the sets that its recipe refers to.
type CachedSet = (Arc<TokenSet>, Vec<Arc<TokenSet>>);

impl TokenIndex {
    /// Builds the index of a vocabulary. Ids without bytes are left out.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let trie = Trie::new(vocabulary);
        let names_inside = OnceLock::new();
        Self { trie, slices: RwLock::default(), sets: RwLock::default(), closings: Default::default(), names_inside }
    }

    /// The number of tokens in the vocabulary, with bytes or without.
    pub fn vocabulary_size(&self) -> usize {
        self.trie.vocabulary_size()
    }

    /// The vocabulary as a tree.
    pub(crate) fn trie(&self) -> &Trie {
        &self.trie
    }

    /// The slice of a string with any content, computed if it is not known.
    pub(super) fn slice(&self, any: AnyString) -> Arc<TokenSlice> {
        if let Some(slice) = self.slices.read().unwrap_or_else(PoisonError::into_inner).get(&any) {
            return slice.clone();
        }
        let closings = self.closings(any.open, any.escapes);
        let slice = Arc::new(TokenSlice::of_any_string(&self.trie, any, closings));
        let mut all = self.slices.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_SLICES {
            all.clear();
        }
        all.entry(any).or_insert(slice).clone()
    }

    fn closings(&self, open: bool, escapes: Escapes) -> &Closings {
        let at = 2 * usize::from(escapes == Escapes::Any) + usize::from(open);
        self.closings[at].get_or_init(|| Closings::new(&self.trie, open, escapes))
    }

    /// The tokens that may contain a whole name of an object and everything after it up to the object's end.
    pub(super) fn names_inside(&self) -> &[(TokenId, Vec<u8>)] {
        // The states that reading may be in: nothing, in a name, after it, after its colon, after the end of its
        // object.
        let [nothing, part, whole, colon_read, ended] = [1, 2, 4, 8, 16u8];
        let read = |states: u8, byte: u8| {
            let has = |state: u8| states & state != 0;
            let name = match byte {
                b'"' => part | if has(part) { whole } else { 0 },
                _ => states & part,
            };
            let after = if has(whole) && byte.is_ascii_whitespace() { whole } else { 0 };
            let colon = if has(colon_read) || has(whole) && byte == b':' { colon_read } else { 0 };
            let end = if has(ended) || has(colon_read) && byte == b'}' { ended } else { 0 };
            nothing | name | after | colon | end
        };
        self.names_inside.get_or_init(|| {
            let (path, mut found) = (RefCell::new(Vec::new()), Vec::new());
            let step = |(depth, states), byte, _| {
                let mut path = path.borrow_mut();
                path.truncate(depth);
                path.push(byte);
                Some((depth + 1, read(states, byte)))
            };
            self.trie.all().walk((0, nothing), step, |token, (_, states)| {
                if states & ended != 0 {
                    found.push((token, path.borrow().clone()));
                }
            });
            found
        })
    }

    /// A set that was computed for another schema.
    pub(super) fn known_set(&self, recipe: &Recipe) -> Option<Arc<TokenSet>> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).get(recipe).map(|(set, _)| set.clone())
    }

    /// Keeps a set for other schemas, with the sets that its recipe refers to.
    pub(super) fn keep_set(&self, recipe: Recipe, set: &Arc<TokenSet>, parts: Vec<Arc<TokenSet>>) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        if sets.len() == MAX_SETS {
            sets.clear();
        }
        sets.insert(recipe, (set.clone(), parts));
    }
}
