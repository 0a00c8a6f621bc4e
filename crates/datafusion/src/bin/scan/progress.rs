//! The progress of a scan on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a progress bar, with a length if the number of documents is known. It has no colours, and is hidden if
/// standard error is not a terminal.
pub(crate) fn progress(quiet: bool, documents: Option<u64>) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match documents {
        Some(documents) => (
            ProgressBar::new(documents),
            "{bar:32} {percent:>3} %, {human_pos} documents, {per_sec}, {elapsed} so far, {eta} left",
        ),
        None => (ProgressBar::no_length(), "{spinner} {human_pos} documents, {per_sec}, {elapsed} so far"),
    };
    let bar = bar.with_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
