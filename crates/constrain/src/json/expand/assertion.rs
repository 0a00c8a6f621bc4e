//! The meaning of one keyword.

use crate::json::fault::Result;
use crate::json::flat::{Demand, Flat, Key, Types};

/// The use that is made of the keywords of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeywordUse {
    /// To obey them.
    Obeyed,
    /// Also to break each of them.
    Broken,
    /// Also to break each of them, in ways that overlap as little as possible.
    BrokenApart,
}

/// The meaning of one keyword.
pub(super) enum Assertion {
    /// The ways to obey it, and to break it; or the keyword, if breaking it is not supported.
    Plain { holds: Vec<Flat>, broken: Result<Vec<Flat>, &'static str> },
    /// Another schema must hold, or must not.
    Schema(Demand),
    /// At least one of these must hold.
    Any(Vec<Key>),
    /// Exactly one of these must hold.
    One(Vec<Key>),
    /// If the first holds, the second must hold, else the third.
    If(Demand, Key, Key),
}

impl Assertion {
    pub(super) fn plain(holds: Flat, broken: Flat) -> Self {
        Self::Plain { holds: vec![holds], broken: Ok(vec![broken]) }
    }

    pub(super) fn content(content: u32) -> Self {
        let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(Types::STRING));
        holds.strings.contents = vec![(content, true)];
        broken.strings.contents = vec![(content, false)];
        Self::plain(holds, broken)
    }
}
