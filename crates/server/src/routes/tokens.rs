//! `/tokenize` and `/detokenize`: text to tokens and back, as in vLLM.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use serde_json::{Value, json};
use verdigris::logits::TokenId;
use verdigris::{Conversation, Engine};

use super::{computed, json as body_of};
use crate::caller::Caller;
use crate::calls;
use crate::limits::Deadline;
use crate::protocol::Refusal;
use crate::protocol::fields::Fields;
use crate::protocol::tools::{ToolShape, Tools};
use crate::protocol::{foreign, messages, openai};
use crate::service::Service;

pub(super) async fn tokenize(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let mut body = Fields::body(body_of(body)?, &caller.unknown)?;
    let model = service.model(body.take::<String>("model")?.as_deref())?;
    let (slot, deadline) = (service.slot(&caller.tenant)?, Deadline::new(&service.options.limits));
    let model = service.lease(model, &deadline).await?;
    let work = move || {
        let _slot = slot;
        tokens_of(&model.engine, body)
    };
    deadline.wait(computed(work)).await??.map(Json)
}

fn tokens_of(engine: &Engine, mut body: Fields) -> Result<Value, Refusal> {
    let with_prompt_tokens = body.take("add_special_tokens")?.unwrap_or(true);
    let tokenizer = engine.reader().tokenizer();
    let tokens = match body.take::<String>("prompt")? {
        Some(text) if with_prompt_tokens => tokenizer.encode_prompt(&text).map_err(verdigris::Error::Read)?,
        Some(text) => tokenizer.encode(&text).map_err(verdigris::Error::Read)?,
        None => {
            let messages = messages::take(&mut body, "messages")?;
            let turn = openai::turn(&mut body, &messages)?;
            let tools = Tools::take(&mut body, ToolShape::Nested)?;
            let template = engine.chat_template()?;
            let (conversation, _) =
                calls::add_tools(&template, Conversation { turn, ..messages.into() }, tools.as_ref())?;
            template.tokens(&conversation, tokenizer).map_err(verdigris::Error::Chat)?
        }
    };
    foreign::take(&mut body)?;
    body.end()?;
    Ok(json!({"count": tokens.len(), "max_model_len": engine.context_length(), "tokens": tokens}))
}

pub(super) async fn detokenize(
    State(service): State<Arc<Service>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let mut body = Fields::of(body_of(body)?, "")?;
    let model = body.take::<String>("model")?;
    let tokens: Vec<TokenId> = body.need("tokens")?;
    body.end()?;
    let tokenizer = service.entry(service.model(model.as_deref())?).reader().tokenizer();
    let size = tokenizer.vocabulary().size();
    if let Some(&token) = tokens.iter().find(|&&token| token as usize >= size) {
        let message = verdigris::Error::UnknownToken { token, size }.to_string();
        return Err(Refusal::field("tokens", "invalid_value", message));
    }
    Ok(Json(json!({"prompt": tokenizer.decode(&tokens)})))
}
