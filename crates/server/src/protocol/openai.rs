//! OpenAI's chats and completions, with the fields that vLLM and others add.

use serde_json::Value;
use verdigris::logits::TokenId;
use verdigris::{Conversation, Message, Prompt, Turn};

use crate::protocol::ask::{Ask, Stream, TOP_LOGPROBS};
use crate::protocol::fields::{Fields, read};
use crate::protocol::messages;
use crate::protocol::refusal::Refusal;
use crate::protocol::tools::{ToolShape, Tools};

/// The maximum number of prompts of one request.
const PROMPTS: usize = 128;

/// The names of the maximum number of tokens in other servers.
pub(crate) const MAX_TOKENS: [&str; 3] = ["max_new_tokens", "n_predict", "num_predict"];

/// Reads a request to `/v1/chat/completions`.
pub(crate) fn chat(mut body: Fields) -> Result<Ask, Refusal> {
    let messages = messages::take(&mut body, "messages")?;
    let turn = turn(&mut body, &messages)?;
    let prompt = Prompt::Chat(Conversation { turn, ..messages.into() });
    let max_tokens = max_tokens(&mut body)?;
    let top = body.count("top_logprobs", 0, TOP_LOGPROBS)?;
    let logprobs = match (body.take("logprobs")?.unwrap_or(false), top) {
        (false, Some(1..)) => {
            let message = "top_logprobs requires logprobs: true: set it too, or leave top_logprobs out";
            return Err(Refusal::field("top_logprobs", "invalid_value", message));
        }
        (wanted, top) => wanted.then_some(top.unwrap_or(0)),
    };
    let functions = Tools::take_functions(&mut body)?;
    let is_function_call = functions.is_some();
    let tools = match (Tools::take(&mut body, ToolShape::Nested)?, functions) {
        (Some(_), Some(_)) => {
            let message = "functions and tools both describe tools: give only tools";
            return Err(Refusal::field("functions", "contradiction", message));
        }
        (tools, functions) => tools.or(functions),
    };
    let stream = stream(&mut body)?;
    Ok(Ask { tools, is_function_call, stream, logprobs, ..Ask::whole(body, vec![prompt], max_tokens)? })
}

/// Reads a request to `/v1/completions`.
pub(crate) fn completion(mut body: Fields) -> Result<Ask, Refusal> {
    let path = body.path("prompt");
    let prompts = prompts(body.value("prompt").ok_or_else(|| body.missing("prompt"))?, &path)?;
    if !(1..=PROMPTS).contains(&prompts.len()) {
        let message = format!("{path} has {} texts, but must have 1 to {PROMPTS}", prompts.len());
        return Err(Refusal::field(path, "invalid_value", message));
    }
    let max_tokens = max_tokens(&mut body)?;
    let logprobs = body.count("logprobs", 0, TOP_LOGPROBS)?;
    let echo = body.take("echo")?.unwrap_or(false);
    let stream = stream(&mut body)?;
    Ok(Ask { stream, logprobs, echo, ..Ask::whole(body, prompts, max_tokens)? })
}

/// Takes the maximum number of tokens: `max_completion_tokens`, its older name `max_tokens`, or the name of another
/// server. There, -1 and -2 mean none.
fn max_tokens(body: &mut Fields) -> Result<Option<usize>, Refusal> {
    let older = body.count("max_tokens", 1, usize::MAX)?;
    let mut max_tokens = body.count("max_completion_tokens", 1, usize::MAX)?.or(older);
    for name in MAX_TOKENS {
        max_tokens = max_tokens.or(count_or_all(body, name)?);
    }
    Ok(max_tokens)
}

/// Takes a maximum number of tokens, of which -1 and -2 mean none.
pub(super) fn count_or_all(body: &mut Fields, name: &str) -> Result<Option<usize>, Refusal> {
    match body.number_if(name, |number| number == -1.0 || number == -2.0) {
        Some(_) => Ok(None),
        None => body.count(name, 1, usize::MAX),
    }
}

/// Takes how the prompt ends: with the beginning of the next message, after the last one, or within it.
pub(crate) fn turn(body: &mut Fields, messages: &[Message]) -> Result<Turn, Refusal> {
    let begins_next = body.take::<bool>("add_generation_prompt")?;
    let continues_last = body.take::<bool>("continue_final_message")?.unwrap_or(false);
    match (begins_next, continues_last) {
        (Some(true), true) => {
            let message = "the last message is continued, so no other begins: set add_generation_prompt to false";
            Err(Refusal::field("add_generation_prompt", "contradiction", message))
        }
        (_, true) => match messages.last() {
            Some(last) if last.role == "assistant" && !last.more.contains_key("tool_calls") => Ok(Turn::Within),
            _ => {
                let message = "the last message is not words of the assistant, so it cannot be continued";
                Err(Refusal::field("continue_final_message", "invalid_value", message))
            }
        },
        (Some(false), false) => Ok(Turn::After),
        (_, false) => Ok(Turn::Next),
    }
}

