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
                path.push(trie.nodes.len());
                let byte_and_depth = (depth as u32) << 8 | u32::from(byte);
                trie.nodes.push(Node { byte_and_depth, skip: 0, first: trie.tokens.len() as u32 });
            }
            trie.tokens.push(token);
            before = bytes;
        }
        trie.close(&mut path, 0);
        // Only says where the last node's tokens end.
        trie.nodes.push(Node { byte_and_depth: 0, skip: 0, first: trie.tokens.len() as u32 });
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

    /// Walks the tree from the root, where something is in the state `start`. `enter` gives the state after
    /// one more byte, or `None` to leave out everything that begins so; `found` gets each token that is
    /// reached, and the state after it.
    pub fn walk<S: Copy>(
        &self,
        start: S,
        mut enter: impl FnMut(S, u8) -> Option<S>,
        mut found: impl FnMut(TokenId, S),
    ) {
        let (mut path, mut at) = (vec![start], 0);
        while let [node, after, ..] = &self.nodes[at..] {
            path.truncate(node.depth() + 1);
            match enter(path[node.depth()], node.byte()) {
                Some(state) => {
                    let tokens = &self.tokens[node.first as usize..after.first as usize];
                    tokens.iter().for_each(|&token| found(token, state));
                    path.push(state);
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
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Tokenizer::from_json(json).unwrap();
        let vocabulary = tokenizer.vocabulary();
        let trie = Trie::new(vocabulary);
        // The state is a number that tells apart the bytes so far.
        let more = |state: u64, byte: u8| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let mut seen = Vec::new();
        trie.walk(
            0xcbf2_9ce4_8422_2325,
            |state, byte| Some(more(state, byte)),
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
        let skip_t = |depth: usize, byte| (depth > 0 || byte != b't').then_some(depth + 1);
        trie.walk(0, skip_t, |token, _| without_t.push(token));
        assert!(without_t.iter().all(|&token| vocabulary.bytes(token)[0] != b't'));
        let with_t = expected.iter().filter(|&&token| vocabulary.bytes(token)[0] == b't').count();
        assert_eq!(without_t.len() + with_t, expected.len());
    }
}
