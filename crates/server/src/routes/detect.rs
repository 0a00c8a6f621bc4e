//! `/detect`: whether texts are marked.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use serde_json::{Value, json};
use verdigris::detector::answer::{Answer, FORMAT, JudgedInput, MOST_TOKENS, POINTS};
use verdigris::detector::report::{Content, Reporter};
use verdigris::logits::TokenId;
use verdigris::{DetectError, Error, Hint, Key, Level, Look, Reader, ReasoningSyntax};

use super::{computed, json as body_of};
use crate::caller::Caller;
use crate::protocol::Refusal;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::fields::{Fields, read};
use crate::service::Service;

/// The maximum number of texts of one request.
const TEXTS: usize = 1000;

/// A text to test.
enum DetectInput {
    Plain(String),
    Tokens(Vec<TokenId>),
}

const PASSAGES: &str = "only the text as a whole was judged: look for marked passages too (\"windows\": true)";

/// The options for testing texts, and for the result.
struct Wanted {
    /// The model whose tokenizer reads the texts.
    model: Option<String>,
    key_id: Option<String>,
    look: Look,
    /// The constraint that the texts were written under.
    constraint: Option<ConstraintField>,
    /// The markers of thoughts that may precede the answers under this constraint.
    thoughts: Option<&'static ReasoningSyntax>,
    /// Whether a signed report on each text is returned.
    report: bool,
}

/// The parts of a result that a client gets.
struct Shown<'s> {
    /// Whether it gets all fields, or the verdict only.
    has_all: bool,
    /// The signer of the reports that it gets with the results.
    reporter: Option<&'s Reporter>,
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
    wanted.constraint.iter().try_for_each(|constraint| service.check_constraint(constraint))?;
    let key_id = wanted.key_id.as_deref();
    let model = service.model_of_text(&caller, wanted.model.as_deref(), key_id)?;
    let keys = service.keys_named(&caller, model, key_id)?;
    // Everything that a published key shows can be computed with it.
    let has_all = caller.rights.detect || keys.iter().all(|key| key.is_published());
    if !has_all {
        wanted.is_for_strangers()?;
    }
    if wanted.report {
        check_report(&service, &texts)?;
    }
    let slot = service.slot(&caller.tenant)?;
    let (turns, has_constraint) = (service.clone(), wanted.constraint.is_some());
    let work = move || {
        let _slot = slot;
        let reader = service.entry(model).reader();
        let reader = match &wanted.constraint {
            Some(constraint) => {
                let answer = constraint.compiled(reader.tokenizer())?;
                match wanted.thoughts {
                    Some(syntax) => {
                        let readings = answer.readings_with_thought(syntax).map_err(|fault| {
                            let message = format!("a thought before this constraint: {fault}");
                            Refusal::field("reasoning_format", "invalid_value", message)
                        })?;
                        reader.clone().of_grammars(readings.map(Arc::new))
                    }
                    None => reader.clone().of_grammar(answer),
                }
            }
            None => reader.clone(),
        };
        let keys: Vec<&Key> = keys.iter().map(|key| &**key).collect();
        let mut left = MOST_TOKENS;
        let shown = Shown { has_all, reporter: service.options.reporter.as_ref().filter(|_| wanted.report) };
        let mut found = texts.iter().map(|text| wanted.found(&reader, &keys, text, &mut left, &shown));
        if are_several {
            let each = found.map(|found| found.unwrap_or_else(|refusal| fault(&refusal)));
            return Ok(json!({"results": each.collect::<Vec<_>>()}));
        }
        found.next().unwrap_or(Ok(Value::Null))
    };
    // A constraint takes time to compile, and may take time for each text.
    let done = if has_constraint { turns.writing.planned(&caller.tenant, work).await } else { computed(work).await };
    done?.map(Json)
}

impl Shown<'_> {
    /// The part of a result, or of the verdict in a report, that the client gets. A client without the right `detect`
    /// gets the verdict and the key that gave it: from numbers, colours or levels of its own choice it could learn,
    /// text by text, which tokens the key prefers.
    fn of(&self, found: Value) -> Value {
        if self.has_all {
            return found;
        }
        let kept = ["format", "verdict", "is_watermarked", "key_id", "dialect", "public", "error", "code"];
        kept.iter().filter_map(|&name| found.get(name).map(|value| (name.to_owned(), value.clone()))).collect()
    }
}

/// Refuses a request for reports if the server does not sign any, or if a text is given as tokens.
fn check_report(service: &Service, texts: &[DetectInput]) -> Result<(), Refusal> {
    let (code, message) = if service.options.reporter.is_none() {
        ("no_report_key", "this server signs no reports: leave the field out, or use another server")
    } else if texts.iter().any(|text| matches!(text, DetectInput::Tokens(_))) {
        ("contradiction", "a report is about a text: give text or texts instead of token_ids")
    } else {
        return Ok(());
    };
    Err(Refusal::field("report", code, message))
}

/// The result for one of several texts that could not be judged.
fn fault(refusal: &Refusal) -> Value {
    json!({"format": FORMAT, "verdict": "error", "error": refusal.message, "code": refusal.code})
}

/// Takes the markers of thoughts that may precede answers.
fn thoughts(body: &mut Fields, has_constraint: bool) -> Result<Option<&'static ReasoningSyntax>, Refusal> {
    const NAME: &str = "reasoning_format";
    let Some(name) = body.take::<String>(NAME)? else { return Ok(None) };
    if !has_constraint {
        return Err(Refusal::field(NAME, "contradiction", "reasoning_format needs a constraint on the answer"));
    }
    let known = || ReasoningSyntax::names().collect::<Vec<_>>().join(", ");
    let syntax = ReasoningSyntax::named(&name).ok_or_else(|| {
        Refusal::field(NAME, "invalid_value", format!("{NAME} is {name:?}, but must be one of {}", known()))
    })?;
    Ok(Some(syntax))
}

