//! How the server is.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use serde_json::{Value, json};

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

pub(super) async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], service.metrics.text(&service.writer.statistics()))
}
