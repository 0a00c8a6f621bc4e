//! A vocabulary as a tree of bytes.

use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use foldhash::HashMap;

use verdigris_logits::{TokenId, TokenSet};
use verdigris_text::Vocabulary;

use crate::json::style::Escapes;
use crate::machine::Recipe;
use crate::machine::piece::{Closings, Free, Piece, closings};
use crate::vocabulary::loops::{Kept, Signs};

/// A set, and the sets that its recipe names.
type MadeOf = (Arc<TokenSet>, Vec<Arc<TokenSet>>);

/// All tokens that write something, by their bytes.
///
/// Most tokens of a vocabulary are *plain*: whole characters that may stand in a JSON string as they are. Wherever a
/// string takes any character they need no walk, only a look at how many characters they have.
#[derive(Debug)]
pub struct Trie {
    all: Tree,
    /// Those that are not plain.
    rest: Tree,
    /// The plain tokens with the number of their characters, in the order of it.
    plain: Vec<(u32, TokenId)>,
    /// The plain tokens of at most so many characters; the last are all of them.
    plain_sets: Box<[OnceLock<Arc<TokenSet>>]>,
    /// Bytes that no token writes alone.
    missing: Vec<u8>,
    /// The bytes of the longest token.
    longest: usize,
    /// Pieces of strings in which anything may stand, which all schemas share.
    free: RwLock<HashMap<Free, Arc<Piece>>>,
    /// The tokens that are made of some characters alone, below nodes of the tree of all or in all of it.
    kept: RwLock<HashMap<(Option<u32>, Signs), Asked>>,
    /// Sets of tokens that occur in one schema after the other. A recipe names sets by where they are, so those are kept
    /// with it.
    sets: RwLock<HashMap<Recipe, MadeOf>>,
    /// How tokens go on after such strings, from their inside and from before their opening quote, with the escapes that are
    /// needed and with any.
    closings: [OnceLock<Closings>; 4],
    vocabulary: usize,
}

/// How often tokens of some characters were asked for, and what they are, where it was often.
#[derive(Debug, Default)]
struct Asked {
    times: u32,
    kept: Option<Arc<Kept>>,
}

/// A walk costs less than finding all tokens of some characters, so that is done after so many walks.
const WORTH: u32 = 8;

/// The most bytes that the tokens of sets of characters take, about; then all are forgotten, and the next ones kept. Qwen2's
/// vocabulary needs up to 3 MB for one set.
const MAX_KEPT: usize = 64 << 20;

/// Of so many sets of characters it is counted how often they are asked for.
const MAX_ASKED: usize = 4096;

/// The most pieces and sets that all schemas share. Of a piece there is a list of at most 512 tokens and one of its ends.
const MAX_FREE: usize = 4096;
const MAX_SETS: usize = 512;

/// Longer tokens are left out: they are runs of one sign, which shorter ones write too.
const MAX_DEPTH: usize = 128;

/// Nodes lie in depth-first order, so a walk that skips a subtree is a jump forward.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    tokens: Vec<TokenId>,
}

/// Twelve bytes, for a walk is as fast as its nodes can be read.
#[derive(Debug)]
struct Node {
    /// The byte in the lowest bits, above it the depth.
    byte_and_depth: u32,
    /// The first node after this one's subtree.
    skip: u32,
    /// Where in `tokens` those that end here begin. They end where the next node's begin.
    first: u32,
}

impl Node {
    fn byte(&self) -> u8 {
        self.byte_and_depth as u8
    }

    fn depth(&self) -> usize {
        (self.byte_and_depth >> 8) as usize
    }
}

