//! The remainders of tokens that end a string with any content.

use std::sync::Arc;

use crate::terminal::any_string::any_string;
use crate::terminal::escape::Escapes;
use crate::vocabulary::tree::Tree;
use crate::vocabulary::trie::Trie;

/// The remainders of tokens after the end of a string, by the number of characters of the string in the token.
#[derive(Debug)]
pub(super) struct Closings {
    pub(super) by_length: Vec<(u32, Arc<Tree>)>,
    pub(super) all: Arc<Tree>,
}

impl Closings {
    /// The remainders of tokens that begin before the opening quote, or inside the string.
    pub(super) fn new(trie: &Trie, open: bool, escapes: Escapes) -> Self {
        let most = 2 * trie.max_token_chars();
        let (text, state) = any_string(0, Some(most), open, escapes);
        let tree = if open { trie.all() } else { trie.rest() };
        let mut ends: Vec<(u32, u32)> = Vec::new();
        let step = |state, byte, node| {
            let next = text.next(state, byte)?;
            if text.accepts(next) && tree.goes_on(node) {
                let (left, _) = text.content.free_count(text.content_state(next)).expect("it allows anything");
                ends.push((most - left, node));
            }
            Some(next)
        };
        tree.walk(state, step, |_, _| ());
        ends.sort_unstable();
        let tree = |ends: &[(u32, u32)]| Arc::new(tree.ends_below(ends.iter().map(|&(_, node)| node)));
        let by_length = ends.chunk_by(|a, b| a.0 == b.0).map(|ends| (ends[0].0, tree(ends))).collect();
        Self { by_length, all: tree(&ends) }
    }
}
