//! The page for people: its files, which are part of the program, and information about the server for it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::models::ModelId;
use crate::protocol::Refusal;
use crate::service::Service;

/// Scripts and styles are files of this server, and nothing else is loaded, sent or framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

const HTML: File = File { name: "", kind: "text/html; charset=utf-8", text: include_str!("../../page/index.html") };

macro_rules! files {
    ($($name:literal as $kind:literal),* $(,)?) => {
        &[$(File { name: $name, kind: $kind, text: include_str!(concat!("../../page/", $name)) }),*]
    };
}

/// The files that the page loads.
const FILES: &[File] = files![
    "page.css" as "text/css; charset=utf-8",
    "icon.svg" as "image/svg+xml",
    "page.js" as "text/javascript; charset=utf-8",
    "dom.js" as "text/javascript; charset=utf-8",
    "files.js" as "text/javascript; charset=utf-8",
    "finding.js" as "text/javascript; charset=utf-8",
    "forms.js" as "text/javascript; charset=utf-8",
    "plot.js" as "text/javascript; charset=utf-8",
    "report.js" as "text/javascript; charset=utf-8",
    "server.js" as "text/javascript; charset=utf-8",
    "tokens.js" as "text/javascript; charset=utf-8",
    "verdict.js" as "text/javascript; charset=utf-8",
];

/// Whether an address belongs to the page, which contains no secret and requires no API key.
pub(super) fn is_page(path: &str) -> bool {
    path == "/" || path.starts_with("/page/")
}

pub(super) async fn index(headers: HeaderMap) -> Response {
    HTML.sent(&headers)
}

pub(super) async fn file(name: Result<Path<String>, PathRejection>, headers: HeaderMap) -> Result<Response, Refusal> {
    // A name that is not UTF-8 is not that of a file.
    let file = name.ok().and_then(|Path(name)| FILES.iter().find(|file| file.name == name));
    let file = file.ok_or_else(|| Refusal::new(404, "unknown_route", "the page has no such file"))?;
    Ok(file.sent(&headers))
}

impl File {
    /// The file, or status 304 if the client has it already.
    fn sent(&self, headers: &HeaderMap) -> Response {
        let tag = self.tag();
        let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
        let is_known = known.is_some_and(|tags| tags.split(',').any(|known| known.trim() == tag));
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, self.kind)], self.text).into_response()
        };
        let fixed: [(HeaderName, &'static str); 8] = [
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::CACHE_CONTROL, "no-cache"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
            (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
        ];
        let all = response.headers_mut();
        fixed.into_iter().for_each(|(name, value)| drop(all.insert(name, HeaderValue::from_static(value))));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            all.insert(header::ETAG, tag);
        }
        response
    }

    /// A hash of the content: another version of the program may have another page.
    fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

/// Information for the page: the keys, and how to use the model.
pub(super) async fn about(State(service): State<Arc<Service>>, Extension(caller): Extension<Caller>) -> Json<Value> {
    let first = service.entry(ModelId::FIRST);
    let keys = service.keys_named(&caller, ModelId::FIRST, None).unwrap_or_default();
    let keys =
        keys.iter().map(|key| json!({"id": key.id(), "dialect": key.dialect().name(), "scheme": key.describe()}));
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"), "model": first.name(),
        "models": service.models.all().map(|(_, model)| model.name()).collect::<Vec<_>>(),
        "chat": first.template().is_some(), "keys": keys.collect::<Vec<_>>(),
        "enforce_all": service.options.enforce_all, "max_tokens": service.options.max_tokens,
        "max_body": service.options.max_body, "reports": service.options.reporter.is_some(),
    }))
}
