//! Embeddings, in the protocols of OpenAI and Ollama.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use serde::Serialize;
use verdigris::decoding::embeddings::unit;
use verdigris::logits::TokenId;
use verdigris::{Engine, Error};

use super::{fields, ollama};
use crate::caller::Caller;
use crate::charge;
use crate::limits::Deadline;
use crate::models::ModelId;
use crate::protocol::Refusal;
use crate::protocol::embeddings::{self, EmbeddingsAsk};
use crate::service::Service;

/// The number of texts after which another tenant has its turn.
const AT_ONCE: usize = 16;

/// The most bytes of an element of a vector while an answer is made: two copies of it as a number, and its text.
const ELEMENT: usize = 24;

/// The embeddings of the texts of a request.
struct Found {
    vectors: Vec<Vec<f32>>,
    tokens: usize,
    time: Duration,
}

/// A vector in OpenAI's protocol.
#[derive(Serialize)]
struct Embedding {
    object: &'static str,
    index: usize,
    embedding: Encoded,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Encoded {
    Numbers(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct EmbeddingList<'a> {
    object: &'static str,
    data: Vec<Embedding>,
    model: &'a str,
    usage: TokenUsage,
}

#[derive(Serialize)]
struct TokenUsage {
    prompt_tokens: usize,
    total_tokens: usize,
}

/// The answer of Ollama's `/api/embed`.
#[derive(Serialize)]
struct OllamaEmbeddings<'a> {
    model: &'a str,
    embeddings: Vec<Vec<f32>>,
    /// In nanoseconds.
    total_duration: u64,
    load_duration: u64,
    prompt_eval_count: usize,
}

/// The answer of Ollama's `/api/embeddings`.
#[derive(Serialize)]
struct OllamaEmbedding {
    embedding: Vec<f32>,
}

pub(super) async fn openai(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = embeddings::openai(fields(body, &caller)?)?;
    let model = service.model(ask.model.as_deref())?;
    let is_base64 = ask.is_base64;
    let Found { vectors, tokens, .. } = found(&service, &caller, model, ask).await?;
    let encoded = |vector: Vec<f32>| match is_base64 {
        true => Encoded::Base64(BASE64.encode(&vector.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())),
        false => Encoded::Numbers(vector),
    };
    let data = vectors.into_iter().enumerate();
    let data = data.map(|(index, vector)| Embedding { object: "embedding", index, embedding: encoded(vector) });
    let usage = TokenUsage { prompt_tokens: tokens, total_tokens: tokens };
    let model = service.entry(model).name();
    Ok(Json(EmbeddingList { object: "list", data: data.collect(), model, usage }).into_response())
}

pub(super) async fn ollama(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let mut ask = embeddings::ollama(fields(body, &caller)?)?;
    let model = ollama::model(&service, ask.model.as_deref())?;
    let name = ask.model.take().unwrap_or_else(|| service.entry(model).name().to_owned());
    let Found { vectors, tokens, time } = found(&service, &caller, model, ask).await?;
    let answer = OllamaEmbeddings {
        model: &name,
        embeddings: vectors,
        total_duration: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
        load_duration: 0,
        prompt_eval_count: tokens,
    };
    Ok(Json(answer).into_response())
}

pub(super) async fn ollama_older(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = embeddings::ollama_older(fields(body, &caller)?)?;
    let model = ollama::model(&service, ask.model.as_deref())?;
    let found = found(&service, &caller, model, ask).await?;
    Ok(Json(OllamaEmbedding { embedding: found.vectors.into_iter().next().unwrap_or_default() }).into_response())
}

/// Computes the embeddings. They are independent of each other, and take turns with those of other tenants.
async fn found(service: &Service, caller: &Caller, model: ModelId, ask: EmbeddingsAsk) -> Result<Found, Refusal> {
    let begun = Instant::now();
    let mut deadline = Deadline::new(&service.options.limits);
    let _slot = service.slot(&caller.tenant)?;
    let model = service.lease(model, &deadline).await?;
    let width = model.engine.model().hidden_size().ok_or_else(|| {
        let name = service.entry(model.id).name();
        let message = format!(
            "the model {name:?} keeps no hidden states, which embeddings are made of: that needs a model that our own \
             decoder computes on one CPU, without --backend candle and --device"
        );
        Refusal::field("model", "no_embeddings", message)
    })?;
    if let Some(dimensions) = ask.dimensions.filter(|&dimensions| dimensions > width) {
        let message = format!("dimensions is {dimensions}, but the model's vectors have {width}");
        return Err(Refusal::field("dimensions", "invalid_value", message));
    }
    let bytes = ask.inputs.len().saturating_mul(width * ELEMENT);
    charge::check_answer(bytes, service.options.limits.answer)?;
    let _bytes = service.bytes(&caller.tenant, bytes)?;
    let dimensions = ask.dimensions.unwrap_or(width);
    let most = model.engine.context_length().min(service.options.limits.prompt_tokens);
    let (mut vectors, mut tokens) = (Vec::with_capacity(ask.inputs.len()), 0);
    for (at, inputs) in ask.inputs.chunks(AT_ONCE).enumerate() {
        let turn = deadline.wait(service.embedders.take(&caller.tenant)).await?;
        deadline.begun();
        let (model, inputs, field) = (model.clone(), inputs.to_vec(), ask.field);
        let work = move || {
            let texts = inputs.iter().enumerate().map(|(i, input)| {
                let text = model.engine.prompt_tokens(input).map_err(|error| of_input(error, field))?;
                if text.len() <= most {
                    return Ok(text);
                }
                let (number, tokens) = (at * AT_ONCE + i, text.len());
                let message = format!("text {number} has {tokens} tokens, but may have up to {most}: shorten it");
                Err(Refusal::field(field, "context_length_exceeded", message))
            });
            let texts = texts.collect::<Result<Vec<_>, Refusal>>()?;
            let count: usize = texts.iter().map(|text| text.len()).sum();
            let texts: Vec<&[TokenId]> = texts.iter().map(|text| &**text).collect();
            let vectors = computed(&model.engine, &texts, dimensions).map_err(|error| of_input(error, field))?;
            Ok::<_, Refusal>((vectors, count))
        };
        let failed = || Refusal::new(500, "internal_error", "the embeddings could not be computed");
        let (more, count) = deadline.wait(turn.spend(work)).await?.ok_or_else(failed)??;
        vectors.extend(more);
        tokens += count;
    }
    service.metrics.tokens(tokens, 0);
    Ok(Found { vectors, tokens, time: begun.elapsed() })
}

/// The first elements of the embeddings, scaled to length 1 again.
fn computed(engine: &Engine, texts: &[&[TokenId]], dimensions: usize) -> Result<Vec<Vec<f32>>, Error> {
    let mut vectors = engine.embeddings(texts)?;
    for vector in vectors.iter_mut().filter(|vector| vector.len() > dimensions) {
        *vector = unit(&vector[..dimensions].iter().map(|&x| f64::from(x)).collect::<Vec<_>>());
    }
    Ok(vectors)
}

/// The refusal for an error of a text in a field.
fn of_input(error: Error, field: &'static str) -> Refusal {
    let refusal = Refusal::from(error);
    if refusal.status < 500 { Refusal { param: Some(field.into()), ..refusal } } else { refusal }
}
