//! The addresses, one file for each kind; and what is done for all of them.

mod detect;
mod health;
mod models;
mod page;
mod texts;
mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;

use crate::protocol::Refusal;
use crate::service::Service;

/// All addresses.
pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(texts::chat))
        .route("/v1/completions", post(texts::completions))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{model}", get(models::one))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/detect", post(detect::detect))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/version", get(health::version))
        .route("/about", get(page::about))
        .route("/", get(page::index))
        .route("/page/{file}", get(page::file))
        .fallback(|| async { Refusal::new(404, "unknown_route", "there is nothing at this address") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(405, "method_not_allowed", "this address takes another method")
        })
        .layer(DefaultBodyLimit::max(service.options.max_body))
        .layer(from_fn_with_state(service.clone(), for_all))
        .with_state(service)
}

/// Who may not ask is told so, whatever the address, but for `/health` and the page; and what is answered is counted.
async fn for_all(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let header = request.headers().get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
    let keys = &service.options.api_keys;
    let for_all = request.uri().path() == "/health" || page::is_page(request.uri().path());
    let may_ask = keys.is_open() || for_all || keys.name_of(header).is_some();
    let response = if may_ask {
        next.run(request).await
    } else {
        let message = "no API key, or a wrong one: send the header Authorization: Bearer KEY";
        Refusal::new(401, "invalid_api_key", message).into_response()
    };
    service.metrics.answered(path.as_deref().unwrap_or("none"), response.status().as_u16());
    response
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Does what computes for a while on a thread of its own, so that other requests are not held up.
async fn computed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Refusal::new(500, "internal_error", "the answer could not be computed"))
}

/// A body as JSON.
fn json(body: Result<Bytes, BytesRejection>) -> Result<Value, Refusal> {
    let body = body.map_err(|rejection| match rejection.status().as_u16() {
        413 => Refusal::new(413, "body_too_large", "the body is longer than this server takes"),
        status => Refusal::new(status, "invalid_body", rejection.body_text()),
    })?;
    serde_json::from_slice(&body)
        .map_err(|error| Refusal::new(400, "invalid_json", format!("the body is no JSON: {error}")))
}
