//! The middleware of all requests: checks hosts, API keys, sizes and times, and counts and logs the outcome.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, MatchedPath, Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::{cors, host, page, read_body, report_keys};
use crate::access::Rights;
use crate::caller::{Caller, REQUEST_ID, Report, Reported, request_id};
use crate::metrics::Metrics;
use crate::protocol::Refusal;
use crate::protocol::refusal::ErrorShape;
use crate::protocol::unknown::Unknown;
use crate::service::Service;
use crate::shares::Share;

/// The addresses that monitoring requests again and again.
const PROBES: [&str; 3] = ["/health", "/ready", "/metrics"];

/// The header with the names of fields that were ignored.
pub(super) const IGNORED_FIELDS: HeaderName = HeaderName::from_static("x-ignored-fields");

/// The header in which Anthropic's clients send their API key.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Anthropic's header for the id of a request in answers.
const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

pub(super) async fn gate(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().map(|path| path.as_str().into());
    let mut line = LogLine {
        arrived: Instant::now(),
        request_id: request_id(request.headers()),
        route: matched.unwrap_or_else(|| "none".into()),
        method: request.method().clone(),
        tenant: None,
        status: 0,
        code: None,
        report: Report::default(),
        is_whole: false,
        unknown: if service.options.strict { Unknown::refused() } else { Unknown::ignored() },
        body: None,
        metrics: service.metrics.clone(),
    };
    let shape = ErrorShape::of(request.uri().path(), request.headers().contains_key("anthropic-version"));
    let mut response = match line.admitted(&service, request).await {
        Ok(request) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    line.status = response.status().as_u16();
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        line.code = refusal.code;
        response = in_shape(response, &refusal, shape);
    }
    service.metrics.answered(&line.route, line.status);
    service.metrics.refused(line.status, line.code);
    if let Ok(id) = HeaderValue::from_str(&line.request_id) {
        if shape == ErrorShape::Anthropic {
            response.headers_mut().insert(ANTHROPIC_REQUEST_ID, id.clone());
        }
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if let Some(Ok(names)) = line.unknown.report().map(HeaderValue::try_from) {
        response.headers_mut().insert(IGNORED_FIELDS, names);
    }
    response.map(|body| Body::new(Logged { body, line }))
}

/// The response to a refused request in the format of errors of its protocol.
fn in_shape(response: Response, refusal: &Refusal, shape: ErrorShape) -> Response {
    if shape == ErrorShape::OpenAi {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(refusal.body_in(shape).to_string()))
}

/// The log line of a request, which is written once its answer has been sent or abandoned.
struct LogLine {
    arrived: Instant,
    request_id: Arc<str>,
    route: Arc<str>,
    method: Method,
    /// `None` if the client is unknown.
    tenant: Option<Arc<str>>,
    status: u16,
    /// The code of the refusal.
    code: Option<&'static str>,
    report: Report,
    /// Whether the complete answer was passed to the connection.
    is_whole: bool,
    /// The unknown fields that were ignored.
    unknown: Unknown,
    /// The memory that the body is charged for, until the answer ends.
    body: Option<Share>,
    metrics: Arc<Metrics>,
}

/// The status in the metrics of a request whose client left before there was an answer, as in other servers.
const LEFT: u16 = 499;

impl LogLine {
    /// Returns the request with its body read, if it may be answered.
    async fn admitted(&mut self, service: &Service, request: Request) -> Result<Request, Refusal> {
        let options = &service.options;
        let length = length(request.uri(), request.headers());
        if length > options.limits.header {
            let message = format!("address and headers have {length} bytes, but may have {}", options.limits.header);
            return Err(Refusal::new(431, "headers_too_large", message));
        }
        let is_shared = cors::is_allowed(&options.cors, request.headers());
        let holder = {
            let text = |name| request.headers().get(name).and_then(|header: &HeaderValue| header.to_str().ok());
            service.operator.holder(text(header::AUTHORIZATION), text(X_API_KEY))
        };
        // A page that points its name to this machine has no API key, and learns nothing from the health.
        let is_safe = request.uri().path() == "/health"
            || holder.is_some() && service.operator.has_api_keys() && !request.headers().contains_key(header::ORIGIN);
        if !is_safe {
            host::check(request.headers(), request.uri(), options.address.ip(), &options.allowed_hosts, is_shared)?;
        }
        self.tenant = holder.as_ref().map(|(tenant, _)| tenant.clone());
        let is_stranger = holder.is_none();
        let (tenant, rights) = match holder {
            Some(holder) => holder,
            None if is_open(request.uri().path()) => ("".into(), Rights::default()),
            None => {
                let message =
                    "the API key is missing or wrong: send the header Authorization: Bearer KEY, or x-api-key: KEY";
                return Err(Refusal::new(401, "invalid_api_key", message));
            }
        };
        // Open addresses take no body, and one of a client without an API key must not take memory.
        let mut request = if request.method() == Method::POST && !is_stranger {
            let length = check_body(request.headers(), options.max_body, is_shared)?;
            // Twice, for the parsed body.
            self.body = Some(service.bytes(&tenant, length.saturating_mul(2))?);
            let read = options.limits.read;
            tokio::time::timeout(read, whole(request)).await.map_err(|_| late(read))??
        } else {
            request
        };
        let (request_id, route, report) = (self.request_id.clone(), self.route.clone(), self.report.clone());
        let unknown = self.unknown.clone();
        request.extensions_mut().insert(Caller { tenant, rights, request_id, route, report, unknown });
        Ok(request)
    }
}

/// Whether an address requires no API key.
fn is_open(path: &str) -> bool {
    path == "/health" || path == report_keys::PATH || page::is_page(path)
}

/// The number of bytes of the address and the headers.
fn length(uri: &Uri, headers: &HeaderMap) -> usize {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    path + headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>()
}

/// Refuses a body that is not JSON before it is read; returns the number of bytes that it may have.
///
/// A page of another site can make a browser send anything here, though it cannot read the answer. Requests that are
/// marked as coming from one are refused: they would use the computer of the page's visitor. The operator may allow
/// some pages.
fn check_body(headers: &HeaderMap, most: usize, is_shared: bool) -> Result<usize, Refusal> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or_default());
    if !is_shared && matches!(text(HeaderName::from_static("sec-fetch-site")), Some("cross-site" | "same-site")) {
        let message = "a browser sent this for a page of another site: use a page of this server, or another program";
        return Err(Refusal::new(403, "cross_site", message));
    }
    let kind = text(header::CONTENT_TYPE).and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    // The last one is curl's default.
    let is_json = ["", "application/json", "application/x-www-form-urlencoded"].iter();
    let is_plain = text(header::CONTENT_ENCODING).is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity"));
    if !is_plain || !is_json.clone().any(|json| kind.eq_ignore_ascii_case(json)) {
        let message = "the body must be uncompressed JSON: send Content-Type: application/json, no Content-Encoding";
        return Err(Refusal::new(415, "unsupported_media_type", message));
    }
    let length = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    let length = length.map_or(Some(most), |length| usize::try_from(length).ok());
    length.filter(|&length| length <= most).ok_or_else(super::too_large)
}

