//! The progress of a run.

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar with a thousand steps, hidden if `quiet`.
pub(super) fn bar(quiet: bool) -> ProgressBar {
    let template = "{bar:30} {percent:>3} %  {elapsed} of about {duration}  {msg}";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    if quiet { ProgressBar::hidden() } else { ProgressBar::new(1000).with_style(style) }
}
