//! How far a conversion is.

use indicatif::{ProgressBar, ProgressStyle};

pub(super) fn progress() -> ProgressBar {
    let template = "{bar:32.green/dim} {percent:>3} %, {eta} left";
    ProgressBar::new(0).with_style(ProgressStyle::with_template(template).expect("a valid template"))
}