/// The request with its body in memory.
async fn whole(request: Request) -> Result<Request, Refusal> {
    let (parts, body) = request.into_parts();
    let body = Bytes::from_request(Request::from_parts(parts.clone(), body), &()).await;
    Ok(Request::from_parts(parts, Body::from(read_body(body)?)))
}

fn late(after: Duration) -> Refusal {
    Refusal::new(408, "body_too_slow", format!("the body did not arrive within {} seconds", after.as_secs()))
}

impl Drop for LogLine {
    fn drop(&mut self) {
        if self.status == 0 {
            self.metrics.answered(&self.route, LEFT);
        }
        // Probes arrive every few seconds, and are of interest only if they fail.
        if self.status < 400 && PROBES.contains(&&*self.route) {
            return;
        }
        let Reported { entry, failed } = self.report.take();
        let entry = entry.as_ref();
        tracing::info!(
            target: "verdigris_server::request",
            request_id = &*self.request_id,
            tenant = self.tenant.as_deref(),
            method = self.method.as_str(),
            route = &*self.route,
            status = self.status,
            code = self.code.or(failed),
            seconds = (self.arrived.elapsed().as_secs_f64() * 1e6).round() / 1e6,
            whole = self.is_whole && failed.is_none(),
            ignored_fields = self.unknown.report(),
            outcome = entry.map(|entry| entry.outcome.name()),
            prompt_tokens = entry.map(|entry| entry.prompt_tokens),
            completion_tokens = entry.map(|entry| entry.completion_tokens),
            watermark = entry.and_then(|entry| entry.texts.first()).map(|text| text.watermark),
            key_id = entry.and_then(|entry| entry.key_id.as_deref()),
            "answered"
        );
    }
}

/// A body whose end is logged.
struct Logged {
    body: Body,
    line: LogLine,
}

impl HttpBody for Logged {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.line.is_whole = matches!(polled, Poll::Ready(None)) || self.body.is_end_stream();
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
