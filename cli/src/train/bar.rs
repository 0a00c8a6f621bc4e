//! How far a run is.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of a thousand parts, or none that is seen.
pub(super) fn bar(quiet: bool) -> ProgressBar {
    let template = "{bar:30} {percent:>3} %  {elapsed} of about {duration}  {msg}";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    if quiet { ProgressBar::hidden() } else { ProgressBar::new(1000).with_style(style) }
}
