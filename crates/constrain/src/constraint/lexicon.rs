//! The tokens that texts consist of, shared by all constraints on one model.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;

use crate::grammar::Grammar;
use crate::machine::index::TokenIndex;

/// A tokenizer, the index of its vocabulary, and the tokens that end a text. Make it once; clones share the data.
#[doc(alias = "TokEnv")]
#[doc(alias = "TokenizerInfo")]
#[derive(Clone, Debug)]
pub struct Lexicon {
    tokenizer: Arc<Tokenizer>,
    index: Arc<TokenIndex>,
    end: Arc<[TokenId]>,
}

impl Lexicon {
    /// Creates the lexicon of a tokenizer; `end` lists the tokens that end a text.
    pub fn new(tokenizer: Arc<Tokenizer>, end: &[TokenId]) -> Self {
        let index = Arc::new(TokenIndex::new(tokenizer.vocabulary()));
        Self { tokenizer, index, end: end.into() }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The index that all machines over the vocabulary share.
    pub fn index(&self) -> &Arc<TokenIndex> {
        &self.index
    }

    /// The first control token of a grammar that the tokenizer does not have, by name. Texts with it cannot be written,
    /// so a caller should refuse such a grammar.
    pub fn missing_control<'g>(&self, grammar: &'g Grammar) -> Option<&'g str> {
        let is_control = |name: &str| self.tokenizer.id(name).and_then(|id| self.tokenizer.vocabulary().control(id));
        grammar.controls().find(|name| is_control(name).is_none())
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[TokenId] {
        &self.end
    }

    /// The bytes that represent a token in a grammar: see
    /// [`Vocabulary::spelling`](verdigris_text::Vocabulary::spelling).
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        self.tokenizer.vocabulary().spelling(token)
    }
}
