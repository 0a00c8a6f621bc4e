//! Work on all cores, or on one core without the feature `parallel` (as in browsers).

/// Maps each item with `work`, in order, or returns one of its errors.
///
/// # Errors
/// Those of `work`.
#[cfg(feature = "parallel")]
pub fn try_map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync + Send,
) -> Result<Vec<R>, E> {
    use rayon::prelude::*;
    items.par_iter().map(work).collect()
}

/// Maps each item with `work`, in order, or returns the first of its errors.
///
/// # Errors
/// Those of `work`.
#[cfg(not(feature = "parallel"))]
pub fn try_map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync + Send,
) -> Result<Vec<R>, E> {
    items.iter().map(work).collect()
}