impl Trie {
    /// The trie of a vocabulary. Control tokens and ids without bytes are not in it.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let mut order: Vec<TokenId> = (0..vocabulary.size() as TokenId)
            .filter(|&token| (1..=MAX_DEPTH).contains(&vocabulary.bytes(token).len()))
            .collect();
        order.sort_unstable_by(|&a, &b| vocabulary.bytes(a).cmp(vocabulary.bytes(b)).then(a.cmp(&b)));
        let (mut plain, mut rest) = (Vec::new(), Vec::new());
        for &token in &order {
            match plain_characters(vocabulary.bytes(token)) {
                Some(characters) => plain.push((characters, token)),
                None => rest.push(token),
            }
        }
        plain.sort_unstable();
        let longest = plain.last().map_or(0, |&(characters, _)| characters as usize);
        let mut alone = [false; 256];
        order.iter().filter_map(|&token| vocabulary.bytes(token).try_into().ok()).for_each(|[byte]: [u8; 1]| {
            alone[usize::from(byte)] = true;
        });
        Self {
            all: Tree::new(order.iter().map(|&token| (vocabulary.bytes(token), token))),
            rest: Tree::new(rest.iter().map(|&token| (vocabulary.bytes(token), token))),
            plain,
            plain_sets: (0..=longest).map(|_| OnceLock::new()).collect(),
            free: RwLock::default(),
            kept: RwLock::default(),
            sets: RwLock::default(),
            closings: Default::default(),
            missing: (0..=255).filter(|&byte| !alone[usize::from(byte)]).collect(),
            longest: order.iter().map(|&token| vocabulary.bytes(token).len()).max().unwrap_or(0),
            vocabulary: vocabulary.size(),
        }
    }

    /// The number of tokens in the vocabulary, with bytes or without.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    /// The bytes that no token writes alone. A text that needs one of them may come to a point where no token leads on.
    pub fn missing_bytes(&self) -> &[u8] {
        &self.missing
    }

    /// Whether every byte that a text may have is a token: then a text of so many bytes has a writing of so many tokens.
    pub(crate) fn writes_all_bytes(&self) -> bool {
        self.missing.iter().all(|byte| matches!(byte, 0xc0 | 0xc1 | 0xf5..))
    }

    /// The bytes of the longest token.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// A piece that all schemas share, made where it is not there.
    pub(crate) fn free(&self, free: Free) -> Arc<Piece> {
        if let Some(piece) = self.free.read().unwrap_or_else(PoisonError::into_inner).get(&free) {
            return piece.clone();
        }
        let piece = Arc::new(free.piece(self));
        let mut all = self.free.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_FREE {
            all.clear();
        }
        all.entry(free).or_insert(piece).clone()
    }

    /// The tokens that are made of some characters alone, below a node of the tree of all or in all of it; `None` where it has
    /// not been asked often enough to be worth it, if it is not `sure` to be asked again.
    pub(crate) fn kept(&self, root: Option<u32>, characters: &Signs, sure: bool) -> Option<Arc<Kept>> {
        let key = (root, characters.clone());
        if let Some(Asked { kept: Some(kept), .. }) = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&key)
        {
            return Some(kept.clone());
        }
        {
            let mut all = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if all.len() == MAX_ASKED {
                all.retain(|_, asked| asked.kept.is_some());
            }
            let asked = all.entry(key.clone()).or_default();
            asked.times += 1;
            if asked.times <= WORTH && !sure {
                return None;
            }
        }
        let kept = Arc::new(Kept::new(&self.all, root, self.vocabulary, characters));
        let mut all = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        let held: usize = all.values().filter_map(|asked| asked.kept.as_ref()).map(|kept| kept.bytes()).sum();
        if held + kept.bytes() > MAX_KEPT {
            all.clear();
        }
        all.entry(key).or_default().kept = Some(kept.clone());
        Some(kept)
    }

    /// A set that has been made for another schema.
    pub(crate) fn known_set(&self, recipe: &Recipe) -> Option<Arc<TokenSet>> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).get(recipe).map(|(set, _)| set.clone())
    }

    /// Keeps a set for other schemas, with the sets that its recipe names.
    pub(crate) fn keep_set(&self, recipe: Recipe, set: &Arc<TokenSet>, parts: Vec<Arc<TokenSet>>) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        if sets.len() == MAX_SETS {
            sets.clear();
        }
        sets.insert(recipe, (set.clone(), parts));
    }

    /// How tokens go on after a string in which anything may stand.
    pub(crate) fn closings(&self, open: bool, escapes: Escapes) -> &Closings {
        let at = 2 * usize::from(escapes == Escapes::Any) + usize::from(open);
        self.closings[at].get_or_init(|| closings(self, open, escapes))
    }

    /// No token has more characters.
    pub(crate) fn reach(&self) -> u32 {
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

    /// The plain tokens of at most so many characters.
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

/// The number of characters, if these bytes are whole ones that stand for themselves in a JSON string.
fn plain_characters(bytes: &[u8]) -> Option<u32> {
    if bytes.iter().any(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        return None;
    }
    Some(std::str::from_utf8(bytes).ok()?.chars().count() as u32)
}

impl Tree {
    /// The tree of some tokens with their bytes, which come in the order of those.
    fn new<'a>(order: impl Iterator<Item = (&'a [u8], TokenId)>) -> Self {
        let mut tree = Self::default();
        let mut path: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for (bytes, token) in order {
            let shared = before.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            tree.close(&mut path, shared);
            for (depth, &byte) in bytes.iter().enumerate().skip(shared) {
                path.push(tree.nodes.len());
                let byte_and_depth = (depth as u32) << 8 | u32::from(byte);
                tree.nodes.push(Node { byte_and_depth, skip: 0, first: tree.tokens.len() as u32 });
            }
            tree.tokens.push(token);
            before = bytes;
        }
        tree.close(&mut path, 0);
        // Only says where the last node's tokens end.
        tree.nodes.push(Node { byte_and_depth: 0, skip: 0, first: tree.tokens.len() as u32 });
        tree
    }

    fn close(&mut self, path: &mut Vec<usize>, depth: usize) {
        for node in path.drain(depth..) {
            self.nodes[node].skip = self.nodes.len() as u32;
        }
    }

    /// Walks the tree from the root, where something is in the state `start`. `enter` gives the state after
    /// one more byte, which leads to a node, or `None` to leave out everything that begins so; `found` gets each token
    /// that is reached, and the state after it.
    pub(crate) fn walk<S: Copy>(
        &self,
        start: S,
        enter: impl FnMut(S, u8, u32) -> Option<S>,
        found: impl FnMut(TokenId, S),
    ) {
        self.walk_range(0..self.nodes.len() - 1, 0, &mut [start; MAX_DEPTH + 1], enter, found);
    }

    /// What is left of the tokens that begin as some nodes do and go on, as a tree of its own.
    pub(crate) fn ends_below(&self, nodes: impl Iterator<Item = u32>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for node in nodes {
            let Node { skip, .. } = self.nodes[node as usize];
            let root = self.nodes[node as usize].depth() + 1;
            let mut path = Vec::new();
            for at in node as usize + 1..skip as usize {
                let (node, after) = (&self.nodes[at], &self.nodes[at + 1]);
                path.truncate(node.depth() - root);
                path.push(node.byte());
                for &token in &self.tokens[node.first as usize..after.first as usize] {
                    ends.push((bytes.len(), bytes.len() + path.len(), token));
                    bytes.extend_from_slice(&path);
                }
            }
        }
        ends.sort_unstable_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]).then(a.2.cmp(&b.2)));
        Self::new(ends.iter().map(|&(from, to, token)| (&bytes[from..to], token)))
    }

    /// The node of some bytes.
    pub(crate) fn node(&self, bytes: &[u8]) -> Option<u32> {
        let mut found = None;
        let along = |depth: usize, byte, node| {
            let is_next = bytes.get(depth) == Some(&byte);
            if is_next && depth + 1 == bytes.len() {
                found = Some(node);
            }
            is_next.then_some(depth + 1)
        };
        self.walk(0, along, |_, _| ());
        found
    }

    /// The lengths of the tokens that some bytes begin with.
    pub(crate) fn beginnings(&self, bytes: &[u8], mut found: impl FnMut(usize)) {
        let mut last = 0;
        let along = |depth: usize, byte, _| (bytes.get(depth) == Some(&byte)).then_some(depth + 1);
        self.walk(0, along, |_, length| {
            if std::mem::replace(&mut last, length) != length {
                found(length);
            }
        });
    }

    /// The tokens that begin as a node does, those that end there included; those that end there come first.
    pub(crate) fn tokens_below(&self, node: u32) -> &[TokenId] {
        let (first, skip) = (self.nodes[node as usize].first, self.nodes[node as usize].skip);
        &self.tokens[first as usize..self.nodes[skip as usize].first as usize]
    }

    /// The tokens that end at a node.
    pub(crate) fn tokens_at(&self, node: u32) -> &[TokenId] {
        let (first, after) = (self.nodes[node as usize].first, self.nodes[node as usize + 1].first);
        &self.tokens[first as usize..after as usize]
    }

    /// The number of nodes below one.
    pub(crate) fn size(&self, node: u32) -> u32 {
        self.nodes[node as usize].skip - node - 1
    }

    /// Whether some token is longer than a node.
    pub(crate) fn goes_on(&self, node: u32) -> bool {
        self.nodes[node as usize].skip > node + 1
    }

    /// Walks what begins as some nodes do and goes on.
    pub(crate) fn walk_below<S: Copy>(
        &self,
        nodes: impl IntoIterator<Item = u32>,
        start: S,
        mut enter: impl FnMut(S, u8, u32) -> Option<S>,
        mut found: impl FnMut(TokenId, S),
    ) {
        let mut path = [start; MAX_DEPTH + 1];
        for node in nodes {
            let (from, root) = (node as usize + 1, self.nodes[node as usize].depth() + 1);
            let to = self.nodes[node as usize].skip as usize;
            self.walk_range(from..to, root, &mut path, &mut enter, &mut found);
        }
    }

    /// `path` holds the state before each depth; the first is that of the root.
    fn walk_range<S: Copy>(
        &self,
        nodes: Range<usize>,
        root: usize,
        path: &mut [S; MAX_DEPTH + 1],
        mut enter: impl FnMut(S, u8, u32) -> Option<S>,
        mut found: impl FnMut(TokenId, S),
    ) {
        let mut at = nodes.start;
        while at < nodes.end {
            let [node, after, ..] = &self.nodes[at..] else { unreachable!("a node comes after the last") };
            let depth = node.depth() - root;
            match enter(path[depth], node.byte(), at as u32) {
                Some(state) => {
                    let tokens = &self.tokens[node.first as usize..after.first as usize];
                    tokens.iter().for_each(|&token| found(token, state));
                    path[depth + 1] = state;
                    at += 1;
                }
                None => at = node.skip as usize,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_text::Tokenizer;

    #[test]
    fn a_walk_finds_every_token_under_its_bytes() {
        let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Tokenizer::from_json(json).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let trie = Trie::new(vocabulary);
        // The state is a number that tells apart the bytes so far.
        let more = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut seen = Vec::new();
        trie.all().walk(
            0xcbf2_9ce4_8422_2325,
            |state, byte, _| Some(more(state, byte)),
            |token, state| {
                let bytes = vocabulary.bytes(token).iter();
                assert_eq!(state, bytes.fold(0xcbf2_9ce4_8422_2325, |state, &byte| more(state, byte)));
                seen.push(token);
            },
        );
        seen.sort_unstable();
        let expected: Vec<u32> = (0..4096).filter(|&token| !vocabulary.bytes(token).is_empty()).collect();
        assert_eq!(seen, expected);

        let mut without_t = Vec::new();
        let skip_t = |depth: usize, byte, _| (depth > 0 || byte != b't').then_some(depth + 1);
        trie.all().walk(0, skip_t, |token, _| without_t.push(token));
        assert!(without_t.iter().all(|&token| vocabulary.bytes(token)[0] != b't'));
        let with_t = expected.iter().filter(|&&token| vocabulary.bytes(token)[0] == b't').count();
        assert_eq!(without_t.len() + with_t, expected.len());
    }

    #[test]
    fn plain_tokens_and_the_rest_are_all_of_them() {
        let json = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Tokenizer::from_json(json).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let trie = Trie::new(vocabulary);
        let mut rest = TokenSet::new(vocabulary.size());
        trie.rest().walk((), |(), _, _| Some(()), |token, ()| rest.insert(token));
        for token in 0..vocabulary.size() as u32 {
            let text = std::str::from_utf8(vocabulary.bytes(token)).ok();
            let plain = text.filter(|text| !text.contains(|c: char| c < ' ' || c == '"' || c == '\\'));
            let characters = plain.map_or(usize::MAX, |text| text.chars().count());
            for most in [0, 1, 2, 5, 1000] {
                let expected = (1..=most).contains(&characters);
                assert_eq!(trie.plain(most as u32).contains(token), expected, "{token} of {most}");
            }
            assert_eq!(rest.contains(token), plain.is_none(), "{token}");
        }
        assert!(trie.missing_bytes().is_empty());
    }
}
