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
use crate::limits::Deadline;
use crate::models::ModelId;
use crate::protocol::Refusal;
use crate::protocol::ollama::{self, Asked, LOAD};
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
    let body = fields(body, &caller)?;
    let model = model(&service, body.text("model"))?;
    let asked = ollama::generate(body, service.entry(model).template().is_some())?;
    answer(service, caller, OllamaShape::Generate, asked).await
}

async fn answer(service: Arc<Service>, caller: Caller, shape: OllamaShape, asked: Asked) -> Result<Response, Refusal> {
    match asked {
        Asked::Nothing { model: name, reason } => {
            let model = model(&service, name.as_deref())?;
            if reason == LOAD {
                let _slot = service.slot(&caller.tenant)?;
                service.lease(model, &Deadline::new(&service.options.limits)).await?;
            }
            let name = name.as_deref().unwrap_or(service.entry(model).name());
            Ok(Json(OllamaAnswer::new(shape, name, false).nothing(reason)).into_response())
        }
        Asked::Text(ask) => {
            let model = model(&service, ask.model.as_deref())?;
            let name = ask.model.as_deref().unwrap_or(service.entry(model).name());
            let voice = Box::new(OllamaAnswer::new(shape, name, ask.return_token_ids));
            Generation::begin(service, caller, model, *ask, voice).await?.answer().await
        }
    }
}

/// The model with a name, to which clients add a tag.
pub(super) fn model(service: &Service, name: Option<&str>) -> Result<ModelId, Refusal> {
    let is_exact = name.is_none_or(|name| service.models.named(name).is_some());
    service.model(if is_exact { name } else { name.map(|name| name.strip_suffix(TAG).unwrap_or(name)) })
}

/// The description of a model. What is not known is empty.
fn about(service: &Service, model: ModelId) -> Value {
    let model = service.entry(model);
    json!({
        "name": model.name(), "model": model.name(), "modified_at": begun(service), "size": model.bytes(),
        "digest": "", "details": details(),
    })
}

fn details() -> Value {
    json!({
        "parent_model": "", "format": "", "family": "", "families": [], "parameter_size": "", "quantization_level": "",
    })
}

/// When the server was started.
fn begun(service: &Service) -> Value {
    jiff::Timestamp::from_second(service.begun).map_or(Value::Null, |begun| begun.to_string().into())
}

pub(super) async fn tags(State(service): State<Arc<Service>>) -> Json<Value> {
    let models: Vec<Value> = service.models.all().map(|(model, _)| about(&service, model)).collect();
    Json(json!({"models": models}))
}

/// The models in memory.
pub(super) async fn running(State(service): State<Arc<Service>>) -> Json<Value> {
    let running = |model: ModelId| {
        let mut about = about(&service, model);
        about["context_length"] = service.entry(model).context().into();
        about["size_vram"] = 0.into();
        // Ollama writes this for a model that is not unloaded after some time.
        about["expires_at"] = "2318-01-01T00:00:00Z".into();
        about
    };
    let models: Vec<Value> = service.models.loaded().into_iter().map(running).collect();
    Json(json!({"models": models}))
}

pub(super) async fn show(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let mut body = fields(body, &caller)?;
    // The earlier name of the field.
    let older: Option<String> = body.take("name")?;
    let name = body.take::<String>("model")?.or(older);
    body.ignore(&["verbose", "system", "template", "options"]);
    body.end()?;
    let model = service.entry(model(&service, name.as_deref())?);
    let template = model.template();
    // Any chat template can describe tools, at least in words.
    let capabilities: &[&str] = if template.is_some() { &["completion", "tools"] } else { &["completion"] };
    Ok(Json(json!({
        "modified_at": begun(&service), "template": template.unwrap_or_default(),
        "parameters": "", "details": details(), "capabilities": capabilities,
        "model_info": {
            "general.architecture": "verdigris", "verdigris.context_length": model.context(),
            "tokenizer.ggml.tokens": null,
        },
    })))
}

pub(super) async fn version() -> Json<Value> {
    Json(json!({"version": VERSION, "verdigris": env!("CARGO_PKG_VERSION")}))
}
