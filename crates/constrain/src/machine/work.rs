//! How much work one mask may be: counted, so that the answer is the same on every machine, and whatever masks were
//! made before. What is known already is paid for as if it were made now; a part that comes again in a mask is paid for
//! once.

use foldhash::{HashSet, HashSetExt};

use super::run::Thread;

/// What there is for one mask: some tens of milliseconds' worth. A walk along a whole vocabulary of 150,000 tokens
/// looks at half a million nodes.
const WORK: u64 = 1 << 22;

/// What a step costs that may make a state of the grammar; one inside a segment costs 1.
pub(super) const OUTSIDE: u64 = 8;

/// A part of a mask that is kept for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// What the vocabulary does inside a segment: of a terminal, from one of its states on, and whether anything may
    /// follow.
    Slice(u32, u32, bool),
    /// How a tree of ends, by where it lies, goes on from a state.
    Ends(usize, u32),
    /// What a thread allows, beside its slices and ends.
    Thread(Thread),
}

/// Parts with the work that each takes to be made.
pub(super) type Costs = Vec<(Part, u64)>;

/// Work that is left for a mask. A unit is some ten nanoseconds.
#[derive(Debug)]
pub(super) struct Work {
    left: u64,
    /// The parts that have been paid for.
    paid: HashSet<Part>,
    making: Making,
}

/// What a thread that is being worked out is made of.
#[derive(Debug, Default)]
pub(super) struct Making {
    parts: Costs,
    /// What was left when it began, and what has been paid for its parts.
    left: u64,
    of_parts: u64,
}

impl Work {
    /// All that there is for one mask.
    pub(super) fn of_a_mask() -> Self {
        Self { left: WORK, paid: HashSet::new(), making: Making::default() }
    }

    /// What is left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes some units; false where so many are not left, and from then on.
    #[inline]
    pub(super) fn take(&mut self, units: u64) -> bool {
        self.left = self.left.saturating_sub(units);
        self.left > 0
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Nothing is left from here on.
    pub(super) fn spend(&mut self) {
        self.left = 0;
    }

    /// A part has been made, with all that was taken since so much was left.
    pub(super) fn made(&mut self, part: Part, left: u64) -> u64 {
        let cost = left - self.left;
        self.paid.insert(part);
        self.making.parts.push((part, cost));
        self.making.of_parts += cost;
        cost
    }

    /// Pays for parts that are known, but for those that have been paid for.
    pub(super) fn pay(&mut self, parts: &[(Part, u64)]) {
        for &(part, cost) in parts {
            self.making.parts.push((part, cost));
            if self.paid.insert(part) {
                let left = self.left;
                self.take(cost);
                self.making.of_parts += left - self.left;
            }
        }
    }

    /// Begins what a thread allows, inside what another one does; that is to be given back at the end.
    #[must_use]
    pub(super) fn begin(&mut self) -> Making {
        std::mem::replace(&mut self.making, Making { parts: Vec::new(), left: self.left, of_parts: 0 })
    }

    /// Ends what a thread allows: the costs of all its parts, and its own.
    pub(super) fn end(&mut self, thread: Thread, outer: Making) -> Costs {
        let Making { mut parts, left, of_parts } = std::mem::replace(&mut self.making, outer);
        let taken = left - self.left;
        parts.push((Part::Thread(thread), taken - of_parts));
        self.paid.insert(Part::Thread(thread));
        self.making.parts.extend_from_slice(&parts);
        self.making.of_parts += taken;
        parts
    }
}
