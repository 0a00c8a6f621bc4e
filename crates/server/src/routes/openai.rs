//! OpenAI's chats, completions and responses.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::Response;

use super::texts::Generation;
use super::{fields, json};
use crate::answer::{self, Choices, Shape, Voice};
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
    let voice = choices(&service, &ask, Shape::Chat);
    Generation::begin(service, caller, ask, voice).await?.answer().await
}

pub(super) async fn completions(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = openai::completion(fields(body, &caller)?)?;
    let voice = choices(&service, &ask, Shape::Completion);
    Generation::begin(service, caller, ask, voice).await?.answer().await
}

pub(super) async fn responses(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let (ask, asked) = responses::take(json(body)?, &caller.unknown)?;
    let voice = Box::new(answer::Response::new(&service.options.model, asked, ask.return_token_ids));
    Generation::begin(service, caller, ask, voice).await?.answer().await
}

fn choices(service: &Service, ask: &Ask, shape: Shape) -> Box<dyn Voice> {
    Box::new(Choices::new(shape, &service.options.model, ask))
}
