//! A record of the texts that a model wrote, without the texts: fingerprints, digests, keys and times, in a SQLite
//! file.
//!
//! | module | contents |
//! |---|---|
//! | `words` | the words of a text, as fingerprints take them |
//! | `minhash` | signatures, from which the similarity of two texts is estimated |
//! | `fingerprint` | the digest of a text, its sequences of words, their sample and their signature |
//! | `entry` | entries, and the entries that match a text |
//! | `file` | the file: its tables and version, and how it is opened |
//! | `ledger` | additions, look-ups and retention |
//! | `error` | errors |
//!
//! A look-up is not a mark: an entry says that the keeper of the file recorded a text like this one.
#![forbid(unsafe_code)]

mod entry;
mod error;
mod file;
mod fingerprint;
mod ledger;
mod minhash;
mod words;

// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use entry::{Entry, Match, NewEntry};
pub use error::LedgerError;
pub use fingerprint::Fingerprint;
pub use ledger::Ledger;
pub use words::words;
