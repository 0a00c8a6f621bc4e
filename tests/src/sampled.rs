//! The cases that a suite takes, if it takes some of them: in CI the commit chooses which.
#![allow(unreachable_pub, reason = "other packages include this file")]

/// `VERDIGRIS_SEED`, which chooses the cases; `None` takes all of them.
///
/// # Panics
/// If it is not a number below 2^28.
pub fn seed() -> Option<usize> {
    let seed = std::env::var("VERDIGRIS_SEED").ok()?.parse().expect("VERDIGRIS_SEED is a number");
    assert!(seed < 1 << 28, "VERDIGRIS_SEED is below 2^28");
    Some(seed)
}

/// All cases or, if there is a seed, every `nth` from one that it chooses.
pub fn sampled<T>(cases: impl IntoIterator<Item = T>, nth: usize) -> impl Iterator<Item = T> {
    let (skipped, step) = seed().map_or((0, 1), |seed| (seed % nth, nth));
    cases.into_iter().skip(skipped).step_by(step)
}
