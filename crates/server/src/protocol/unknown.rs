//! Fields of a request that this server does not know: ignored and reported, or refused.

use std::sync::{Arc, Mutex, PoisonError};

/// The maximum number of names that are reported, and the maximum length of each.
const NAMES: usize = 16;
const LONGEST: usize = 64;

/// The policy for unknown fields of a request, and the names of those that were ignored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unknown(Option<Arc<Mutex<Ignored>>>);

#[derive(Debug, Default)]
struct Ignored {
    names: Vec<String>,
    /// The number of further fields.
    more: usize,
}

impl Unknown {
    /// Unknown fields are refused.
    pub(crate) fn refused() -> Self {
        Self(None)
    }

    /// Unknown fields are ignored and reported.
    pub(crate) fn ignored() -> Self {
        Self(Some(Arc::default()))
    }

    /// Notes an unknown field; `false` if it is to be refused.
    pub(crate) fn accepts(&self, path: &str) -> bool {
        let Some(ignored) = &self.0 else { return false };
        let mut ignored = ignored.lock().unwrap_or_else(PoisonError::into_inner);
        if ignored.names.len() < NAMES {
            ignored.names.push(plain(path));
        } else {
            ignored.more += 1;
        }
        true
    }

    /// The ignored fields in one line, for a header and the log; `None` if there are none.
    pub(crate) fn report(&self) -> Option<String> {
        let ignored = self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let more = (ignored.more > 0).then(|| format!("and {} more", ignored.more));
        let all: Vec<&str> = ignored.names.iter().chain(&more).map(String::as_str).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

/// A path that a client chose, with only the characters that cannot be mistaken for anything else in a header.
fn plain(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.[]".contains(c);
    path.chars().take(LONGEST).map(|c| if is_plain(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_reported_within_limits() {
        let unknown = Unknown::ignored();
        assert_eq!(unknown.report(), None);
        assert!(unknown.accepts("messages[0].weight") && unknown.accepts("a\r\nb: c, \u{e9}"));
        assert_eq!(unknown.clone().report().as_deref(), Some("messages[0].weight, a??b??c???"));
        (0..20).for_each(|_| assert!(unknown.accepts(&"x".repeat(1000))));
        let report = unknown.report().unwrap();
        assert!(report.len() < NAMES * (LONGEST + 2) && report.ends_with(", and 6 more"), "{report}");
        assert!(!Unknown::refused().accepts("a") && Unknown::refused().report().is_none());
    }
}
