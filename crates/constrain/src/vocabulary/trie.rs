//! A vocabulary as a tree of bytes.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use foldhash::HashMap;

use verdigris_logits::{TokenId, TokenSet};
use verdigris_text::Vocabulary;

use super::character_set::CharacterSet;
use super::class_tokens::ClassTokens;
use super::tree::{MAX_DEPTH, Tree};

/// All tokens with bytes, by their [spellings](Vocabulary::spelling).
///
/// Most tokens of a vocabulary are *plain*: whole characters that need no escape in a JSON string. Where a string
/// allows any character, these need no walk, only a look at their number of characters.
#[derive(Debug)]
pub(crate) struct Trie {
    all: Tree,
    /// The tokens that are not plain.
    rest: Tree,
    /// The plain tokens with their number of characters, in ascending order of it.
    plain: Vec<(u32, TokenId)>,
    /// By number of characters, the plain tokens of at most that many; the last set has all of them.
    plain_sets: Box<[OnceLock<Arc<TokenSet>>]>,
    /// Bytes that are not a token on their own.
    missing: Vec<u8>,
    /// The length of the longest token in bytes.
    max_token_bytes: usize,
    /// The tokens that consist only of given characters, below a node of the full tree or in all of it.
    class_tokens: RwLock<HashMap<(Option<u32>, CharacterSet), ClassEntry>>,
    vocabulary: usize,
}

/// The number of requests for the tokens of some characters, and the tokens, once they have been computed.
#[derive(Debug, Default)]
struct ClassEntry {
    times: u32,
    tokens: Option<Arc<ClassTokens>>,
}

/// The number of requests that are answered by walks. A walk costs a little less than finding all tokens of some
/// characters, which pays off if they are requested again.
const WORTH: u32 = 1;

/// The approximate maximum bytes of the tokens of sets of characters; beyond it, all are dropped. Qwen2's vocabulary
/// needs up to 3 MB for one set.
const MAX_KEPT: usize = 64 << 20;

/// The maximum number of sets of characters whose requests are counted.
const MAX_ASKED: usize = 4096;

impl Trie {
    /// Builds the trie of a vocabulary. Ids without bytes are left out.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let mut order: Vec<(&[u8], TokenId)> = (0..vocabulary.size() as TokenId)
            .map(|token| (vocabulary.spelling(token), token))
            .filter(|(bytes, _)| (1..=MAX_DEPTH).contains(&bytes.len()))
            .collect();
        order.sort_unstable();
        let (mut plain, mut rest) = (Vec::new(), Vec::new());
        for &(bytes, token) in &order {
            match plain_characters(bytes) {
                Some(characters) => plain.push((characters, token)),
                None => rest.push((bytes, token)),
            }
        }
        plain.sort_unstable();
        let longest = plain.last().map_or(0, |&(characters, _)| characters as usize);
        let mut alone = [false; 256];
        order.iter().filter_map(|&(bytes, _)| bytes.try_into().ok()).for_each(|[byte]: [u8; 1]| {
            alone[usize::from(byte)] = true;
        });
        Self {
            max_token_bytes: order.iter().map(|(bytes, _)| bytes.len()).max().unwrap_or(0),
            all: Tree::new(order.into_iter()),
            rest: Tree::new(rest.into_iter()),
            plain,
            plain_sets: (0..=longest).map(|_| OnceLock::new()).collect(),
            class_tokens: RwLock::default(),
            missing: (0..=255).filter(|&byte| !alone[usize::from(byte)]).collect(),
            vocabulary: vocabulary.size(),
        }
    }

    /// The number of tokens in the vocabulary, with bytes or without.
    pub(crate) fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    /// Whether every byte of UTF-8 is a token: then a text of `n` bytes can be written in `n` tokens.
    pub(crate) fn writes_all_bytes(&self) -> bool {
        self.missing.iter().all(|byte| matches!(byte, 0xc0 | 0xc1 | 0xf5..))
    }

    /// All bytes: first those that are tokens on their own, then the others.
    pub(crate) fn bytes_by_tokens(&self) -> impl Iterator<Item = u8> + '_ {
        let is_token = |byte: &u8| self.missing.binary_search(byte).is_err();
        (0..=u8::MAX).filter(is_token).chain(self.missing.iter().copied())
    }

    /// The length of the longest token in bytes.
    pub(crate) fn max_token_bytes(&self) -> usize {
        self.max_token_bytes
    }

    /// The tokens that consist only of given characters, below a node of the full tree or in all of it; `None` if they
    /// have not been requested often enough to pay off and are not `sure` to be requested again.
    pub(crate) fn class_tokens(
        &self,
        root: Option<u32>,
        characters: &CharacterSet,
        sure: bool,
    ) -> Option<Arc<ClassTokens>> {
        let key = (root, characters.clone());
        if let Some(ClassEntry { tokens: Some(tokens), .. }) =
            self.class_tokens.read().unwrap_or_else(PoisonError::into_inner).get(&key)
        {
            return Some(tokens.clone());
        }
        {
            let mut all = self.class_tokens.write().unwrap_or_else(PoisonError::into_inner);
            if all.len() == MAX_ASKED {
                all.retain(|_, asked| asked.tokens.is_some());
            }
            let asked = all.entry(key.clone()).or_default();
            asked.times += 1;
            if asked.times <= WORTH && !sure {
                return None;
            }
        }
        let tokens = Arc::new(ClassTokens::new(&self.all, root, self.vocabulary, characters));
        let mut all = self.class_tokens.write().unwrap_or_else(PoisonError::into_inner);
        let held: usize = all.values().filter_map(|asked| asked.tokens.as_ref()).map(|tokens| tokens.bytes()).sum();
        if held + tokens.bytes() > MAX_KEPT {
            all.clear();
        }
        all.entry(key).or_default().tokens = Some(tokens.clone());
        Some(tokens)
    }

    /// The maximum number of characters of a token.
    pub(crate) fn max_token_chars(&self) -> u32 {
        MAX_DEPTH as u32
    }

    /// All tokens.
    pub(crate) fn all(&self) -> &Tree {
        &self.all
    }

    /// The tokens that are not plain.
    pub(crate) fn rest(&self) -> &Tree {
        &self.rest
    }

    /// The plain tokens of at most `characters` characters.
    pub(crate) fn plain(&self, characters: u32) -> Arc<TokenSet> {
        let most = (characters as usize).min(self.plain_sets.len() - 1);
        let set = self.plain_sets[most].get_or_init(|| {
            let mut set = TokenSet::new(self.vocabulary);
            let short = self.plain.partition_point(|&(characters, _)| characters as usize <= most);
            self.plain[..short].iter().for_each(|&(_, token)| set.insert(token));
            Arc::new(set)
        });
        set.clone()
    }
}

