//! The number of tokens that a verdict needs.

use crate::error::Failure;

/// The false-positive rate of the tables.
pub(super) const LEVEL: f64 = 1e-5;

/// The step in tokens between the lengths at which a text is judged, to find the fewest tokens that are enough.
pub(super) const STEP: usize = 5;

/// The first of `lengths` at which a text is found; `None` if it is found at none of them.
pub(super) fn fewest(
    lengths: impl IntoIterator<Item = usize>,
    is_found: impl Fn(usize) -> Result<bool, Failure>,
) -> Result<Option<usize>, Failure> {
    for length in lengths {
        if is_found(length)? {
            return Ok(Some(length));
        }
    }
    Ok(None)
}

/// The number of tokens after which half of the texts are found; `None` if fewer are found, or without texts.
pub(super) fn half(mut fewest: Vec<Option<usize>>) -> Option<usize> {
    fewest.sort_by_key(|fewest| fewest.unwrap_or(usize::MAX));
    fewest.get(fewest.len().saturating_sub(1) / 2).copied().flatten()
}
