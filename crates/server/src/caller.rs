//! Who asks, and what is told of the request once it has been answered.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;

use crate::access::Rights;
use crate::audit::Entry;

/// The header with the name of a request, in both directions.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// The longest name of a request that is taken from who asks.
const LONGEST_ID: usize = 128;

/// Who asks, and for what: known to every address.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name of the API key; empty where everybody may ask.
    pub(crate) tenant: Arc<str>,
    pub(crate) rights: Rights,
    pub(crate) request_id: Arc<str>,
    /// The address, as it stands in the list of addresses.
    pub(crate) route: Arc<str>,
    pub(crate) report: Report,
}

/// What came of a request, for the log: it is filled in while the request is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report(Arc<Mutex<Option<Entry>>>);

impl Report {
    /// Keeps what was put on record.
    pub(crate) fn fill(&self, entry: Entry) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
    }

    /// What was put on record, if anything was.
    pub(crate) fn take(&self) -> Option<Entry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The name of a request: the one that it brings, if that can stand in a log as it is, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let is_plain = |id: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(&byte);
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
    };
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_plain);
    given.map_or_else(|| format!("req-{}", random()).into(), Into::into)
}

/// Twelve random bytes in hexadecimal digits.
pub(crate) fn random() -> String {
    let mut random = [0; 12];
    // Names need not be secret: where the system has no random numbers, the time tells them apart.
    if getrandom::fill(&mut random).is_err() {
        random[..8].copy_from_slice(&(jiff::Timestamp::now().as_nanosecond() as u64).to_le_bytes());
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_requests_are_taken_where_they_are_plain() {
        let of = |id: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, axum::http::HeaderValue::from_bytes(id).unwrap());
            request_id(&headers)
        };
        assert_eq!(&*of(b"0af7651916cd43dd-8448:eb211c80319c"), "0af7651916cd43dd-8448:eb211c80319c");
        let bad: [&[u8]; 5] = [b"", b"a b", "ä".as_bytes(), b"a\"}", &[b'x'; 129]];
        for bad in bad {
            assert!(of(bad).starts_with("req-"), "{bad:?}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }
}
