//! Limits the work of one mask. Work is counted, so that the result is the same on every machine, whatever masks were
//! computed before: cached parts are charged as if they were computed now, and each part is charged once per mask.

use foldhash::{HashSet, HashSetExt};

/// The budget of one mask, worth some tens of milliseconds. A walk along a vocabulary of 150,000 tokens visits half a
/// million nodes.
const WORK: u64 = 1 << 22;

/// The cost of a step that may create a state of the grammar; a step inside a segment costs 1.
pub(super) const OUTSIDE: u64 = 8;

/// The id of the ends of tokens: an address, and the most characters of a class.
pub(super) type EndsId = (usize, u32);

/// A part of a mask that is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MaskPart {
    /// The slice of a terminal in one of its states; and whether anything may follow.
    Slice(u32, u32, bool),
    /// The tokens of some ends that continue from a state.
    Ends(EndsId, u32),
    /// The tokens that a group of threads allows, without its slices and ends.
    Group(u32),
}

/// Parts, each with the work that it takes to compute.
pub(super) type Costs = Vec<(MaskPart, u64)>;

/// The work left for a mask, in units of about ten nanoseconds.
#[derive(Debug)]
pub(super) struct Work {
    left: u64,
    /// The parts that have been charged.
    paid: HashSet<MaskPart>,
    making: Making,
}

/// The parts of a group that is being computed.
#[derive(Debug, Default)]
pub(super) struct Making {
    parts: Costs,
    /// The work left at the beginning, and the work charged for parts.
    left: u64,
    of_parts: u64,
}

impl Work {
    /// The full budget of one mask.
    pub(super) fn of_a_mask() -> Self {
        Self { left: WORK, paid: HashSet::new(), making: Making::default() }
    }

    /// The work left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes some units; returns false if fewer are left, and from then on.
    #[inline]
    pub(super) fn take(&mut self, units: u64) -> bool {
        self.left = self.left.saturating_sub(units);
        self.left > 0
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Uses up everything that is left.
    pub(super) fn spend(&mut self) {
        self.left = 0;
    }

    /// Records that a part has been computed since `left` units were left; returns its cost.
    pub(super) fn made(&mut self, part: MaskPart, left: u64) -> u64 {
        let cost = left - self.left;
        self.paid.insert(part);
        self.making.parts.push((part, cost));
        self.making.of_parts += cost;
        cost
    }

    /// Charges for cached parts, except those that have been charged already.
    pub(super) fn pay(&mut self, parts: &[(MaskPart, u64)]) {
        for &(part, cost) in parts {
            self.making.parts.push((part, cost));
            if self.paid.insert(part) {
                let left = self.left;
                self.take(cost);
                self.making.of_parts += left - self.left;
            }
        }
    }

    /// Begins a group, possibly inside another one; the result must be passed to [`Work::end`].
    #[must_use]
    pub(super) fn begin(&mut self) -> Making {
        std::mem::replace(&mut self.making, Making { parts: Vec::new(), left: self.left, of_parts: 0 })
    }

    /// Ends a group: returns the costs of all its parts, and its own.
    pub(super) fn end(&mut self, group: u32, outer: Making) -> Costs {
        let Making { mut parts, left, of_parts } = std::mem::replace(&mut self.making, outer);
        let taken = left - self.left;
        parts.push((MaskPart::Group(group), taken - of_parts));
        self.paid.insert(MaskPart::Group(group));
        self.making.parts.extend_from_slice(&parts);
        self.making.of_parts += taken;
        parts
    }
}
