//! The model that is served.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::protocol::Refusal;
use crate::service::Service;

fn about(service: &Service) -> Value {
    json!({
        "id": service.options.model, "object": "model", "created": service.begun, "owned_by": "verdigris",
        "max_model_len": service.engine.context_length(),
        // Anthropic's names.
        "type": "model", "display_name": service.options.model,
        "created_at": jiff::Timestamp::from_second(service.begun).map(|begun| begun.to_string()).unwrap_or_default(),
    })
}

pub(super) async fn list(State(service): State<Arc<Service>>) -> Json<Value> {
    let id = &service.options.model;
    Json(json!({"object": "list", "data": [about(&service)], "has_more": false, "first_id": id, "last_id": id}))
}

pub(super) async fn one(
    State(service): State<Arc<Service>>,
    model: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    // A name that is not UTF-8 is not that of the model.
    let model = model.map_or_else(|_| char::REPLACEMENT_CHARACTER.into(), |Path(model)| model);
    service.check_model(&model)?;
    Ok(Json(about(&service)))
}
