//! Health, version and metrics of the server.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::protocol::Refusal;
use crate::service::Service;

/// Succeeds if the loaded models work and requests are accepted. A server is ready once it answers at all: the first
/// model is loaded before the first connection is accepted.
pub(super) async fn health(State(service): State<Arc<Service>>) -> Result<(), Refusal> {
    if service.is_draining() {
        return Err(Refusal::new(503, "draining", "the server is shutting down"));
    }
    if !service.models.are_alive() {
        return Err(Refusal::new(
            503,
            "model_failed",
            "the model has failed, and no texts are written: restart the server",
        ));
    }
    Ok(())
}

pub(super) async fn version() -> axum::Json<Value> {
    axum::Json(json!({"version": env!("CARGO_PKG_VERSION")}))
}

/// The metrics of all tenants, for API keys with the right `metrics`.
pub(super) async fn metrics(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
) -> Result<impl IntoResponse, Refusal> {
    if !caller.rights.metrics {
        let message = "this API key may not read the metrics of all tenants: use one with the right metrics";
        return Err(Refusal::new(403, "not_allowed", message));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], service.metrics.text(service.models.statistics())))
}
