//! How far a scan is, on a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of as many documents as there are, where that is known. It has no colours, and is hidden where nobody looks.
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