/// Takes the texts; also returns whether they are in the field `texts`.
fn texts(body: &mut Fields) -> Result<(Vec<DetectInput>, bool), Refusal> {
    let several = body.items("texts")?;
    match (body.take("text")?, body.take("token_ids")?, several) {
        (Some(text), None, None) => Ok((vec![DetectInput::Plain(text)], false)),
        (None, Some(tokens), None) => Ok((vec![DetectInput::Tokens(tokens)], false)),
        (None, None, None) => Err(Refusal::field("text", "missing_field", "text is missing: the request needs it")),
        (None, None, Some(texts)) if texts.len() > TEXTS => {
            let message = format!("texts has {} texts, but must have at most {TEXTS}", texts.len());
            Err(Refusal::field("texts", "invalid_value", message))
        }
        (None, None, Some(texts)) => {
            let texts = texts.into_iter().map(|(path, text)| read(text, path).map(DetectInput::Plain));
            Ok((texts.collect::<Result<_, _>>()?, true))
        }
        (text, ..) => {
            let param = if text.is_some() { "text" } else { "token_ids" };
            Err(Refusal::field(param, "contradiction", "give one of text, token_ids and texts"))
        }
    }
}

impl Wanted {
    /// Refuses fields that require the right `detect`.
    ///
    /// # Errors
    /// If there is such a field, which the refusal names.
    fn is_for_strangers(&self) -> Result<(), Refusal> {
        let Look { level, passages, tokens, course, .. } = self.look;
        let asked =
            [("level", level != Level::DEFAULT), ("windows", passages), ("tokens", tokens), ("course", course > 0)];
        match asked.iter().find(|(_, is_asked)| *is_asked) {
            None => Ok(()),
            Some((field, _)) => {
                let message = format!(
                    "{field} requires an API key with the right detect; without it only verdicts are returned: leave \
                     the field out"
                );
                Err(Refusal { param: Some((*field).into()), ..Refusal::new(403, "not_allowed", message) })
            }
        }
    }

    fn take(body: &mut Fields) -> Result<Self, Refusal> {
        let constraint = ConstraintField::of_detection(body)?;
        Ok(Self {
            model: body.take("model")?,
            key_id: body.take("key_id")?,
            look: Look {
                level: level(body)?,
                passages: body.take("windows")?.unwrap_or(false),
                tokens: body.take("tokens")?.unwrap_or(false),
                course: if body.take("course")?.unwrap_or(false) { POINTS } else { 0 },
                ..Look::default()
            },
            thoughts: thoughts(body, constraint.is_some())?,
            constraint,
            report: body.take("report")?.unwrap_or(false),
        })
    }

    /// Tests one text. `left` is the number of tokens that may still be returned one by one.
    fn found(
        &self,
        reader: &Reader,
        keys: &[&Key],
        text: &DetectInput,
        left: &mut u64,
        shown: &Shown<'_>,
    ) -> Result<Value, Refusal> {
        let judgement = match text {
            DetectInput::Plain(text) => reader.judge(keys, text, &self.look),
            DetectInput::Tokens(tokens) => {
                check(reader, tokens)?;
                reader.judge_tokens(keys, tokens, &self.look)
            }
        };
        let judgement = judgement.map_err(|error| refusal(error, text))?;
        let (hint, judged) = match text {
            DetectInput::Plain(text) => (Hint::of(text, &judgement), JudgedInput::Text(text)),
            DetectInput::Tokens(tokens) => (None, JudgedInput::Tokens(tokens)),
        };
        let hint = hint.map(|hint| hint.advice(PASSAGES));
        let mut answer = Answer::new(&judgement, hint.clone());
        if self.look.course > 0 {
            answer = answer.with_course(&judgement);
        }
        if self.look.tokens {
            *left = left.checked_sub(judgement.evidence.tokens).ok_or_else(|| {
                let message =
                    format!("with tokens: true all texts together may have {MOST_TOKENS} tokens: leave it out");
                Refusal::field("tokens", "too_many_tokens", message)
            })?;
            answer = answer.with_tokens(reader, &judgement, judged);
        }
        let mut found = shown.of(serde_json::to_value(answer).unwrap_or(Value::Null));
        if let (Some(reporter), DetectInput::Plain(text)) = (shown.reporter, text) {
            // Without the text, which the marks of tokens contain.
            let verdict = serde_json::to_value(judgement.verdict().with_hint(hint)).unwrap_or(Value::Null);
            let signed = reporter.sign(Content::of(text), keys, &judgement, shown.of(verdict));
            let signed = signed.map_err(|error| Refusal::field("report", "report_too_long", error.to_string()))?;
            found["report"] = json!(signed);
        }
        Ok(found)
    }
}

fn level(body: &mut Fields) -> Result<Level, Refusal> {
    let level = body.take("level")?.map_or(Ok(Level::DEFAULT), Level::new);
    level.map_err(|bad| Refusal::field("level", "invalid_value", format!("level {bad}")))
}

/// Refuses token ids that are not in the vocabulary.
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

fn refusal(error: DetectError, text: &DetectInput) -> Refusal {
    let param = if matches!(text, DetectInput::Plain(_)) { "text" } else { "token_ids" };
    match error {
        DetectError::Read(_) => Refusal::field(param, "invalid_value", error.to_string()),
        DetectError::Constraint(_) => Refusal::field(param, "another_form", error.to_string()),
        error => Error::Detect(error).into(),
    }
}
