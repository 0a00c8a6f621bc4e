//! Anthropic's messages, and the number of their tokens.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::texts::Generation;
use super::{computed, fields};
use crate::answer::AnthropicMessage;
use crate::caller::Caller;
use crate::calls;
use crate::limits::Deadline;
use crate::protocol::{Refusal, anthropic};
use crate::service::Service;

pub(super) async fn messages(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = anthropic::take(fields(body, &caller)?)?;
    let model = service.model(ask.model.as_deref())?;
    let voice = Box::new(AnthropicMessage::new(service.entry(model).name(), ask.return_token_ids));
    Generation::begin(service, caller, model, ask, voice).await?.answer().await
}

pub(super) async fn count_tokens(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let (conversation, tools, model) = anthropic::take_count(fields(body, &caller)?)?;
    let model = service.model(model.as_deref())?;
    let (slot, deadline) = (service.slot(&caller.tenant)?, Deadline::new(&service.options.limits));
    let model = service.lease(model, &deadline).await?;
    let count = move || -> Result<usize, Refusal> {
        let _slot = slot;
        let template = model.engine.chat_template()?;
        let (conversation, _) = calls::add_tools(&template, conversation, tools.as_ref())?;
        let tokens = template.tokens(&conversation, model.engine.reader().tokenizer());
        Ok(tokens.map_err(verdigris::Error::Chat)?.len())
    };
    Ok(Json(json!({"input_tokens": deadline.wait(computed(count)).await???})))
}
