//! OpenAI's chats, completions and responses.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::Response;

use super::texts::Generation;
use super::{fields, json};
use crate::answer::{self, Choices, Shape};
use crate::caller::Caller;
use crate::protocol::ask::Ask;
use crate::protocol::{Refusal, openai, responses};
use crate::service::Service;

pub(super) async fn chat(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = openai::chat(fields(body, &caller)?)?;
    choices(service, caller, ask, Shape::Chat).await
}

pub(super) async fn completions(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = openai::completion(fields(body, &caller)?)?;
    choices(service, caller, ask, Shape::Completion).await
}

pub(super) async fn responses(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let (ask, asked) = responses::take(json(body)?, &caller.unknown)?;
    let model = service.model(ask.model.as_deref())?;
    let voice = Box::new(answer::Response::new(service.entry(model).name(), asked, ask.return_token_ids));
    Generation::begin(service, caller, model, ask, voice).await?.answer().await
}

async fn choices(service: Arc<Service>, caller: Caller, ask: Ask, shape: Shape) -> Result<Response, Refusal> {
    let model = service.model(ask.model.as_deref())?;
    let voice = Box::new(Choices::new(shape, service.entry(model).name(), &ask));
    Generation::begin(service, caller, model, ask, voice).await?.answer().await
}
