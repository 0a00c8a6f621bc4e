//! The client of a request, and the report on the request for the log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;

use crate::access::Rights;
use crate::audit::Entry;
use crate::protocol::unknown::Unknown;

/// The header with the id of a request, in requests and answers.
pub(crate) const REQUEST_ID: &str = "x-request-id";

/// The maximum length of an id that a client may choose.
const LONGEST_ID: usize = 128;

/// The client of a request and its target, available to every handler.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The name of the API key; empty if none is required.
    pub(crate) tenant: Arc<str>,
    pub(crate) rights: Rights,
    pub(crate) request_id: Arc<str>,
    /// The pattern of the address in the router.
    pub(crate) route: Arc<str>,
    pub(crate) report: Report,
    /// The policy for unknown fields of the request.
    pub(crate) unknown: Unknown,
}

/// The part of a log line that is filled in while the request is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report(Arc<Mutex<Reported>>);

#[derive(Debug, Default)]
pub(crate) struct Reported {
    /// The audit entry.
    pub(crate) entry: Option<Entry>,
    /// The code of the error that a stream ended with.
    pub(crate) failed: Option<&'static str>,
}

impl Report {
    /// Stores the audit entry.
    pub(crate) fn fill(&self, entry: Entry) {
        self.lock().entry = Some(entry);
    }

    /// Stores the code of the error that a stream ends with.
    pub(crate) fn fail(&self, code: &'static str) {
        self.lock().failed = Some(code);
    }

    /// Takes all of it.
    pub(crate) fn take(&self) -> Reported {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Reported> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The id of a request: its own, if it can be logged unchanged, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> Arc<str> {
    let is_plain = |id: &&str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+/=".contains(&byte);
        (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(plain)
    };
    let given = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).filter(is_plain);
    let new = || random::<12>().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    given.map_or_else(|| format!("req-{}", new()).into(), Into::into)
}

/// Random bytes for names.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut random = [0; N];
    // Names need not be secret: if the system has no random numbers, the time distinguishes them.
    if getrandom::fill(&mut random).is_err() {
        let time = jiff::Timestamp::now().as_nanosecond().to_le_bytes();
        random.iter_mut().zip(time).for_each(|(random, time)| *random = time);
    }
    random
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
