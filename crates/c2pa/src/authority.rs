//! Time-stamping authorities (RFC 3161), which state that a signature existed at a time.

use std::fmt;
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use c2pa::Context;
use c2pa::crypto::cose::CertificateTrustPolicy;
use c2pa::crypto::time_stamp::{TimeStampError, default_rfc3161_message, default_rfc3161_request, verify_time_stamp};
use c2pa::http::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use c2pa::http::http::{Request, Response, Uri};
use c2pa::http::{HttpResolverError, SyncHttpResolver};
use c2pa::status_tracker::StatusTracker;
use ureq::Agent;
use x509_parser::der_parser::parse_der;

use crate::error::{C2paError, line};
use crate::timestamp::is_for_time_stamps;

/// The maximum size of an answer in bytes.
const MAX_ANSWER: u64 = 1 << 20;
/// The maximum time for an answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// The media type of an answer.
const REPLY: &str = "application/timestamp-reply";

/// An authority that stamps signatures with the time.
pub struct TimeAuthority {
    url: String,
    /// Sends requests.
    context: Context,
    /// The size of the longest answer so far in bytes, which is a few bytes longer than its token; 0 before the first.
    longest: AtomicUsize,
}

impl fmt::Debug for TimeAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeAuthority").field("url", &self.url).finish_non_exhaustive()
    }
}

impl TimeAuthority {
    /// Takes the address of an authority. `token` is the expected size of its tokens in bytes; if it is 0, a first
    /// token is requested to find it out.
    ///
    /// # Errors
    /// [`C2paError::AuthorityUrl`] if it is not an address of HTTP or HTTPS.
    pub fn new(url: &str, token: usize) -> Result<Self, C2paError> {
        let bad = |why| C2paError::AuthorityUrl { url: line(url), why };
        let uri: Uri = url.parse().map_err(|_| bad("is not a URL"))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.host().is_some_and(|host| !host.is_empty()) => {}
            _ => return Err(bad("is not a URL of HTTP or HTTPS")),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            // It would appear in messages and in lists of processes.
            return Err(C2paError::AuthorityUrl { url: "the URL".into(), why: "has a user name or a password" });
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .build()
            .new_agent();
        let context = Context::new().with_resolver(Client(agent));
        Ok(Self { url: url.into(), context, longest: AtomicUsize::new(token) })
    }

    /// The size in bytes to expect of a token, that of the longest one so far.
    ///
    /// # Errors
    /// [`C2paError::Authority`] if none is known, and the authority does not give one.
    pub fn token_size(&self) -> Result<usize, C2paError> {
        if self.longest.load(Ordering::Relaxed) == 0 {
            let mut message = [0; 32];
            getrandom::fill(&mut message).map_err(|error| self.fault(format!("no random numbers: {error}")))?;
            self.stamp(&message)?;
        }
        Ok(self.longest.load(Ordering::Relaxed))
    }

    /// Requests a time stamp for a message, and checks that it is one for this message.
    ///
    /// # Errors
    /// [`C2paError::Authority`] if there is none.
    pub(crate) fn stamp(&self, message: &[u8]) -> Result<Vec<u8>, C2paError> {
        let asked = default_rfc3161_message(message).map_err(|error| self.fault(words(&error)))?;
        // This checks everything but the authority's certificate.
        let answer = default_rfc3161_request(&self.url, None, &asked, message, &self.context)
            .map_err(|error| self.fault(words(&error)))?;
        let (policy, mut log) = (CertificateTrustPolicy::passthrough(), StatusTracker::default());
        let is_allowed = verify_time_stamp(&answer, message, &policy, &mut log, true).is_ok();
        if !is_allowed || !is_for_time_stamps(&answer) {
            return Err(self.fault("its certificate is not one for time stamps".into()));
        }
        self.longest.fetch_max(answer.len(), Ordering::Relaxed);
        Ok(answer)
    }

    fn fault(&self, why: String) -> C2paError {
        C2paError::Authority { url: line(&self.url), why: line(&why) }
    }
}

/// Describes the reason why a time stamp is missing.
fn words(error: &TimeStampError) -> String {
    match error {
        TimeStampError::ExpiredCertificate => {
            "its certificate has expired, or is not valid yet, at the time that it states".into()
        }
        TimeStampError::InvalidData => "its time stamp is one for something else".into(),
        TimeStampError::Untrusted => "the signature of its time stamp is not intact".into(),
        TimeStampError::NonceMismatch => "its answer is to another request".into(),
        TimeStampError::UnsupportedAlgorithm => "its time stamp has an algorithm that is not supported".into(),
        TimeStampError::DecodeError(_) => "its answer cannot be read as a time stamp".into(),
        TimeStampError::HttpErrorResponse(200, None) => "its answer has no media type".into(),
        TimeStampError::HttpErrorResponse(200, Some(kind)) => {
            format!("its answer is {kind:?} and not a time stamp")
        }
        TimeStampError::HttpErrorResponse(status, _) => format!("it answered with HTTP status {status}"),
        TimeStampError::HttpResolverError(HttpResolverError::Other(error)) => error.to_string(),
        error => error.to_string(),
    }
}

/// The client, which reads answers of limited size in limited time.
struct Client(Agent);

impl SyncHttpResolver for Client {
    fn http_resolve(&self, request: Request<Vec<u8>>) -> Result<Response<Box<dyn Read>>, HttpResolverError> {
        let other = |error: ureq::Error| HttpResolverError::Other(Box::new(error));
        let (mut head, body) = self.0.run(request).map_err(other)?.into_parts();
        let answer = body.into_with_config().limit(MAX_ANSWER).read_to_vec().map_err(other)?;
        if let Some(why) = refusal(&answer) {
            return Err(HttpResolverError::Other(why.into()));
        }
        // The library reserves this without a limit.
        head.headers.remove(CONTENT_LENGTH);
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // The library does not accept parameters.
        if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(REPLY)) {
            head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(REPLY));
        }
        Ok(Response::from_parts(head, Box::new(Cursor::new(answer))))
    }
}

/// Describes an answer that refuses a request, with the authority's own words. The library cannot read all of these.
fn refusal(answer: &[u8]) -> Option<String> {
    let (_, answer) = parse_der(answer).ok()?;
    let status = answer.as_sequence().ok()?.first()?.as_sequence().ok()?;
    // 0 is granted, and 1 granted with changes.
    let code = status.first()?.as_u32().ok().filter(|code| *code > 1)?;
    let said = status.get(1).and_then(|said| said.as_sequence().ok()).into_iter().flatten();
    let said: Vec<&str> = said.filter_map(|said| said.as_str().ok()).collect();
    Some(format!("it refused the request (status {code}): {}", said.join(" ")))
}
