//! Tokens as a tree of their bytes.

use std::ops::Range;

use verdigris_logits::TokenId;

/// The maximum bytes of a token in the tree. Longer tokens are runs of one character, which shorter ones can write too.
pub(crate) const MAX_DEPTH: usize = 128;

/// A prefix tree in depth-first order, such that skipping a subtree is a jump forward.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    tokens: Vec<TokenId>,
}

/// Twelve bytes, since a walk is as fast as its nodes can be read.
#[derive(Debug)]
struct Node {
    /// The byte in the lowest bits, with the depth above them.
    byte_and_depth: u32,
    /// The first node after this one's subtree.
    skip: u32,
    /// The index in `tokens` of the first token that ends here; the last one is before the next node's first.
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

impl Tree {
    /// Builds the tree of some tokens with their bytes, in the order of the bytes.
    pub(crate) fn new<'a>(order: impl Iterator<Item = (&'a [u8], TokenId)>) -> Self {
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
        // A sentinel that marks the end of the last node's tokens.
        tree.nodes.push(Node { byte_and_depth: 0, skip: 0, first: tree.tokens.len() as u32 });
        tree
    }

    fn close(&mut self, path: &mut Vec<usize>, depth: usize) {
        for node in path.drain(depth..) {
            self.nodes[node].skip = self.nodes.len() as u32;
        }
    }

    /// Walks the tree from the root with the state `start`. `enter` returns the state after one more byte, which leads
    /// to the given node, or `None` to skip everything with that prefix; `found` gets each token that is reached, and
    /// the state after it.
    pub(crate) fn walk<S: Copy>(
        &self,
        start: S,
        enter: impl FnMut(S, u8, u32) -> Option<S>,
        found: impl FnMut(TokenId, S),
    ) {
        self.walk_range(0..self.nodes.len() - 1, 0, &mut [start; MAX_DEPTH + 1], enter, found);
    }

    /// The remainders of the tokens below some nodes, as a tree of their own.
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

    /// Calls `each` with a node and all nodes below it, in the order of the tree, with their depth below the first and
    /// their bytes.
    pub(crate) fn each_at_and_below(&self, first: u32, mut each: impl FnMut(u32, usize, u8)) {
        let root = &self.nodes[first as usize];
        for at in first..root.skip {
            let node = &self.nodes[at as usize];
            each(at, node.depth() - root.depth(), node.byte());
        }
    }

    /// The number of bytes that the tree takes.
    pub(crate) fn bytes_held(&self) -> usize {
        size_of_val(&self.nodes[..]) + size_of_val(&self.tokens[..])
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

    /// The bytes of a node.
    pub(crate) fn bytes(&self, node: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.nodes[node as usize].depth() + 1);
        let mut at = 0;
        while at <= node {
            let Node { skip, .. } = self.nodes[at as usize];
            if node < skip {
                bytes.push(self.nodes[at as usize].byte());
                at += 1;
            } else {
                at = skip;
            }
        }
        bytes
    }

    /// Reports the length of each token that is a prefix of some bytes.
    pub(crate) fn beginnings(&self, bytes: &[u8], mut found: impl FnMut(usize)) {
        let mut last = 0;
        let along = |depth: usize, byte, _| (bytes.get(depth) == Some(&byte)).then_some(depth + 1);
        self.walk(0, along, |_, length| {
            if std::mem::replace(&mut last, length) != length {
                found(length);
            }
        });
    }

    /// The tokens that begin with the bytes of a node; those that end at the node come first.
    pub(crate) fn tokens_below(&self, node: u32) -> &[TokenId] {
        let (first, skip) = (self.nodes[node as usize].first, self.nodes[node as usize].skip);
        &self.tokens[first as usize..self.nodes[skip as usize].first as usize]
    }

    /// The tokens that end at a node.
    pub(crate) fn tokens_at(&self, node: u32) -> &[TokenId] {
        let (first, after) = (self.nodes[node as usize].first, self.nodes[node as usize + 1].first);
        &self.tokens[first as usize..after as usize]
    }

    /// The number of nodes below a node.
    pub(crate) fn size(&self, node: u32) -> u32 {
        self.nodes[node as usize].skip - node - 1
    }

    /// Whether some token continues after a node.
    pub(crate) fn goes_on(&self, node: u32) -> bool {
        self.nodes[node as usize].skip > node + 1
    }

    /// Walks everything below some nodes.
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
