//! Whether a text carries the mark.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use serde::Serialize;
use serde_json::{Value, json};
use verdigris::logits::TokenId;
use verdigris::watermark::DEFAULT_LEVEL;
use verdigris::{DetectError, Error, Evidence, Hint, Judgement, Key, Look, Mark, Outcome, Reader, Report};

use super::{computed, json as body_of};
use crate::caller::Caller;
use crate::protocol::Refusal;
use crate::protocol::fields::{Fields, read};
use crate::protocol::form::Form;
use crate::service::Service;

/// The version of the fields, those of `verdigris detect --json`.
const FORMAT: &str = "verdigris-detect-1";

/// The most texts of one request.
const TEXTS: usize = 1000;

/// The most tokens that are told of one by one, in all texts of a request.
const TOKENS: u64 = 50_000;

/// The most points of a course.
const POINTS: usize = 400;

/// What is looked at.
enum Text {
    Plain(String),
    Tokens(Vec<TokenId>),
}

/// How it is looked at, and what is told.
struct Wanted {
    key_id: Option<String>,
    level: f64,
    windows: bool,
    tokens: bool,
    course: bool,
    /// The form that the texts were written in.
    form: Option<Form>,
}

pub(super) async fn detect(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<Value>, Refusal> {
    let mut body = Fields::of(body_of(body)?, "")?;
    let wanted = Wanted::take(&mut body)?;
    let (texts, are_several) = texts(&mut body)?;
    body.end()?;
    wanted.form.iter().try_for_each(|form| service.check_form(form))?;
    let keys = service.keys_named(&caller, wanted.key_id.as_deref())?;
    let place = service.place()?;
    let work = move || {
        let _place = place;
        let reader = match &wanted.form {
            Some(form) => service.engine.reader().clone().of_form(form.grammar()?),
            None => service.engine.reader().clone(),
        };
        let keys: Vec<&Key> = keys.iter().map(|key| &**key).collect();
        let mut left = TOKENS;
        let mut found = texts.iter().map(|text| wanted.found(&reader, &keys, text, &mut left));
        if are_several {
            let each = found.map(|found| found.unwrap_or_else(|refusal| fault(&refusal)));
            return Ok(json!({"results": each.collect::<Vec<_>>()}));
        }
        found.next().unwrap_or(Ok(Value::Null))
    };
    computed(work).await?.map(Json)
}

/// What is said of one of several texts that could not be judged.
fn fault(refusal: &Refusal) -> Value {
    json!({"format": FORMAT, "verdict": "error", "error": refusal.message, "code": refusal.code})
}

/// The texts, and whether they came as several.
fn texts(body: &mut Fields) -> Result<(Vec<Text>, bool), Refusal> {
    let several = body.items("texts")?;
    match (body.take("text")?, body.take("token_ids")?, several) {
        (Some(text), None, None) => Ok((vec![Text::Plain(text)], false)),
        (None, Some(tokens), None) => Ok((vec![Text::Tokens(tokens)], false)),
        (None, None, None) => Err(Refusal::field("text", "missing_field", "text is missing: the request needs it")),
        (None, None, Some(texts)) if texts.len() > TEXTS => {
            let message = format!("texts has {} texts, but must have at most {TEXTS}", texts.len());
            Err(Refusal::field("texts", "invalid_value", message))
        }
        (None, None, Some(texts)) => {
            let texts = texts.into_iter().map(|(path, text)| read(text, path).map(Text::Plain));
            Ok((texts.collect::<Result<_, _>>()?, true))
        }
        (text, ..) => {
            let param = if text.is_some() { "text" } else { "token_ids" };
            Err(Refusal::field(param, "contradiction", "give one of text, token_ids and texts"))
        }
    }
}

impl Wanted {
    fn take(body: &mut Fields) -> Result<Self, Refusal> {
        Ok(Self {
            key_id: body.take("key_id")?,
            level: body.number("level", 1e-300, 0.5)?.unwrap_or(DEFAULT_LEVEL),
            windows: body.take("windows")?.unwrap_or(false),
            tokens: body.take("tokens")?.unwrap_or(false),
            course: body.take("course")?.unwrap_or(false),
            form: Form::of_detection(body)?,
        })
    }

    /// What one text is. `left` is how many tokens may still be told of.
    fn found(&self, reader: &Reader, keys: &[&Key], text: &Text, left: &mut u64) -> Result<Value, Refusal> {
        let look = Look {
            tokens: self.tokens || self.form.is_some(),
            course: if self.course { POINTS } else { 0 },
            passages: self.windows.then_some(self.level),
            ..Look::default()
        };
        let judgement = match text {
            Text::Plain(text) => reader.judge(keys, text, &look),
            Text::Tokens(tokens) => {
                check(reader, tokens)?;
                reader.judge_tokens(keys, tokens, &look)
            }
        };
        let judgement = judgement.map_err(|error| refusal(error, text))?;
        if self.tokens {
            let tokens = judgement.evidence.tokens;
            *left = left.checked_sub(tokens).ok_or_else(|| {
                let message = format!("with tokens: true all texts may have {TOKENS} tokens together: leave it out");
                Refusal::field("tokens", "too_many_tokens", message)
            })?;
        }
        let body = self.body(reader, &judgement, text);
        Ok(serde_json::to_value(body).unwrap_or(Value::Null))
    }

    fn body<'a>(&self, reader: &Reader, judgement: &'a Judgement<'_>, text: &'a Text) -> Body<'a> {
        let outcome = judgement.outcome(self.level);
        let mut report = Report::new(judgement, self.level);
        if self.windows {
            report = report.with_passages(judgement);
        }
        if self.form.is_some() {
            report = report.with_form(judgement);
        }
        let short = judgement.evidence.verdict(self.level).err().filter(|_| outcome == Outcome::TooShort);
        let hint = match text {
            Text::Plain(text) if outcome == Outcome::NotMarked => Hint::of(text, judgement, self.windows),
            _ => None,
        };
        Body {
            format: FORMAT,
            verdict: outcome.name(),
            error: short.map(|short| short.to_string()),
            needed: short.map(|short| short.needed),
            hint: hint.map(told),
            report,
            colours: judgement.evidence.colours,
            course: self.course.then(|| judgement.course.iter().map(Point::of).collect()),
            token_marks: self.tokens.then(|| token_marks(reader, judgement, text)),
            p_value: judgement.evidence.p(),
            num_scored_tokens: judgement.evidence.scored,
            is_watermarked: outcome.is_marked(),
        }
    }
}

