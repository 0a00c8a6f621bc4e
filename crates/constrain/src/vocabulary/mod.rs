//! A vocabulary as a tree of bytes, and what its tokens consist of.

pub(crate) mod character_set;
pub(crate) mod class_tokens;
mod remainders;
pub(crate) mod tree;
pub(crate) mod trie;