/// The number of characters, if these bytes are whole characters that need no escape in a JSON string.
fn plain_characters(bytes: &[u8]) -> Option<u32> {
    if bytes.iter().any(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        return None;
    }
    Some(std::str::from_utf8(bytes).ok()?.chars().count() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::LEXICON;

    #[test]
    fn a_walk_finds_every_token_under_its_bytes() {
        let vocabulary = LEXICON.tokenizer().vocabulary();
        let trie = Trie::new(vocabulary);
        // The state is a hash of the bytes so far.
        let more = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut seen = Vec::new();
        trie.all().walk(
            0xcbf2_9ce4_8422_2325,
            |state, byte, _| Some(more(state, byte)),
            |token, state| {
                let bytes = vocabulary.spelling(token).iter();
                assert_eq!(state, bytes.fold(0xcbf2_9ce4_8422_2325, |state, &byte| more(state, byte)));
                seen.push(token);
            },
        );
        seen.sort_unstable();
        let expected: Vec<u32> = (0..4096).filter(|&token| !vocabulary.spelling(token).is_empty()).collect();
        assert_eq!(seen, expected);

        let mut without_t = Vec::new();
        let skip_t = |depth: usize, byte, _| (depth > 0 || byte != b't').then_some(depth + 1);
        trie.all().walk(0, skip_t, |token, _| without_t.push(token));
        assert!(without_t.iter().all(|&token| vocabulary.spelling(token)[0] != b't'));
        let with_t = expected.iter().filter(|&&token| vocabulary.spelling(token)[0] == b't').count();
        assert_eq!(without_t.len() + with_t, expected.len());
    }

    #[test]
    fn plain_tokens_and_the_rest_are_all_of_them() {
        let vocabulary = LEXICON.tokenizer().vocabulary();
        let trie = Trie::new(vocabulary);
        let mut rest = TokenSet::new(vocabulary.size());
        trie.rest().walk((), |(), _, _| Some(()), |token, ()| rest.insert(token));
        for token in 0..vocabulary.size() as u32 {
            let text = std::str::from_utf8(vocabulary.spelling(token)).ok();
            let plain = text.filter(|text| !text.contains(|c: char| c < ' ' || c == '"' || c == '\\'));
            let characters = plain.map_or(usize::MAX, |text| text.chars().count());
            for most in [0, 1, 2, 5, 1000] {
                let expected = (1..=most).contains(&characters);
                assert_eq!(trie.plain(most as u32).contains(token), expected, "{token} of {most}");
            }
            assert_eq!(rest.contains(token), plain.is_none(), "{token}");
        }
        assert!(trie.writes_all_bytes());
    }
}
