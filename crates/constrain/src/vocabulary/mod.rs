//! A vocabulary as a tree of bytes, and what its tokens are made of.

pub(crate) mod loops;
pub mod trie;
