//! The tokens that texts are written with, as all constraints on one model share them.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;

use crate::vocabulary::trie::Trie;

/// A tokenizer, its vocabulary as a tree, and the tokens that end a text. It is made once; clones are the same one.
#[derive(Clone, Debug)]
pub struct Lexicon {
    tokenizer: Arc<Tokenizer>,
    trie: Arc<Trie>,
    end: Arc<[TokenId]>,
}

impl Lexicon {
    /// The lexicon of a tokenizer; `end` are the tokens that end a text.
    pub fn new(tokenizer: Arc<Tokenizer>, end: &[TokenId]) -> Self {
        let trie = Arc::new(Trie::new(tokenizer.vocabulary()));
        Self { tokenizer, trie, end: end.into() }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The vocabulary as a tree.
    pub fn trie(&self) -> &Arc<Trie> {
        &self.trie
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[TokenId] {
        &self.end
    }

    /// What a token writes.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        self.tokenizer.vocabulary().bytes(token)
    }
}
