//! The remainders of tokens that begin with some characters and continue with another ASCII character.
//!
//! The same may follow any name, and tokens with the same remainder, such as `foo();` and
//! `bar();`, are treated alike. So each remainder is walked once, not once for each token.

use super::tree::Tree;

/// The nodes of a tree at which remainders are, with the number of characters before each remainder.
#[derive(Debug)]
pub(crate) struct Remainders {
    /// The remainders, whose ids are indices into `nodes`.
    pub(crate) tree: Tree,
    nodes: Vec<(u32, u32)>,
}

impl Remainders {
    /// The remainders that begin with the last byte of some nodes, each with the number of characters before it.
    pub(crate) fn new(all: &Tree, begun: impl Iterator<Item = (u32, u32)>) -> Self {
        let (mut bytes, mut found, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        for (first, count) in begun {
            let mut path = Vec::new();
            all.each_at_and_below(first, |node, depth, byte| {
                path.truncate(depth);
                path.push(byte);
                found.push((bytes.len(), bytes.len() + path.len(), nodes.len() as u32));
                bytes.extend_from_slice(&path);
                nodes.push((node, count));
            });
        }
        found.sort_unstable_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]).then(a.2.cmp(&b.2)));
        let tree = Tree::new(found.iter().map(|&(from, to, index)| (&bytes[from..to], index)));
        Self { tree, nodes }
    }

    /// The node with an index, if at most `most` characters are before its remainder.
    pub(crate) fn node(&self, index: u32, most: u32) -> Option<u32> {
        let (node, count) = self.nodes[index as usize];
        (count <= most).then_some(node)
    }

    /// The approximate number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.bytes_held() + size_of_val(&self.nodes[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_with_the_same_remainder_are_together() {
        let tokens: [&[u8]; 6] = [b"a(", b"a()", b"ab(", b"ab(x", b"b", b"b;"];
        let all = Tree::new(tokens.iter().zip(0..).map(|(bytes, token)| (*bytes, token)));
        let begun = [("a(", 1), ("ab(", 2), ("b;", 1)];
        let begun = begun.map(|(bytes, count)| (all.node(bytes.as_bytes()).unwrap(), count));
        let remainders = Remainders::new(&all, begun.into_iter());
        let of = |bytes: &str, most: u32| -> Vec<Vec<u8>> {
            let Some(at) = remainders.tree.node(bytes.as_bytes()) else { return Vec::new() };
            let indices = remainders.tree.tokens_at(at).iter();
            indices.filter_map(|&index| Some(all.bytes(remainders.node(index, most)?))).collect()
        };
        assert_eq!(of("(", 2), [b"a(".to_vec(), b"ab(".to_vec()]);
        assert_eq!(of("(", 1), [b"a(".to_vec()]);
        assert_eq!([of("()", 2), of("(x", 2), of(";", 2)], [[b"a()".to_vec()], [b"ab(x".to_vec()], [b"b;".to_vec()]]);
        assert!(of("b", 2).is_empty() && of("(x", 1).is_empty());
    }
}
