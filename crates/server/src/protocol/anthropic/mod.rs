//! Anthropic's `/v1/messages`.
//!
//! | module | holds |
//! |---|---|
//! | `messages` | the conversation: blocks of content |
//! | `tools` | tools, and which must be called |

mod messages;
mod tools;

use verdigris::{Conversation, Message, Prompt, Turn};

use crate::protocol::ask::{Ask, Stream};
use crate::protocol::constraint::ConstraintField;
use crate::protocol::fields::Fields;
use crate::protocol::foreign;
use crate::protocol::reasoning::ReasoningField;
use crate::protocol::refusal::Refusal;
use crate::protocol::sampling::Sampled;
use crate::protocol::tools::Tools;

/// The maximum number of stop strings.
const STOPS: usize = 16;

/// Fields that have no effect: options of Anthropic's service, and of what other programs do with an answer.
pub(crate) const NO_EFFECT: &[&str] =
    &["cache_control", "context_management", "diagnostics", "inference_geo", "speed", "betas", "user_profile_id"];

/// Fields that need Anthropic's service.
const UNSUPPORTED: [(&str, &str); 2] = [
    ("container", "leave it out: this server runs no code"),
    ("mcp_servers", "leave it out, and call the servers from the client, as tools"),
];

/// Reads a request to `/v1/messages`.
pub(crate) fn take(mut body: Fields) -> Result<Ask, Refusal> {
    let (conversation, tools) = conversation(&mut body)?;
    let max_tokens = body.count("max_tokens", 1, usize::MAX)?;
    let constraint = output_format(&mut body)?;
    let stream = body.take("stream")?.unwrap_or(false).then_some(Stream { include_usage: true });
    // There is only one answer.
    body.count("n", 1, 1)?;
    let sampling = Sampled::take_with_stop(&mut body, "stop_sequences", STOPS)?;
    refuse_services(&mut body)?;
    let mut ask = Ask::sampled(body, sampling, vec![Prompt::Chat(conversation)], max_tokens)?;
    ask.constraint = ConstraintField::one_of(constraint, ask.constraint)?;
    Ok(Ask { tools, stream, ..ask })
}

/// Reads a request to `/v1/messages/count_tokens`: the conversation, the tools and the name of the model.
pub(crate) fn take_count(mut body: Fields) -> Result<(Conversation, Option<Tools>, Option<String>), Refusal> {
    let (conversation, tools) = conversation(&mut body)?;
    let model = body.take("model")?;
    output_format(&mut body)?;
    refuse_services(&mut body)?;
    let prompt = ReasoningField::take(&mut body, true)?.prompt(Prompt::Chat(conversation));
    let Prompt::Chat(conversation) = prompt else { unreachable!("it is a chat") };
    foreign::take(&mut body)?;
    body.end()?;
    Ok((conversation, tools, model))
}

/// Takes the messages and the tools. A last message of the model is continued.
fn conversation(body: &mut Fields) -> Result<(Conversation, Option<Tools>), Refusal> {
    let mut all = messages::take_system(body)?;
    messages::take(body, &mut all)?;
    let is_begun = |last: &Message| last.role == "assistant" && !last.more.contains_key("tool_calls");
    let turn = if all.last().is_some_and(is_begun) { Turn::Within } else { Turn::Next };
    let tools = tools::take(body)?;
    Ok((Conversation { turn, ..all.into() }, tools))
}

/// Takes the format of the answer, in `output_config` or its earlier field.
fn output_format(body: &mut Fields) -> Result<Option<ConstraintField>, Refusal> {
    let mut constraint = None;
    if let Some(mut config) = body.object("output_config")? {
        constraint = ConstraintField::of_text(&mut config)?;
        // The models here have no levels of effort.
        config.ignore(&["effort", "task_budget"]);
        config.end()?;
    }
    ConstraintField::one_of(constraint, ConstraintField::of_field(body, "output_format")?)
}

fn refuse_services(body: &mut Fields) -> Result<(), Refusal> {
    body.ignore(NO_EFFECT);
    UNSUPPORTED.iter().try_for_each(|(name, remedy)| {
        body.unsupported(name, |value| value.as_array().is_some_and(Vec::is_empty), remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn taken(body: Value) -> Result<Ask, Refusal> {
        take(Fields::of(body, "").unwrap())
    }

    fn turn(messages: Value) -> Turn {
        match &taken(json!({"messages": messages})).unwrap().prompts[0] {
            Prompt::Chat(conversation) => conversation.turn,
            _ => panic!("a conversation"),
        }
    }

    #[test]
    fn a_request_is_read_whole() {
        let ask = taken(json!({
            "model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": true,
            "stop_sequences": ["a", "b", "c", "d", "e"], "temperature": 0.5, "top_k": 5, "seed": 3,
            "metadata": {"user_id": "u"}, "service_tier": "auto", "thinking": {"type": "disabled"},
            "context_management": {"edits": []}, "output_config": {"effort": "low", "format": {
                "type": "json_schema", "schema": {"type": "integer"},
            }},
            "watermarking": true, "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        }))
        .unwrap();
        assert_eq!(
            (ask.model.as_deref(), ask.max_tokens, ask.watermarking),
            (Some("m"), Some(9), Some((true, "watermarking")))
        );
        assert!(ask.stream.is_some() && ask.tools.is_some());
        let schema = json!({"type": "integer"});
        assert_eq!(ask.constraint, Some(ConstraintField::json_schema(schema.clone(), "output_config.format.schema")));
        let older = json!({
            "messages": [{"role": "user", "content": "Hi"}], "output_format": {"type": "json_schema", "schema": schema},
        });
        let older = taken(older).unwrap();
        assert_eq!(older.constraint, Some(ConstraintField::json_schema(schema, "output_format.schema")));
        assert!(older.stream.is_none());
    }

    #[test]
    fn a_last_message_of_the_model_is_continued() {
        let user = json!({"role": "user", "content": "Hi"});
        assert_eq!(turn(json!([user])), Turn::Next);
        assert_eq!(turn(json!([user, {"role": "assistant", "content": "Once"}])), Turn::Within);
        let call = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
        assert_eq!(turn(json!([user, {"role": "assistant", "content": [call]}])), Turn::Next);
    }

    #[test]
    fn requests_that_cannot_be_answered_are_refused() {
        let hi = json!([{"role": "user", "content": "Hi"}]);
        for (body, param) in [
            (json!({}), "messages"),
            (json!({"messages": hi, "max_tokens": 0}), "max_tokens"),
            (json!({"messages": hi, "n": 2}), "n"),
            (json!({"messages": hi, "stop_sequences": [""]}), "stop_sequences"),
            (json!({"messages": hi, "thinking": {"type": "often"}}), "thinking.type"),
            (json!({"messages": hi, "mcp_servers": [{"name": "x"}]}), "mcp_servers"),
            (json!({"messages": hi, "container": "c"}), "container"),
            (json!({"messages": hi, "output_config": {"format": {"type": "xml"}}}), "output_config.format.type"),
            (json!({"messages": hi, "max_tokens_to_sample": 4}), "max_tokens_to_sample"),
            (
                json!({"messages": hi, "output_config": {"format": {"type": "json_object"}}, "guided_regex": "a"}),
                "guided_regex",
            ),
        ] {
            let refusal = taken(body.clone()).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{body}");
        }
        assert!(taken(json!({"messages": hi, "mcp_servers": [], "container": null})).is_ok());
    }
}
