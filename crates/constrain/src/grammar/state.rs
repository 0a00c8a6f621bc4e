//! How far an object or an array is written.

/// A point in an object or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    Object { state: ObjectState, phase: Phase },
    Array { state: ArrayState, phase: Phase },
}

/// What was written last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// After the opening bracket.
    First,
    /// After a value.
    Later,
    /// Before a name.
    Name,
}

/// How far an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ObjectState {
    pub(super) shape: u32,
    /// Properties that cannot come any more.
    pub(super) passed: u32,
    /// Those that are there, where that matters.
    pub(super) present: u32,
    /// How many properties there are, where that is bounded from above.
    pub(super) count: u32,
    /// How many different ones there are, where that is bounded from below, up to that bound.
    pub(super) certain: u32,
    /// The names so far that the schema does not give, by the number of their set, until there are enough; and whether
    /// there is one more, which is not known yet.
    pub(super) seen: u32,
    pub(super) pending: bool,
    /// The demands that have been met of those that some property must meet.
    pub(super) met: u32,
}

/// How far an array is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArrayState {
    pub(super) shape: u32,
    /// How many items there are, as far as that matters.
    pub(super) index: u32,
    /// How many of them are of the kinds that are counted: a digit for each.
    pub(super) matched: u32,
    /// The items so far, where all are different, by the number of their set; and whether there is one more, which is
    /// not known yet.
    pub(super) seen: u32,
    pub(super) pending: bool,
}

impl ObjectState {
    /// Just inside an object of a shape; `no_properties` and `nothing_seen` are the numbers of the empty sets.
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
    /// Just inside an array of a shape; `nothing_seen` is the number of the empty set.
    pub(super) fn start(shape: u32, nothing_seen: u32) -> Self {
        Self { shape, index: 0, matched: 0, seen: nothing_seen, pending: false }
    }
}
