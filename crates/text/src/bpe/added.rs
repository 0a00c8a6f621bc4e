//! Added tokens in a text: those that are read as one token wherever their names occur.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use verdigris_logits::TokenId;

use super::file::Added;

/// The added tokens of a tokenizer that are searched for together.
#[derive(Default)]
pub(super) struct AddedTokens {
    /// `None` if all are control tokens, which are not recognised in texts.
    names: Option<AhoCorasick>,
    /// The id of each name; `None` for a control token. Since names are found from left to right without overlaps, a
    /// control token may hide another token, though it is read as text.
    ids: Vec<Option<TokenId>>,
}

/// A part of a text.
pub(super) enum Piece {
    Text(Range<usize>),
    Added(TokenId, Range<usize>),
}

impl AddedTokens {
    /// Creates a search for tokens, which have different names and ids. `None` if some depend on the text around them.
    pub(super) fn new<'a>(all: impl Iterator<Item = &'a Added>) -> Option<Self> {
        let all: Vec<&Added> = all.filter(|added| !added.token.content.is_empty()).collect();
        if all.iter().all(|added| added.token.special) {
            return Some(Self::default());
        }
        let depends = |added: &&Added| added.token.single_word || added.token.lstrip || added.token.rstrip;
        if all.iter().filter(|added| !added.token.special).any(depends) {
            return None;
        }
        let names = all.iter().map(|added| &added.token.content);
        // The smallest kind of automaton: its size is that of the names, whatever they are.
        let mut builder = AhoCorasick::builder();
        builder.kind(Some(AhoCorasickKind::ContiguousNFA)).match_kind(MatchKind::LeftmostLongest);
        let names = builder.build(names).ok()?;
        let ids = all.iter().map(|added| (!added.token.special).then_some(added.id)).collect();
        Some(Self { names: Some(names), ids })
    }

    /// Splits a text at added tokens, and passes its parts to `each` in order.
    pub(super) fn split(&self, text: &str, mut each: impl FnMut(Piece)) {
        let mut done = 0;
        for found in self.names.iter().flat_map(|names| names.find_iter(text)) {
            let Some(id) = self.ids[found.pattern().as_usize()] else { continue };
            if done < found.start() {
                each(Piece::Text(done..found.start()));
            }
            each(Piece::Added(id, found.range()));
            done = found.end();
        }
        if done < text.len() {
            each(Piece::Text(done..text.len()));
        }
    }
}
