//! The steps of a grammar.

/// The index of a step.
pub(crate) type StepIndex = u32;

/// The index of a rule.
pub(crate) type Rule = u32;

/// The end of a rule, a step that all rules share.
pub(crate) const RETURN: StepIndex = 0;

/// The distance of a step from which the end cannot be reached.
pub(crate) const NO_END: u64 = u64::MAX;

/// A step of a rule.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Read a segment that a terminal accepts.
    Read { terminal: u32, next: StepIndex },
    /// Read a text of another rule.
    Call { rule: Rule, next: StepIndex },
    /// Continue with any of these steps.
    Fork(Vec<StepIndex>),
    /// The end of the rule.
    Return,
    /// Just inside an object or an array; the steps from here are created when a text gets here ([`super::unfold`]).
    Inside(Container),
    /// Created while texts are written: a position in an object or an array whose steps have not been created yet.
    Unmade { state: u32 },
    /// Created while texts are written: read a name or an item that a terminal accepts; what follows depends on which
    /// one, and on the state in the object or array.
    Name { terminal: u32, state: u32 },
}

/// An object or an array, as the index of its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Container {
    Object(u32),
    Array(u32),
}

/// The sum of the bytes of several parts, [`NO_END`] if any of them is.
pub(super) fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}
