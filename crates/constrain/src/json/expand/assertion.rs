//! What one keyword says.

use crate::json::fault::Result;
use crate::json::flat::{Demand, Flat, Key, Types};

/// What is asked of the keywords of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// How to obey them alone.
    Obeyed,
    /// How to break each of them too.
    Broken,
    /// As before, by ways that overlap as little as can be said.
    BrokenApart,
}

/// What one keyword says.
pub(super) enum Assertion {
    /// The ways to obey it, and to break it; or the keyword, where breaking it cannot be said.
    Plain { holds: Vec<Flat>, broken: Result<Vec<Flat>, &'static str> },
    /// Another schema holds, or does not.
    Schema(Demand),
    /// One of these at least.
    Any(Vec<Key>),
    /// One of these and no more.
    One(Vec<Key>),
    /// If the first holds, the second must, else the third.
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
