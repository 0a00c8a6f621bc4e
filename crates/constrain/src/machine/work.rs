//! How much work one mask may be: counted, so that the answer is the same on every machine.

/// What there is for one mask: some tens of milliseconds' worth. A walk along a whole vocabulary of 150,000 tokens
/// looks at half a million nodes.
const WORK: u64 = 1 << 22;

/// What a step costs that may make a state of the grammar; one inside a segment costs 1.
pub(super) const OUTSIDE: u64 = 8;

/// Work that is left for a mask. A unit is some ten nanoseconds.
#[derive(Debug)]
pub(super) struct Work {
    left: u64,
}

impl Work {
    /// All that there is for one mask.
    pub(super) fn of_a_mask() -> Self {
        Self { left: WORK }
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
}
