//! Positions inside objects and arrays.

/// A position in an object or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Object { state: ObjectState, phase: Phase },
    Array { state: ArrayState, phase: Phase },
}

/// The last part that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// After the opening bracket.
    First,
    /// After a value.
    Later,
    /// Before a name.
    Name,
}

/// The progress in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectState {
    pub(super) shape: u32,
    /// The properties that cannot come any more, as the number of a set.
    pub(super) passed: u32,
    /// The properties that are present, if that matters.
    pub(super) present: u32,
    /// The number of properties, if there is an upper bound.
    pub(super) count: u32,
    /// The number of distinct properties, if there is a lower bound, capped at it.
    pub(super) certain: u32,
    /// The names so far that the schema does not list, as the number of a set, until there are enough; and whether one
    /// more came that is not known yet.
    pub(super) seen: u32,
    pub(super) pending: bool,
    /// The conditions met, of those that some property must meet.
    pub(super) met: u32,
}

/// The progress in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArrayState {
    pub(super) shape: u32,
    /// The number of items, as far as it matters.
    pub(super) index: u32,
    /// The number of items of each counted kind, one digit each.
    pub(super) matched: u32,
    /// The items so far, if all must differ, as the number of a set; and whether one more came that is not known yet.
    pub(super) seen: u32,
    pub(super) pending: bool,
}

impl ObjectState {
    /// The position just inside an object; `no_properties` and `nothing_seen` are the numbers of the empty sets.
    pub(super) fn start(shape: u32, no_properties: u32, nothing_seen: u32) -> Self {
        Self {
            shape,
            passed: no_properties,
            present: no_properties,
            count: 0,
            certain: 0,
            seen: nothing_seen,
            pending: false,
            met: 0,
        }
    }
}

impl ArrayState {
    /// The position just inside an array; `nothing_seen` is the number of the empty set.
    pub(super) fn start(shape: u32, nothing_seen: u32) -> Self {
        Self { shape, index: 0, matched: 0, seen: nothing_seen, pending: false }
    }
}
