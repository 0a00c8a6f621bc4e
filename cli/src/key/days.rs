//! The period in which a ring writes with a key, in words.

use verdigris::watermark::Period;

/// `2026-01-01 to open`.
pub(super) fn days(period: Period) -> String {
    let day = |day: Option<jiff::civil::Date>| day.map_or("open".into(), |day| day.to_string());
    format!("{} to {}", day(period.from()), day(period.until()))
}
