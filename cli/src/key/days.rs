//! The days on which a ring writes with a key.

use jiff::civil::Date;
use verdigris::watermark::Period;

/// `2026-01-01 to open`.
pub(super) fn days(period: Period) -> String {
    let day = |day: Option<Date>| day.map_or("open".into(), |day| day.to_string());
    format!("{} to {}", day(period.from()), day(period.until()))
}

/// The day in UTC, by which rings choose their keys.
pub(crate) fn today() -> Date {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date()
}
