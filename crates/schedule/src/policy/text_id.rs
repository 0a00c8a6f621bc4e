//! The id of a text.

/// The id of a text. Ids are given in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(u64);

impl TextId {
    /// The id of the text with this number in the order of arrival.
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }
}
