//! Ollama's addresses.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::fields;
use super::texts::Generation;
use crate::answer::{OllamaAnswer, OllamaShape};
use crate::caller::Caller;
use crate::protocol::Refusal;
use crate::protocol::ollama::{self, Asked};
use crate::service::Service;

/// The version of Ollama whose protocol this is: clients check that a server is not too old for them.
const VERSION: &str = "0.12.11";

/// The tag that clients add to names of models.
const TAG: &str = ":latest";

pub(super) async fn chat(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let asked = ollama::chat(fields(body, &caller)?)?;
    answer(service, caller, OllamaShape::Chat, asked).await
}

pub(super) async fn generate(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let asked = ollama::generate(fields(body, &caller)?, service.engine.chat_template().is_ok())?;
    answer(service, caller, OllamaShape::Generate, asked).await
}

async fn answer(service: Arc<Service>, caller: Caller, shape: OllamaShape, asked: Asked) -> Result<Response, Refusal> {
    match asked {
        Asked::Nothing { model, reason } => {
            let model = model.unwrap_or_else(|| service.options.model.clone());
            service.check_model(own_name(&service, &model))?;
            Ok(Json(OllamaAnswer::new(shape, &model, false).nothing(reason)).into_response())
        }
        Asked::Text(mut ask) => {
            let model = ask.model.take().unwrap_or_else(|| service.options.model.clone());
            ask.model = Some(own_name(&service, &model).into());
            let voice = Box::new(OllamaAnswer::new(shape, &model, ask.return_token_ids));
            Generation::begin(service, caller, *ask, voice).await?.answer().await
        }
    }
}

/// The name of a model without the tag that clients add.
fn own_name<'a>(service: &Service, name: &'a str) -> &'a str {
    if name == service.options.model { name } else { name.strip_suffix(TAG).unwrap_or(name) }
}

/// The description of the model. What is not known is empty.
fn about(service: &Service) -> Value {
    let model = &service.options.model;
    json!({
        "name": model, "model": model, "modified_at": begun(service), "size": 0, "digest": "", "details": details(),
    })
}

fn details() -> Value {
    json!({
        "parent_model": "", "format": "", "family": "", "families": [], "parameter_size": "", "quantization_level": "",
    })
}

/// When the server was started, which is when the model was loaded.
fn begun(service: &Service) -> Value {
    jiff::Timestamp::from_second(service.begun).map_or(Value::Null, |begun| begun.to_string().into())
}

pub(super) async fn tags(State(service): State<Arc<Service>>) -> Json<Value> {
    Json(json!({"models": [about(&service)]}))
}

pub(super) async fn running(State(service): State<Arc<Service>>) -> Json<Value> {
    let mut model = about(&service);
    model["context_length"] = service.engine.context_length().into();
    model["size_vram"] = 0.into();
    // Ollama writes this for a model that is never unloaded.
    model["expires_at"] = "2318-01-01T00:00:00Z".into();
    Json(json!({"models": [model]}))
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let mut body = fields(body, &caller)?;
    // The earlier name of the field.
    let older: Option<String> = body.take("name")?;
    let model = body.take::<String>("model")?.or(older);
    body.ignore(&["verbose", "system", "template", "options"]);
    body.end()?;
    model.iter().try_for_each(|model| service.check_model(own_name(&service, model)))?;
    let template = service.engine.chat_template().ok();
    // Any chat template can describe tools, at least in words.
    let capabilities: &[&str] = if template.is_some() { &["completion", "tools"] } else { &["completion"] };
    Ok(Json(json!({
        "modified_at": begun(&service), "template": template.as_ref().map_or("", |template| template.source()),
        "parameters": "", "details": details(), "capabilities": capabilities,
        "model_info": {
            "general.architecture": "verdigris", "verdigris.context_length": service.engine.context_length(),
            "tokenizer.ggml.tokens": null,
        },
    })))
}

pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": VERSION, "verdigris": env!("CARGO_PKG_VERSION")}))
}

pub(super) async fn embeddings() -> Refusal {
    Refusal::new(400, "no_embeddings", "this server has no embeddings: use a server with a model for them")
}
