//! What a text does at each point of a grammar.

/// The number of a step.
pub(crate) type At = u32;

/// The number of a rule.
pub(crate) type Rule = u32;

/// The end of a rule, which is one step for all of them.
pub(crate) const RETURN: At = 0;

/// No number of bytes leads to the end.
pub(crate) const NO_END: u64 = u64::MAX;

/// What a text does at a point.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// It goes on with something that a terminal accepts.
    Read { terminal: u32, next: At },
    /// It goes on with something that a rule describes.
    Call { rule: Rule, next: At },
    /// It goes on in any of these ways.
    Fork(Vec<At>),
    /// The rule is at its end.
    Return,
    /// It is just inside an object or an array; its steps are made when a text comes there
    /// ([`super::unfold`]).
    Inside(Container),
    /// Made while texts are written: it is somewhere in an object or an array, and the steps from there are not made
    /// yet.
    Unmade { state: u32 },
    /// Made while texts are written: it goes on with a name or an item that a terminal accepts, and what follows
    /// depends on which it is: the state in the object or array says.
    Name { terminal: u32, state: u32 },
}

/// An object or an array, by the number of its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Container {
    Object(u32),
    Array(u32),
}

/// The bytes of some parts of a way to the end, of which none may be there.
pub(super) fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}
