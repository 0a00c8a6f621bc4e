//! The names of tokens in a tokenizer's file, and their ids.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use verdigris_logits::TokenId;

use std::hash::BuildHasher;

/// The tokens of a model's vocabulary: names and ids, each of them once.
#[derive(Default)]
pub(super) struct Names {
    /// All names, concatenated.
    text: String,
    /// The end of each name in `text`.
    ends: Vec<u32>,
    /// The id of each name.
    ids: Vec<TokenId>,
    /// Numbers of names, by their hashes.
    table: HashTable<u32>,
}

impl Names {
    /// Adds a token; `None` if there is one with this name, or if the names are too long together.
    pub(super) fn push(&mut self, name: &str, id: TokenId) -> Option<()> {
        let Self { text, ends, table, .. } = self;
        let number = u32::try_from(ends.len()).ok()?;
        let entry =
            table.entry(hash(name), |&other| *self_at(text, ends, other) == *name, |&n| hash(self_at(text, ends, n)));
        let Entry::Vacant(entry) = entry else { return None };
        let end = u32::try_from(text.len() + name.len()).ok()?;
        entry.insert(number);
        self.text.push_str(name);
        self.ends.push(end);
        self.ids.push(id);
        Some(())
    }

    /// The id of a token.
    pub(super) fn id(&self, name: &str) -> Option<TokenId> {
        let number = self.table.find(hash(name), |&number| self_at(&self.text, &self.ends, number) == name)?;
        Some(self.ids[*number as usize])
    }

    /// The number of tokens.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Iterates over all ids and names, in the order of the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TokenId, &str)> {
        self.ids.iter().enumerate().map(|(number, &id)| (id, self_at(&self.text, &self.ends, number as u32)))
    }
}

fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

fn self_at<'t>(text: &'t str, ends: &[u32], number: u32) -> &'t str {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &text[start as usize..ends[number] as usize]
}
