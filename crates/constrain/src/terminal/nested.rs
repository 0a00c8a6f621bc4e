//! Whole values that are read as one segment, including nested parts.

use std::fmt;

use crate::byte_set::has_byte;

/// A language of whole values.
///
/// Its implementation keeps a stack and therefore depends on terminals, which get it as a trait object.
///
/// # Contract
/// States are numbers, and each has a way to the end of a value.
pub(crate) trait Nested: fmt::Debug + Send + Sync {
    /// The state before any byte.
    fn start(&self) -> u32;
    /// The state after one more byte, if any value continues with it.
    fn next(&self, state: u32, byte: u8) -> Option<u32>;
    /// The bytes that may come next.
    fn first(&self, state: u32) -> [u64; 4];
    /// Whether the value is complete.
    fn accepts(&self, state: u32) -> bool;
    /// Whether the value can continue.
    fn goes_on(&self, state: u32) -> bool;
    /// The fewest bytes that complete the value.
    fn to_end(&self, state: u32) -> u64;
    /// The approximate number of bytes used.
    fn bytes(&self) -> usize;
}

impl dyn Nested + '_ {
    /// The bytes that may come next, each with the state after it.
    pub(crate) fn ways(&self, state: u32) -> impl Iterator<Item = (u8, u32)> + '_ {
        let first = self.first(state);
        let may_come = move |byte: &u8| has_byte(&first, *byte);
        (0..=u8::MAX).filter(may_come).filter_map(move |byte| Some((byte, self.next(state, byte)?)))
    }
}
