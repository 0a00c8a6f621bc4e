//! HTTP handlers, one file for each kind of address, and the middleware of all.

mod anthropic;
mod cors;
mod detect;
mod embeddings;
mod gate;
mod health;
mod host;
mod ledger;
mod models;
mod ollama;
mod openai;
mod page;
mod report_keys;
mod texts;
mod tokens;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::Value;

use crate::caller::Caller;
use crate::openapi;
use crate::protocol::fields::Fields;
use crate::protocol::{Refusal, strict};
use crate::service::Service;

/// The router of all addresses.
pub(crate) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(openai::chat))
        .route("/v1/completions", post(openai::completions))
        .route("/v1/responses", post(openai::responses))
        .route("/v1/messages", post(anthropic::messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/embeddings", post(embeddings::openai))
        .route("/api/chat", post(ollama::chat))
        .route("/api/generate", post(ollama::generate))
        .route("/api/tags", get(ollama::tags))
        .route("/api/show", post(ollama::show))
        .route("/api/ps", get(ollama::running))
        .route("/api/version", get(ollama::version))
        .route("/api/embed", post(embeddings::ollama))
        .route("/api/embeddings", post(embeddings::ollama_older))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{model}", get(models::one))
        .route("/tokenize", post(tokens::tokenize))
        .route("/detokenize", post(tokens::detokenize))
        .route("/detect", post(detect::detect))
        .route("/.well-known/jwks.json", get(report_keys::jwks))
        .route("/manifest/{id}", get(ledger::manifest))
        .route("/health", get(health::health))
        .route("/ready", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/version", get(health::version))
        .route("/about", get(page::about))
        .route("/openapi.json", get(document))
        .route("/", get(page::index))
        .route("/page/{file}", get(page::file))
        .fallback(|| async { Refusal::new(404, "unknown_route", "there is nothing at this address") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(405, "method_not_allowed", "this address requires another method")
        })
        .layer(from_fn_with_state(service.clone(), gate::gate))
        .layer(DefaultBodyLimit::max(service.options.max_body))
        .layer(from_fn_with_state(service.clone(), cors::cors))
        .with_state(service)
}

async fn document(State(service): State<Arc<Service>>) -> axum::Json<Value> {
    axum::Json(openapi::document(service.options.strict))
}

/// A refusal is also attached to its response, for the log and for protocols with another format of errors.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Runs a long computation on its own thread, so that other requests are not delayed.
async fn computed<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| Refusal::new(500, "internal_error", "the answer could not be computed"))
}

fn too_large() -> Refusal {
    Refusal::new(413, "body_too_large", "the body is larger than this server accepts")
}

/// A body that has been read completely.
fn read_body(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Refusal> {
    body.map_err(|rejection| match rejection.status().as_u16() {
        413 => too_large(),
        status => Refusal::new(status, "invalid_body", rejection.body_text()),
    })
}

/// The fields of a body, with the policy for unknown ones.
fn fields(body: Result<Bytes, BytesRejection>, caller: &Caller) -> Result<Fields, Refusal> {
    Fields::body(json(body)?, &caller.unknown)
}

/// A body as JSON.
fn json(body: Result<Bytes, BytesRejection>) -> Result<Value, Refusal> {
    strict::json(&read_body(body)?)
}
