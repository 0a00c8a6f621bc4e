//! The names of tokens in a tokenizer's file, and their ids.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use verdigris_logits::TokenId;

/// A part of a word: a token, and the length in bytes of what it covers, in the characters of the names of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) id: TokenId,
    pub(super) length: u32,
}

/// The tokens of a model's vocabulary: names and ids, each name once.
#[derive(Default)]
pub(super) struct Names {
    /// All names, concatenated.
    text: String,
    /// The tokens in the order of the file.
    tokens: Vec<Token>,
    /// The same, by the hashes of their names.
    table: HashTable<Token>,
}

#[derive(Clone, Copy)]
struct Token {
    start: u32,
    end: u32,
    id: TokenId,
}

impl Token {
    fn name(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

impl Names {
    /// No tokens, with room for a number of them.
    pub(super) fn with_capacity(tokens: usize) -> Self {
        Self {
            text: String::with_capacity(8 * tokens),
            tokens: Vec::with_capacity(tokens),
            table: HashTable::with_capacity(tokens),
        }
    }

    /// Adds a token; `None` if there is one with this name, or if the names are too long together.
    pub(super) fn push(&mut self, name: &str, id: TokenId) -> Option<()> {
        let Self { text, tokens, table } = self;
        let entry = table.entry(hash(name), |other| other.name(text) == name, |token| hash(token.name(text)));
        let Entry::Vacant(entry) = entry else { return None };
        let (start, end) = (text.len() as u32, u32::try_from(text.len() + name.len()).ok()?);
        let token = Token { start, end, id };
        entry.insert(token);
        text.push_str(name);
        tokens.push(token);
        Some(())
    }

    /// The id of a token.
    pub(super) fn id(&self, name: &str) -> Option<TokenId> {
        Some(self.table.find(hash(name), |token| token.name(&self.text) == name)?.id)
    }

    /// Like [`Names::id`], where the token is likely to be at `next` in the order of the file, which is set to the
    /// position after it. In most files tokens have the order of their merges.
    pub(super) fn id_in_order(&self, name: &str, next: &mut usize) -> Option<TokenId> {
        if let Some(token) = self.tokens.get(*next).filter(|token| token.name(&self.text) == name) {
            *next += 1;
            return Some(token.id);
        }
        let id = self.id(name)?;
        // In most files ids are positions.
        *next = id as usize + 1;
        Some(id)
    }

    /// The token that is a whole word, given by the characters of its name, for which `name` is a buffer.
    pub(super) fn whole(&self, characters: impl Iterator<Item = char>, name: &mut String) -> Option<Part> {
        name.clear();
        name.extend(characters);
        Some(Part { id: self.id(name)?, length: name.len() as u32 })
    }

    /// The name of the token at a position in the order of the file.
    pub(super) fn name(&self, position: u32) -> &str {
        self.tokens[position as usize].name(&self.text)
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Iterates over all ids and names, in the order of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TokenId, &str)> {
        self.tokens.iter().map(|token| (token.id, token.name(&self.text)))
    }
}

fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}
