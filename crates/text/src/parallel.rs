//! Work on all cores where there are some, and one after the other where a browser gives one (without the feature
//! `parallel`).

/// What `work` makes of each item, in their order, or one of its errors.
///
/// # Errors
/// As `work`.
#[cfg(feature = "parallel")]
pub fn try_map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync + Send,
) -> Result<Vec<R>, E> {
    use rayon::prelude::*;
    items.par_iter().map(work).collect()
}

/// What `work` makes of each item, in their order, or the first of its errors.
///
/// # Errors
/// As `work`.
#[cfg(not(feature = "parallel"))]
pub fn try_map<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, E> + Sync + Send,
) -> Result<Vec<R>, E> {
    items.iter().map(work).collect()
}
