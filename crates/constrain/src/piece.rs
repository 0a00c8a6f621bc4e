//! What a vocabulary does inside one piece of a text: which tokens stay in it, and where others leave it.
//!
//! That depends on the terminal and its state alone, and not on what surrounds the piece. So it is worked out once, and
//! the mask of a text is this and what the tokens that leave the piece do outside.

use std::sync::Arc;

use verdigris_logits::TokenSet;

use crate::terminal::Terminal;
use crate::trie::Trie;

/// The tokens that a terminal in some state allows.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Those that stay inside, or end just where the piece may end.
    pub(crate) tokens: Arc<TokenSet>,
    /// Where the piece may end inside longer tokens.
    pub(crate) exits: Vec<Exit>,
    /// Whether exits are nodes of the tree of tokens that are not plain.
    pub(crate) of_rest: bool,
}

/// A point inside tokens at which a piece may end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// A node of the tree.
    pub(crate) node: u32,
    /// The state of the terminal there.
    pub(crate) inner: u32,
}

/// A string in which anything may stand, where so many characters may come at most, and so many are missing; both
/// counted only as far as a token reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Free {
    pub(crate) most: u32,
    pub(crate) missing: u32,
}

impl Piece {
    pub(crate) fn new(trie: &Trie, terminal: &Terminal, inner: u32) -> Self {
        let (mut tokens, of_rest) = match terminal.free(inner) {
            Some(characters) => (trie.plain(characters).clone(), true),
            None => (TokenSet::new(trie.vocabulary_size()), false),
        };
        let tree = if of_rest { trie.rest() } else { trie.all() };
        let mut exits = Vec::new();
        let step = |inner, byte, node| {
            let next = terminal.next(inner, byte)?;
            if terminal.accepts(next) && tree.goes_on(node) {
                exits.push(Exit { node, inner: next });
            }
            Some(next)
        };
        tree.walk(inner, step, |token, _| tokens.insert(token));
        Self { tokens: Arc::new(tokens), exits, of_rest }
    }
}