/// Takes the options of a streamed answer; `None` for a complete one.
fn stream(body: &mut Fields) -> Result<Option<Stream>, Refusal> {
    let options = body.object("stream_options")?;
    Ok(match (body.take("stream")?.unwrap_or(false), options) {
        (false, None) => None,
        (false, Some(_)) => {
            let message = "stream_options requires stream: true: set it too, or leave stream_options out";
            return Err(Refusal::field("stream_options", "invalid_value", message));
        }
        (true, None) => Some(Stream { include_usage: false }),
        (true, Some(mut options)) => {
            let include_usage = options.take("include_usage")?.unwrap_or(false);
            options.ignore(&["include_obfuscation"]);
            options.end()?;
            Some(Stream { include_usage })
        }
    })
}

/// Reads a text, several texts, the tokens of one, or the tokens of several.
fn prompts(value: Value, path: &str) -> Result<Vec<Prompt>, Refusal> {
    let items = match value {
        Value::String(text) => return Ok(vec![Prompt::Text(text)]),
        other => read::<Vec<Value>>(other, path.into())?,
    };
    if items.first().is_some_and(Value::is_number) {
        return Ok(vec![read::<Vec<TokenId>>(Value::Array(items), path.into())?.into()]);
    }
    let prompt = |(at, item): (usize, Value)| match item {
        Value::String(text) => Ok(Prompt::Text(text)),
        other => read::<Vec<TokenId>>(other, format!("{path}[{at}]")).map(Prompt::from),
    };
    items.into_iter().enumerate().map(prompt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(body: Value) -> Fields {
        Fields::of(body, "").unwrap()
    }

    #[test]
    fn a_chat_is_read_whole() {
        let ask = chat(fields(json!({
            "model": "smol", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9,
            "max_completion_tokens": 7,
            "n": 2, "stream": true, "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 3,
            "user": "ann", "temperature": 0, "watermark": {"enabled": true}, "return_token_ids": true,
        })))
        .unwrap();
        assert_eq!((ask.model.as_deref(), ask.choices, ask.max_tokens), (Some("smol"), 2, Some(7)));
        assert_eq!((ask.logprobs, ask.stream), (Some(3), Some(Stream { include_usage: true })));
        assert_eq!((ask.watermarking, ask.return_token_ids), (Some((true, "watermark.enabled")), true));
    }

    #[test]
    fn other_names_and_endings_are_read() {
        let assistant = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Once"}]);
        let ask = |more: Value| {
            let mut body = json!({"messages": assistant});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let ask = chat(fields(body)).unwrap();
            let Prompt::Chat(Conversation { turn, .. }) = ask.prompts[0] else { panic!("a chat") };
            (turn, ask.max_tokens)
        };
        assert_eq!(ask(json!({})), (Turn::Next, None));
        assert_eq!(ask(json!({"add_generation_prompt": false, "num_predict": 7})), (Turn::After, Some(7)));
        let both = json!({"add_generation_prompt": false, "continue_final_message": true, "n_predict": -1});
        assert_eq!(ask(both), (Turn::Within, None));
        assert_eq!(ask(json!({"continue_final_message": true, "max_new_tokens": 5})), (Turn::Within, Some(5)));
        assert_eq!(ask(json!({"max_tokens": 3, "max_new_tokens": 5})), (Turn::Next, Some(3)));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let hi = json!([{"role": "user", "content": "Hi"}]);
        for (body, param) in [
            (json!({"messages": hi, "top_logprobs": 2}), "top_logprobs"),
            (json!({"messages": hi, "stream_options": {}}), "stream_options"),
            (json!({"messages": hi, "stream": true, "stream_options": {"chunks": 1}}), "stream_options.chunks"),
            (json!({"messages": hi, "n": 0}), "n"),
            (json!({"messages": hi, "n": 1000000}), "n"),
            (json!({"messages": hi, "max_tokens": -5}), "max_tokens"),
            (json!({"messages": hi, "max_tokens": 1e300}), "max_tokens"),
            (json!({"messages": hi, "prompt": "x"}), "prompt"),
            (json!({"messages": hi, "continue_final_message": true}), "continue_final_message"),
            (
                json!({"messages": [{"role": "assistant", "content": "A"}], "continue_final_message": true,
                    "add_generation_prompt": true}),
                "add_generation_prompt",
            ),
            (
                json!({"messages": hi, "functions": [{"name": "f"}],
                    "tools": [{"type": "function", "function": {"name": "g"}}]}),
                "functions",
            ),
            (json!({"messages": hi, "num_predict": -3}), "num_predict"),
        ] {
            assert_eq!(chat(fields(body.clone())).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        for (body, param) in [
            (json!({}), "prompt"),
            (json!({"prompt": []}), "prompt"),
            (json!({"prompt": [3, "x"]}), "prompt"),
            (json!({"prompt": [[3], [-1]]}), "prompt[1]"),
            (json!({"prompt": 3}), "prompt"),
            (json!({"prompt": "x", "logprobs": true}), "logprobs"),
            (json!({"prompt": "x", "suffix": "y"}), "suffix"),
        ] {
            assert_eq!(completion(fields(body.clone())).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
        assert_eq!(Fields::of(json!([]), "").err().unwrap().message, "the body is an array, but must be an object");
    }
}
