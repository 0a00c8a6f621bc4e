//! The tokens that texts are written with, as all constraints on one model share them.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;

use crate::machine::index::TokenIndex;

/// A tokenizer, the index of its vocabulary, and the tokens that end a text. It is made once; clones are the same one.
#[doc(alias = "TokEnv")]
#[doc(alias = "TokenizerInfo")]
#[derive(Clone, Debug)]
pub struct Lexicon {
    tokenizer: Arc<Tokenizer>,
    index: Arc<TokenIndex>,
    end: Arc<[TokenId]>,
}

impl Lexicon {
    /// The lexicon of a tokenizer; `end` are the tokens that end a text.
    pub fn new(tokenizer: Arc<Tokenizer>, end: &[TokenId]) -> Self {
        let index = Arc::new(TokenIndex::new(tokenizer.vocabulary()));
        Self { tokenizer, index, end: end.into() }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What all machines over the vocabulary share.
    pub fn index(&self) -> &Arc<TokenIndex> {
        &self.index
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[TokenId] {
        &self.end
    }

    /// The bytes that a token writes.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        self.tokenizer.vocabulary().bytes(token)
    }
}
