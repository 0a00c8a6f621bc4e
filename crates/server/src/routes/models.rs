//! The models that are served.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::models::ModelEntry;
use crate::protocol::Refusal;
use crate::service::Service;

fn about(service: &Service, model: &ModelEntry) -> Value {
    json!({
        "id": model.name(), "object": "model", "created": service.begun, "owned_by": "verdigris",
        "max_model_len": model.context(),
        // Anthropic's names.
        "type": "model", "display_name": model.name(),
        "created_at": jiff::Timestamp::from_second(service.begun).map(|begun| begun.to_string()).unwrap_or_default(),
    })
}

pub(super) async fn list(State(service): State<Arc<Service>>) -> Json<Value> {
    let models: Vec<Value> = service.models.all().map(|(_, model)| about(&service, model)).collect();
    let ids = [models.first(), models.last()].map(|model| model.map(|model| model["id"].clone()));
    let [first, last] = ids;
    Json(json!({"object": "list", "data": models, "has_more": false, "first_id": first, "last_id": last}))
}

pub(super) async fn one(
    State(service): State<Arc<Service>>,
    model: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, Refusal> {
    // A name that is not UTF-8 is not that of the model.
    let model = model.map_or_else(|_| char::REPLACEMENT_CHARACTER.into(), |Path(model)| model);
    let model = service.model(Some(&model))?;
    Ok(Json(about(&service, service.entry(model))))
}
