//! Pages of other sites that the operator lets use the server from a browser (CORS). All others are refused, see
//! [`super::host`] and [`super::gate`].

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::origin::Origin;
use crate::service::Service;

/// The seconds for which a browser may keep the answer to a preflight request.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The methods of all addresses.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST");

/// The headers of answers that pages may read.
const EXPOSED: HeaderValue = HeaderValue::from_static("x-request-id, request-id, retry-after, x-ignored-fields");

/// Whether a request comes from a page that may use the server.
pub(super) fn is_allowed(origins: &[Origin], headers: &HeaderMap) -> bool {
    origin(origins, headers).is_some()
}

/// The origin of a request, if its pages may use the server.
fn origin<'h>(origins: &[Origin], headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    origins.iter().any(|known| known.as_str().as_bytes() == origin.as_bytes()).then_some(origin)
}

/// Answers the preflight requests of such pages, and lets them read other answers.
pub(super) async fn cors(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let origins = &service.options.cors;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let origin = origin(origins, request.headers()).cloned();
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match &origin {
        Some(_) if is_preflight => preflight(request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

/// The answer to a preflight request of an allowed page. It may send any header: clients send many of their own.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    // A page of the internet asks for this before it may reach a machine in a private network.
    if asked.contains_key("access-control-request-private-network") {
        let name = HeaderName::from_static("access-control-allow-private-network");
        headers.insert(name, HeaderValue::from_static("true"));
    }
    response
}
