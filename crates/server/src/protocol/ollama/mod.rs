//! Ollama's `/api/chat` and `/api/generate`.
//!
//! | module | holds |
//! |---|---|
//! | `messages` | the conversation |

mod messages;

use serde_json::Value;
use verdigris::{Message, Prompt};

use crate::protocol::ask::{Ask, Stream, TOP_LOGPROBS};
use crate::protocol::constraint::{ConstraintField, any_object};
use crate::protocol::fields::Fields;
use crate::protocol::foreign;
use crate::protocol::openai::count_or_all;
use crate::protocol::refusal::Refusal;
use crate::protocol::sampling::Sampled;
use crate::protocol::tools::{ToolShape, Tools};

/// The maximum number of stop strings.
const STOPS: usize = 16;

/// Fields that have no effect: no prompt is ever cut to the context.
pub(crate) const NO_EFFECT: &[&str] = &["truncate", "shift"];

/// Options that say how Ollama runs a model.
pub(crate) const RUNNING: &[&str] = &[
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "numa",
    "low_vram",
    "f16_kv",
    "logits_all",
    "vocab_only",
    "use_mmap",
    "use_mlock",
    "embedding_only",
];

/// The reason that the answer to a request that loads a model gives.
pub(crate) const LOAD: &str = "load";

/// A request.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Nothing is to be written: clients load or unload a model so.
    Nothing {
        model: Option<String>,
        /// The reason that the answer gives.
        reason: &'static str,
    },
    Text(Box<Ask>),
}

/// Reads a request to `/api/chat`.
pub(crate) fn chat(mut body: Fields) -> Result<Asked, Refusal> {
    let messages = messages::take(&mut body)?;
    let (is_nothing, reason) = (messages.is_empty(), reason(&mut body));
    let tools = Tools::take(&mut body, ToolShape::Nested)?;
    let ask = text(body, messages.into(), tools)?;
    Ok(if is_nothing { Asked::Nothing { model: ask.model, reason } } else { Asked::Text(Box::new(ask)) })
}

/// Reads a request to `/api/generate`, for a model with or without a chat template.
pub(crate) fn generate(mut body: Fields, has_template: bool) -> Result<Asked, Refusal> {
    for (name, remedy) in [
        ("suffix", "leave it out: texts only continue prompts"),
        ("context", "send the conversation to /api/chat"),
        ("template", "leave it out: the operator chooses the model and its chat template"),
        ("images", "leave it out: this server only reads text"),
    ] {
        let is_empty =
            |value: &Value| value.as_str().is_some_and(str::is_empty) || value.as_array().is_some_and(Vec::is_empty);
        body.unsupported(name, is_empty, remedy)?;
    }
    let prompt = body.take::<String>("prompt")?.unwrap_or_default();
    let system = body.take::<String>("system")?.filter(|system| !system.is_empty());
    let is_raw = body.take("raw")?.unwrap_or(false) || !has_template;
    let (is_nothing, reason) = (prompt.is_empty(), reason(&mut body));
    let prompt = match (is_raw, system) {
        (true, None) => Prompt::Text(prompt),
        (true, Some(_)) => {
            let message = "system is only used with a chat template, and here is none: put it into the prompt";
            return Err(Refusal::field("system", "no_chat_template", message));
        }
        (false, system) => {
            let system = system.map(Message::system);
            system.into_iter().chain([Message::user(prompt)]).collect::<Vec<_>>().into()
        }
    };
    let ask = text(body, prompt, None)?;
    Ok(if is_nothing { Asked::Nothing { model: ask.model, reason } } else { Asked::Text(Box::new(ask)) })
}

/// The reason that the answer to a request without a text gives.
fn reason(body: &mut Fields) -> &'static str {
    let is_unload = body.value("keep_alive").is_some_and(|kept| kept.as_f64() == Some(0.0) || kept == "0");
    if is_unload { "unload" } else { LOAD }
}

fn text(mut body: Fields, prompt: Prompt, tools: Option<Tools>) -> Result<Ask, Refusal> {
    let (sampling, max_tokens) = match body.object("options")? {
        Some(options) => sampled(options)?,
        None => (Sampled::default(), None),
    };
    let constraint = format(&mut body)?;
    let top = body.count("top_logprobs", 0, TOP_LOGPROBS)?;
    let logprobs = body.take("logprobs")?.unwrap_or(false).then_some(top.unwrap_or(0));
    let is_stream = body.take("stream")?.unwrap_or(true);
    let stream = is_stream.then_some(Stream { include_usage: true });
    // There is only one answer.
    body.count("n", 1, 1)?;
    body.ignore(NO_EFFECT);
    let mut ask = Ask::sampled(body, sampling, vec![prompt], max_tokens)?;
    ask.limit = "options.num_predict";
    ask.constraint = ConstraintField::one_of(constraint, ask.constraint)?;
    Ok(Ask { tools, logprobs, stream, ..ask })
}

/// Takes the sampling parameters and the maximum number of tokens.
fn sampled(mut options: Fields) -> Result<(Sampled, Option<usize>), Refusal> {
    let sampling = Sampled::take_with_stop(&mut options, "stop", STOPS)?;
    let max_tokens = count_or_all(&mut options, "num_predict")?;
    options.ignore(RUNNING);
    foreign::take(&mut options)?;
    options.end()?;
    Ok((sampling, max_tokens))
}