/// Refuses ids that no token has.
fn check(reader: &Reader, tokens: &[TokenId]) -> Result<(), Refusal> {
    let size = reader.tokenizer().vocabulary().size();
    match tokens.iter().find(|&&token| token as usize >= size) {
        None => Ok(()),
        Some(&token) => {
            let refusal = Refusal::from(Error::UnknownToken { token, size });
            Err(Refusal { param: Some("token_ids".into()), ..refusal })
        }
    }
}

fn refusal(error: DetectError, text: &Text) -> Refusal {
    let param = if matches!(text, Text::Plain(_)) { "text" } else { "token_ids" };
    match error {
        DetectError::Read(_) => Refusal::field(param, "invalid_value", error.to_string()),
        DetectError::Form(_) => Refusal::field(param, "another_form", error.to_string()),
        error => Error::Detect(error).into(),
    }
}

fn told(hint: Hint) -> String {
    match hint {
        Hint::ChangedCase(form) => format!(
            "the text is {form}, which makes other tokens of its words: a mark in it is lost unless the letters are \
             as they were written"
        ),
        Hint::Passages => {
            "only the text as a whole was judged: windows: true looks for marked passages inside it, too".into()
        }
    }
}

/// What is said of a text: the fields of `verdigris detect --json`, more where they are asked for, and the names of
/// vLLM's detector.
#[derive(Serialize)]
struct Body<'a> {
    format: &'static str,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(flatten)]
    report: Report<'a>,
    colours: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    course: Option<Vec<Point>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_marks: Option<Vec<TokenMark<'a>>>,
    p_value: f64,
    num_scored_tokens: u64,
    is_watermarked: bool,
}

/// The evidence of a beginning of the text.
#[derive(Serialize)]
struct Point {
    tokens: u64,
    scored: u64,
    z: f64,
    log10_p: f64,
}

impl Point {
    fn of(evidence: &Evidence) -> Self {
        let log10_p = evidence.ln_p_corrected() / std::f64::consts::LN_10;
        Self { tokens: evidence.tokens, scored: evidence.scored, z: evidence.z, log10_p }
    }
}

/// What the key sees in a token.
#[derive(Serialize)]
struct TokenMark<'a> {
    start: usize,
    end: usize,
    text: std::borrow::Cow<'a, str>,
    mark: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    green: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
}

fn token_marks<'a>(reader: &Reader, judgement: &Judgement<'_>, text: &'a Text) -> Vec<TokenMark<'a>> {
    let whole: Vec<u8> = match text {
        Text::Plain(_) => Vec::new(),
        Text::Tokens(tokens) => {
            let vocabulary = reader.tokenizer().vocabulary();
            tokens.iter().flat_map(|&token| vocabulary.bytes(token)).copied().collect()
        }
    };
    let marks = judgement.tokens.iter().map(|(range, mark)| {
        let text = match text {
            Text::Plain(text) => text.get(range.clone()).unwrap_or_default().into(),
            Text::Tokens(_) => {
                String::from_utf8_lossy(whole.get(range.clone()).unwrap_or_default()).into_owned().into()
            }
        };
        let (mark, told) = match *mark {
            Mark::Unscored => ("unscored", None),
            Mark::Forced => ("forced", None),
            Mark::Repeated { green, score } => ("repeated", Some((green, score))),
            Mark::Counted { green, score } => ("counted", Some((green, score))),
        };
        let (green, score) = told.unzip();
        TokenMark { start: range.start, end: range.end, text, mark, green, score }
    });
    marks.collect()
}
