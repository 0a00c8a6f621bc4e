//! Whether a text carries the mark.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use serde_json::{Value, json};
use verdigris::logits::TokenId;
use verdigris::{DetectError, Evidence, Judgement, Key, Look, Verdict};

use super::{computed, json as body_of};
use crate::protocol::Refusal;
use crate::protocol::fields::{Fields, read};
use crate::service::Service;

/// The p-value at which a text counts as marked, unless told otherwise.
const LEVEL: f64 = 1e-5;

/// The most texts of one request.
const TEXTS: usize = 1000;

/// What is looked at.
enum Text {
    Plain(String),
    Tokens(Vec<TokenId>),
}

pub(super) async fn detect(
    State(service): State<Arc<Service>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let mut body = Fields::of(body_of(body)?, "")?;
    let key = service.key.clone().ok_or_else(|| {
        Refusal::new(400, "no_key", "this server has no key to look with: start it with one, or ask another")
    })?;
    if let Some(id) = body.take::<String>("key_id")?.filter(|id| id != key.id()) {
        return Err(Refusal::field("key_id", "unknown_key", format!("there is no key {id:?} here")));
    }
    let level = body.number("level", 1e-300, 0.5)?.unwrap_or(LEVEL);
    let passages = body.take("windows")?.unwrap_or(false);
    let look = Look { passages: passages.then_some(level), ..Look::default() };
    let several = body.items("texts")?;
    let one = match (body.take("text")?, body.take("token_ids")?) {
        (Some(text), None) => Some(Text::Plain(text)),
        (None, Some(tokens)) => Some(Text::Tokens(tokens)),
        (None, None) => None,
        _ => return Err(Refusal::field("token_ids", "contradiction", "give text or token_ids, not both")),
    };
    body.end()?;
    let texts = match (one, several) {
        (Some(_), Some(_)) => {
            return Err(Refusal::field("texts", "contradiction", "give one text, or texts, not both"));
        }
        (None, None) => return Err(Refusal::field("text", "missing_field", "text is missing: the request needs it")),
        (None, Some(texts)) if texts.len() > TEXTS => {
            let message = format!("texts has {} texts, but must have at most {TEXTS}", texts.len());
            return Err(Refusal::field("texts", "invalid_value", message));
        }
        (Some(one), None) => (vec![one], false),
        (None, Some(texts)) => {
            let texts = texts.into_iter().map(|(path, text)| read(text, path).map(Text::Plain));
            (texts.collect::<Result<_, _>>()?, true)
        }
    };
    let work = move || {
        let (texts, are_several) = texts;
        let mut found = texts.iter().map(|text| found(&service, &key, text, &look, level));
        if are_several {
            let each = found.map(|found| found.unwrap_or_else(|refusal| refusal.body()));
            return Ok(json!({"results": each.collect::<Vec<_>>()}));
        }
        found.next().unwrap_or(Ok(Value::Null))
    };
    computed(work).await?.map(Json)
}

fn found(service: &Service, key: &Key, text: &Text, look: &Look, level: f64) -> Result<Value, Refusal> {
    let reader = service.engine.reader();
    let judgement = match text {
        Text::Plain(text) => reader.judge(&[key], text, look),
        Text::Tokens(tokens) => reader.evidence(key, tokens, look.repeats).map(|found| Judgement::of(key, found)),
    };
    judgement.map(|judgement| body(&judgement, level)).map_err(|error| match error {
        error @ (DetectError::Read(_) | DetectError::Form(_)) => {
            Refusal::field("text", "invalid_value", error.to_string())
        }
        error => verdigris::Error::Detect(error).into(),
    })
}

/// As `verdigris detect --json` names them, and the four names of vLLM's detector.
fn body(judgement: &Judgement<'_>, level: f64) -> Value {
    let Evidence { tokens, scored, score, expected, z, .. } = judgement.evidence;
    let verdict = judgement.verdict(level);
    let word = match &verdict {
        Ok(Verdict::Marked) if judgement.evidence.verdict(level) == Ok(Verdict::Marked) => "marked",
        Ok(Verdict::Marked) => "marked in part",
        Ok(Verdict::NotMarked) => "not marked",
        Err(_) => "too short",
    };
    let passages = judgement.passages.iter().map(|passage| {
        json!({
            "start": passage.range.start, "end": passage.range.end, "scored": passage.scored, "z": passage.z,
            "log10_p": passage.ln_p / std::f64::consts::LN_10,
        })
    });
    json!({
        "verdict": word, "key_id": judgement.key.id(), "dialect": judgement.key.dialect().name(), "tokens": tokens,
        "scored": scored, "score": score, "expected": expected, "z": z, "p": judgement.evidence.p(),
        "log10_p": judgement.evidence.ln_p_corrected() / std::f64::consts::LN_10, "level": level,
        "passages": passages.collect::<Vec<_>>(),
        "p_value": judgement.evidence.p(), "num_scored_tokens": scored,
        "is_watermarked": verdict == Ok(Verdict::Marked),
    })
}