/// Takes `format`: `json`, or a schema.
fn format(body: &mut Fields) -> Result<Option<ConstraintField>, Refusal> {
    match body.value("format") {
        None => Ok(None),
        Some(schema @ Value::Object(_)) => Ok(Some(ConstraintField::json_schema(schema, "format"))),
        Some(Value::String(word)) if word.is_empty() => Ok(None),
        Some(Value::String(word)) if word == "json" => Ok(Some(ConstraintField::json_schema(any_object(), "format"))),
        Some(_) => Err(Refusal::field("format", "invalid_value", "format must be \"json\" or a JSON Schema")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use verdigris::Sampling;

    fn asked(body: Value) -> Result<Asked, Refusal> {
        match body.get("prompt").is_some() {
            true => generate(Fields::of(body, "").unwrap(), true),
            false => chat(Fields::of(body, "").unwrap()),
        }
    }

    fn taken(body: Value) -> Ask {
        match asked(body).unwrap() {
            Asked::Text(ask) => *ask,
            Asked::Nothing { .. } => panic!("a text"),
        }
    }

    fn chat_of(ask: &Ask) -> &[Message] {
        match &ask.prompts[0] {
            Prompt::Chat(conversation) => &conversation.messages,
            _ => panic!("a conversation"),
        }
    }

    #[test]
    fn a_request_is_read_whole() {
        let ask = taken(json!({
            "model": "m", "messages": [{"role": "user", "content": "Hi"}], "format": "json", "think": false,
            "keep_alive": "5m", "truncate": true, "logprobs": true, "top_logprobs": 2,
            "options": {"temperature": 0.5, "num_predict": 7, "num_ctx": 4096, "num_gpu": 1, "repeat_penalty": 1.1,
                "stop": ["a", "b", "c", "d", "e"], "mirostat": 0, "penalize_newline": true, "seed": 3},
        }));
        assert_eq!((ask.max_tokens, ask.logprobs, ask.sampling.seed), (Some(7), Some(2), Some(3)));
        let expected = Sampling { temperature: 0.5, repetition_penalty: 1.1, ..Sampling::default() };
        assert_eq!(ask.sampling.options, expected);
        assert!(ask.stream.is_some() && ask.constraint.is_some());
        let ask = taken(json!({
            "prompt": "Hi", "system": "Be brief.", "stream": false, "format": {"type": "integer"},
            "options": {"num_predict": -1},
        }));
        assert_eq!(chat_of(&ask), [Message::system("Be brief."), Message::user("Hi")]);
        assert_eq!(ask.constraint, Some(ConstraintField::json_schema(json!({"type": "integer"}), "format")));
        assert!(ask.stream.is_none() && ask.max_tokens.is_none());
    }

    #[test]
    fn a_prompt_may_be_used_unchanged() {
        for (raw, has_template) in [(true, true), (false, false)] {
            let body = json!({"prompt": "Once", "raw": raw, "format": ""});
            let Ok(Asked::Text(ask)) = generate(Fields::of(body, "").unwrap(), has_template) else { panic!("a text") };
            assert!(matches!(&ask.prompts[0], Prompt::Text(text) if text == "Once") && ask.constraint.is_none());
        }
        let raw = json!({"prompt": "a", "raw": true, "system": "b"});
        assert_eq!(asked(raw).unwrap_err().param.as_deref(), Some("system"));
    }

    #[test]
    fn without_a_prompt_nothing_is_written() {
        for (body, expected) in [
            (json!({"model": "m", "messages": []}), "load"),
            (json!({"model": "m"}), "load"),
            (json!({"model": "m", "prompt": "", "keep_alive": 0}), "unload"),
        ] {
            let Asked::Nothing { model, reason } = asked(body).unwrap() else { panic!("nothing") };
            assert_eq!((model.as_deref(), reason), (Some("m"), expected));
        }
    }

    #[test]
    fn requests_that_cannot_be_answered_are_refused() {
        let hi = json!([{"role": "user", "content": "Hi"}]);
        for (body, param) in [
            (json!({"messages": hi, "format": "xml"}), "format"),
            (json!({"messages": hi, "format": ["json"]}), "format"),
            (json!({"messages": hi, "think": 3}), "think"),
            (json!({"messages": hi, "options": {"temperature": -1}}), "options.temperature"),
            (json!({"messages": hi, "options": {"num_predict": -3}}), "options.num_predict"),
            (json!({"messages": hi, "options": {"repeat_penalty": 1.5, "repeat_last_n": 64}}), "options.repeat_last_n"),
            (json!({"messages": hi, "options": {"tfs_z": 0.5}}), "options.tfs_z"),
            (json!({"messages": hi, "temperature": 0.5}), "temperature"),
            (json!({"messages": hi, "format": "json", "guided_regex": "a"}), "guided_regex"),
            (json!({"messages": [], "options": {"temperature": -1}}), "options.temperature"),
            (json!({"prompt": "", "watermarking": "yes"}), "watermarking"),
            (json!({"prompt": "a", "suffix": "b"}), "suffix"),
            (json!({"prompt": "a", "context": [1, 2]}), "context"),
            (json!({"prompt": "a", "images": ["aGk="]}), "images"),
        ] {
            let refusal = asked(body.clone()).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{body}");
        }
    }
}
