//! Judges of masks that share nothing with the engine: slow, and close to the definition.
//!
//! A token is allowed exactly if the text with it is a prefix of some text of the language. So a language is given by
//! its prefixes: by derivatives for a regular expression ([`derivative`]), and for JSON by all serializations of the
//! values that another validator accepts ([`writing`]).

pub mod derivative;
pub mod writing;

use std::sync::Arc;

use verdigris::Grammar;
use verdigris::constrain::{Machine, TokenIndex};
use verdigris::logits::{TokenId, TokenSet};
use verdigris_text::Vocabulary;

/// A language, given by its prefixes.
///
/// # Contract
/// `next` returns a state exactly if some text of the language begins with the bytes so far.
pub trait Language {
    /// A summary of the bytes so far.
    type State: Clone;

    /// The state before the first byte; `None` for a language without texts.
    fn start(&self) -> Option<Self::State>;

    /// The state after one more byte.
    fn next(&self, state: &Self::State, byte: u8) -> Option<Self::State>;

    /// Whether the bytes so far are a text of the language.
    fn accepts(&self, state: &Self::State) -> bool;
}

/// A vocabulary, sorted by the tokens' bytes.
pub struct SortedVocabulary {
    words: Vec<(Vec<u8>, TokenId)>,
    size: usize,
    index: Arc<TokenIndex>,
}

impl SortedVocabulary {
    /// The tokens of a vocabulary that are not empty.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let size = vocabulary.size();
        let mut words: Vec<(Vec<u8>, TokenId)> =
            (0..size as TokenId).map(|token| (vocabulary.bytes(token).to_vec(), token)).collect();
        words.retain(|(bytes, _)| !bytes.is_empty());
        words.sort_unstable();
        Self { words, size, index: Arc::new(TokenIndex::new(vocabulary)) }
    }

    /// The vocabulary as machines use it.
    pub fn index(&self) -> &Arc<TokenIndex> {
        &self.index
    }

    /// The tokens with which some text of a language can continue.
    pub fn mask<L: Language>(&self, language: &L, state: &L::State) -> TokenSet {
        let mut mask = TokenSet::new(self.size);
        walk(language, state, &self.words, 0, &mut mask);
        mask
    }

    /// Compares the tokens that a machine allows after some bytes with those of a language, by every interface of the
    /// machine; returns the first difference.
    pub fn compare<L: Language>(
        &self,
        language: &L,
        state: &L::State,
        machine: &Machine,
        grammar: impl FnOnce() -> Grammar,
        begun: &[u8],
    ) -> Result<(), String> {
        let expected = self.mask(language, state);
        let place = || String::from_utf8_lossy(begun).into_owned();
        let at = machine.next(machine.start(), begun);
        let by_bytes = {
            let mut allowed = TokenSet::new(self.size);
            let alive = |bytes: &[u8]| machine.goes_on(machine.next(at, bytes));
            self.words.iter().filter(|(bytes, _)| alive(bytes)).for_each(|&(_, token)| allowed.insert(token));
            allowed
        };
        let fresh = Machine::new(grammar(), self.index.clone());
        let in_time = {
            let mut allowed = TokenSet::new(self.size);
            fresh.mask_within(fresh.next(fresh.start(), begun), u64::MAX - 1, &mut allowed);
            allowed
        };
        let mask = machine.mask(at);
        let again = machine.mask(at);
        let anew = fresh.mask(fresh.next(fresh.start(), begun));
        let ways = [
            ("byte by byte", &by_bytes),
            ("by a machine that has run", &mask.tokens),
            ("once more", &again.tokens),
            ("by a new machine", &anew.tokens),
            ("within bytes", &in_time),
        ];
        for (way, allowed) in ways {
            let differs = |&&(_, token): &&(Vec<u8>, TokenId)| allowed.contains(token) != expected.contains(token);
            if let Some((bytes, token)) = self.words.iter().find(differs) {
                let bytes = String::from_utf8_lossy(bytes);
                let is = if expected.contains(*token) { "is missing" } else { "must not come" };
                return Err(format!("{way}: after {:?} the token {bytes:?} {is}", place()));
            }
        }
        if mask.accepts != language.accepts(state) || machine.accepts(at) != mask.accepts {
            return Err(format!("{:?} is a text of the language: {}", place(), !mask.accepts));
        }
        Ok(())
    }
}

fn walk<L: Language>(language: &L, state: &L::State, words: &[(Vec<u8>, TokenId)], depth: usize, mask: &mut TokenSet) {
    let (ended, longer) = words.split_at(words.partition_point(|(bytes, _)| bytes.len() == depth));
    ended.iter().for_each(|&(_, token)| mask.insert(token));
    for words in longer.chunk_by(|(a, _), (b, _)| a[depth] == b[depth]) {
        if let Some(next) = language.next(state, words[0].0[depth]) {
            walk(language, &next, words, depth + 1, mask);
        }
    }
}
