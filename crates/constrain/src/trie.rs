//! A vocabulary as a tree of bytes.

use verdigris_logits::TokenId;
use verdigris_text::Vocabulary;

/// All tokens that write something, by their bytes. Nodes lie in depth-first order, so a walk that skips a
/// subtree is a jump forward.
#[derive(Debug)]
pub struct Trie {
    nodes: Vec<Node>,
    tokens: Vec<TokenId>,
    vocabulary: usize,
}

#[derive(Debug)]
struct Node {
    byte: u8,
    depth: u32,
    /// The first node after this one's subtree.
    skip: u32,
    /// Where the tokens that end here begin and end in `tokens`.
    first: u32,
    end: u32,
}

/// What a walk does at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Goes on to longer tokens.
    Enter,
    /// Leaves out everything that begins so.
    Skip,
}

impl Trie {
    /// The trie of a vocabulary. Control tokens and ids without bytes are not in it.
    pub fn new(vocabulary: &Vocabulary) -> Self {
        let mut order: Vec<TokenId> =
            (0..vocabulary.size() as TokenId).filter(|&token| !vocabulary.bytes(token).is_empty()).collect();
        order.sort_by_key(|&token| vocabulary.bytes(token));
        let mut trie =
            Self { nodes: Vec::new(), tokens: Vec::with_capacity(order.len()), vocabulary: vocabulary.size() };
        let mut path: Vec<usize> = Vec::new();
        let mut before: &[u8] = &[];
        for token in order {
            let bytes = vocabulary.bytes(token);
            let shared = before.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            trie.close(&mut path, shared);
            for (depth, &byte) in bytes.iter().enumerate().skip(shared) {
                let here = trie.tokens.len() as u32;
                path.push(trie.nodes.len());
                trie.nodes.push(Node { byte, depth: depth as u32, skip: 0, first: here, end: here });
            }
            trie.tokens.push(token);
            let last = *path.last().expect("a token in the trie has bytes");
            trie.nodes[last].end = trie.tokens.len() as u32;
            before = bytes;
        }
        trie.close(&mut path, 0);
        trie
    }

    fn close(&mut self, path: &mut Vec<usize>, depth: usize) {
        for node in path.drain(depth..) {
            self.nodes[node].skip = self.nodes.len() as u32;
        }
    }

    /// The number of tokens in the vocabulary, with bytes or without.
    pub fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    /// Walks the tree from the root. `enter(depth, byte)` is asked at every node whose ancestors were all
    /// entered; `found` is called with each token that ends at a node entered.
    pub fn walk(&self, mut enter: impl FnMut(usize, u8) -> Step, mut found: impl FnMut(TokenId)) {
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            match enter(node.depth as usize, node.byte) {
                Step::Enter => {
                    self.tokens[node.first as usize..node.end as usize].iter().for_each(|&token| found(token));
                    at += 1;
                }
                Step::Skip => at = node.skip as usize,
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
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Tokenizer::from_json(json).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let trie = Trie::new(vocabulary);
        let path = std::cell::RefCell::new(Vec::new());
        let mut seen = Vec::new();
        trie.walk(
            |depth, byte| {
                let mut path = path.borrow_mut();
                path.truncate(depth);
                path.push(byte);
                Step::Enter
            },
            |token| {
                assert_eq!(vocabulary.bytes(token), *path.borrow());
                seen.push(token);
            },
        );
        seen.sort_unstable();
        let expected: Vec<u32> = (0..4096).filter(|&token| !vocabulary.bytes(token).is_empty()).collect();
        assert_eq!(seen, expected);

        let mut without_t = Vec::new();
        let skip_t = |depth, byte| if depth == 0 && byte == b't' { Step::Skip } else { Step::Enter };
        trie.walk(skip_t, |token| without_t.push(token));
        assert!(without_t.iter().all(|&token| vocabulary.bytes(token)[0] != b't'));
        let with_t = expected.iter().filter(|&&token| vocabulary.bytes(token)[0] == b't').count();
        assert_eq!(without_t.len() + with_t, expected.len());
    }
}
