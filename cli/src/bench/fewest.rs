//! How many tokens a verdict takes.

use crate::error::Failure;

/// The false-positive rate of the tables.
pub(super) const LEVEL: f64 = 1e-5;

/// Texts are judged after so many more tokens, to find the fewest that do.
pub(super) const STEP: usize = 5;

/// The first of some lengths after which a text is found; none where none is enough.
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

/// After how many tokens half of some texts are found; none where fewer are found, or there are no texts.
pub(super) fn half(mut fewest: Vec<Option<usize>>) -> Option<usize> {
    fewest.sort_by_key(|fewest| fewest.unwrap_or(usize::MAX));
    fewest.get(fewest.len().saturating_sub(1) / 2).copied().flatten()
}
