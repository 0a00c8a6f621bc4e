//! What a search for segments needs of a language.

/// A language of segments, which are read byte by byte.
///
/// # Contract
/// States are numbers, and every state has a way to the end of the segment.
pub(crate) trait Language {
    /// The state before any byte.
    fn start(&self) -> u32;
    /// The state after one more byte, if any segment continues with it.
    fn next(&self, state: u32, byte: u8) -> Option<u32>;
    /// Whether the segment so far is complete.
    fn accepts(&self, state: u32) -> bool;
    /// Whether the segment so far can continue.
    fn goes_on(&self, state: u32) -> bool;
    /// The fewest bytes that complete the segment.
    fn to_end(&self, state: u32) -> u64;
    /// An upper bound on the bytes to the end from any state.
    fn farthest(&self) -> u64;
}
