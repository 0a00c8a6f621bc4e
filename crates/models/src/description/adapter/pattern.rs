//! The patterns in `adapter_config.json`.

use regex::{Regex, RegexBuilder};

/// The most memory of a pattern, in bytes.
const PATTERN_MEMORY: usize = 1 << 20;

/// The regular expression, if it is understood and small.
pub(super) fn pattern(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).size_limit(PATTERN_MEMORY).build().ok()
}
