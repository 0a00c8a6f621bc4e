//! Progress bars.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of the given length, hidden if `quiet`.
pub(crate) fn bar(length: u64, template: &str, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    ProgressBar::new(length).with_style(ProgressStyle::with_template(template).expect("a valid template"))
}

/// A bar over the texts of a measurement.
pub(crate) fn of_texts(texts: u64) -> ProgressBar {
    bar(texts, "{bar:40} {pos} of {len} texts, {eta} left", false)
}

/// A bar over the bytes of a conversion, whose number is not known yet.
pub(crate) fn of_conversion() -> ProgressBar {
    bar(0, "{bar:32.green/dim} {percent:>3} %, {eta} left", false)
}

/// A bar with a thousand steps, for training.
#[cfg(feature = "train")]
pub(crate) fn of_training(quiet: bool) -> ProgressBar {
    bar(1000, "{bar:30} {percent:>3} %  {elapsed} of about {duration}  {msg}", quiet)
}
