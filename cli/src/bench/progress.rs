//! The progress of a measurement.

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar over the given number of texts.
pub(super) fn progress(texts: u64) -> ProgressBar {
    ProgressBar::new(texts).with_style(
        ProgressStyle::with_template("{bar:40} {pos} of {len} texts, {eta} left").expect("a valid template"),
    )
}
