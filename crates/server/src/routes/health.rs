//! How the server is.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::protocol::Refusal;
use crate::service::Service;

/// It lives, and takes requests.
pub(super) async fn health(State(service): State<Arc<Service>>) -> Result<(), Refusal> {
    if service.is_draining() {
        return Err(Refusal::new(503, "draining", "the server is about to stop"));
    }
    if !service.writer.is_alive() {
        return Err(Refusal::new(
            503,
            "model_failed",
            "the model has failed, and nothing is written: start the server anew",
        ));
    }
    Ok(())
}

/// The model is loaded before the first connection is taken.
pub(super) async fn ready(service: State<Arc<Service>>) -> Result<(), Refusal> {
    health(service).await
}

pub(super) async fn version() -> axum::Json<Value> {
    axum::Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// What all tenants do, for those who may know it.
pub(super) async fn metrics(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, Refusal> {
    if !caller.rights.metrics {
        let message = "this API key may not read what all tenants do: use one with the right metrics";
        return Err(Refusal::new(403, "not_allowed", message));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], service.metrics.text(&service.writer.statistics())))
}
