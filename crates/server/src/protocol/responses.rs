//! `/v1/responses`: the same requests in OpenAI's newer protocol. Nothing is stored.

use serde_json::{Map, Value, json};
use verdigris::{Message, Prompt};

use crate::protocol::ask::{Ask, Stream, TOP_LOGPROBS};
use crate::protocol::constraint::ConstraintField;
use crate::protocol::fields::Fields;
use crate::protocol::messages::{Called, text, with_reasoning};
use crate::protocol::refusal::Refusal;
use crate::protocol::tools::{ToolShape, Tools, arguments};
use crate::protocol::unknown::Unknown;

/// The fields that an answer repeats from its request, with their defaults; those of sampling are added.
fn repeated() -> [(&'static str, Value); 12] {
    [
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", json!(true)),
        ("prompt_cache_key", Value::Null),
        ("reasoning", json!({"effort": null, "summary": null})),
        ("safety_identifier", Value::Null),
        ("text", json!({"format": {"type": "text"}})),
        ("tool_choice", json!("auto")),
        ("tools", json!([])),
        ("top_logprobs", json!(0)),
        ("user", Value::Null),
    ]
}

/// Reads a request; also returns the fields that the answer repeats.
pub(crate) fn take(body: Value, unknown: &Unknown) -> Result<(Ask, Map<String, Value>), Refusal> {
    let mut asked = Map::new();
    for (name, usual) in repeated() {
        let said = body.get(name).filter(|value| !value.is_null()).cloned();
        asked.insert(name.into(), said.unwrap_or(usual));
    }
    asked.insert("truncation".into(), json!("disabled"));
    let mut body = Fields::body(body, unknown)?;
    refuse_what_is_stored(&mut body)?;
    let mut messages = Vec::new();
    messages.extend(body.take::<String>("instructions")?.map(Message::system));
    input(&mut body, &mut messages)?;
    let max_tokens = body.count("max_output_tokens", 1, usize::MAX)?;
    let constraint = match body.object("text")? {
        None => None,
        Some(mut text) => {
            let constraint = ConstraintField::of_text(&mut text)?;
            text.ignore(&["verbosity"]);
            text.end()?;
            constraint
        }
    };
    let tools = Tools::take(&mut body, ToolShape::Flat)?;
    let logprobs = logprobs(&mut body)?;
    let stream = body.take("stream")?.unwrap_or(false).then_some(Stream { include_usage: true });
    if let Some(mut options) = body.object("stream_options")? {
        options.ignore(&["include_obfuscation"]);
        options.end()?;
    }
    // There is only one answer.
    body.count("n", 1, 1)?;
    let mut ask = Ask::whole(body, vec![Prompt::from(messages)], max_tokens)?;
    ask.constraint = ConstraintField::one_of(constraint, ask.constraint)?;
    let options = &ask.sampling.options;
    asked.extend(
        [("temperature", options.temperature), ("top_p", options.mass())]
            .map(|(name, value)| (name.to_owned(), value.into())),
    );
    Ok((Ask { tools, logprobs, stream, conversation: "input", limit: "max_output_tokens", ..ask }, asked))
}

/// Refuses fields that need stored answers.
fn refuse_what_is_stored(body: &mut Fields) -> Result<(), Refusal> {
    for (name, usual) in [("store", false), ("background", false)] {
        if body.take::<bool>(name)?.unwrap_or(usual) != usual {
            let message = format!("{name} is true, but this server stores nothing: leave it out, or set it to false");
            return Err(Refusal::field(name, "nothing_is_stored", message));
        }
    }
    for name in ["previous_response_id", "conversation", "prompt"] {
        if body.value(name).is_some() {
            let message =
                format!("{name} refers to stored data, but this server stores nothing: send the data as input");
            return Err(Refusal::field(name, "nothing_is_stored", message));
        }
    }
    Ok(())
}

/// The number of most probable tokens to list with each token; `None` without log-probabilities.
fn logprobs(body: &mut Fields) -> Result<Option<usize>, Refusal> {
    let mut is_included = false;
    for (path, item) in body.items("include")?.unwrap_or_default() {
        match item.as_str() {
            Some("message.output_text.logprobs") => is_included = true,
            // No answer has any of these.
            Some(
                "reasoning.encrypted_content"
                | "file_search_call.results"
                | "web_search_call.results"
                | "web_search_call.action.sources"
                | "code_interpreter_call.outputs"
                | "computer_call_output.output.image_url"
                | "message.input_image.image_url",
            ) => (),
            _ => {
                let message = format!("{path} is nothing that this server can include: leave it out");
                return Err(Refusal::field(path, "invalid_value", message));
            }
        }
    }
    match (is_included, body.count("top_logprobs", 0, TOP_LOGPROBS)?) {
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => {
            let message = "top_logprobs requires message.output_text.logprobs in include: add it";
            Err(Refusal::field("top_logprobs", "invalid_value", message))
        }
        (true, top) => Ok(Some(top.unwrap_or(0))),
    }
}

/// Takes a text, or the items of a conversation.
fn input(body: &mut Fields, messages: &mut Vec<Message>) -> Result<(), Refusal> {
    let path = body.path("input");
    match body.value("input").ok_or_else(|| body.missing("input"))? {
        Value::String(text) => messages.push(Message::user(text)),
        Value::Array(items) if !items.is_empty() => {
            let mut earlier = Earlier::default();
            for (at, item) in items.into_iter().enumerate() {
                take_item(body.within(item, format!("{path}[{at}]"))?, &mut earlier, messages)?;
            }
        }
        _ => {
            let message = format!("{path} must be a text, or an array of at least one item");
            return Err(Refusal::field(path, "invalid_type", message));
        }
    }
    Ok(())
}

/// The earlier items that a later one refers to.
#[derive(Default)]
struct Earlier {
    called: Called,
    /// Reasoning, which belongs to the next message or call of the model.
    reasoning: Option<String>,
}

impl Earlier {
    /// A message with the reasoning before it, if it is one of the model.
    fn reasoned(&mut self, message: Message) -> Message {
        let reasoning = if message.role == "assistant" { self.reasoning.take() } else { None };
        with_reasoning(message, reasoning)
    }
}

/// The text of the parts of reasoning: all of it, or else its summary.
fn reasoning(item: &mut Fields) -> Result<Option<String>, Refusal> {
    let mut all = Vec::new();
    for name in ["content", "summary"] {
        let mut texts = Vec::new();
        for (path, part) in item.items(name)?.unwrap_or_default() {
            let mut part = item.within(part, path)?;
            texts.push(part.need::<String>("text")?);
            part.ignore(&["type"]);
            part.end()?;
        }
        all.push(texts.join("\n"));
    }
    item.ignore(&["encrypted_content"]);
    Ok(all.into_iter().find(|text| !text.is_empty()))
}

fn take_item(mut item: Fields, earlier: &mut Earlier, messages: &mut Vec<Message>) -> Result<(), Refusal> {
    let kind: Option<String> = item.take("type")?;
    // Fields of items from earlier answers.
    item.ignore(&["id", "status"]);
    match kind.as_deref() {
        None | Some("message") => {
            let role: String = item.need("role")?;
            let role = match role.as_str() {
                "developer" => "system",
                "system" | "user" | "assistant" => &role,
                _ => {
                    let path = item.path("role");
                    let message = format!("{path} is {role:?}, but must be system, developer, user or assistant");
                    return Err(Refusal::field(path, "invalid_value", message));
                }
            };
            let content = item.value("content").ok_or_else(|| item.missing("content"))?;
            messages.push(earlier.reasoned(Message::new(role, text(&item, content, "content")?)));
            item.ignore(&["phase"]);
        }
        Some("function_call") => {
            let (id, name): (String, String) = (item.need("call_id")?, item.need("name")?);
            let arguments = arguments(&item.need::<String>("arguments")?, item.path("arguments"))?;
            item.ignore(&["parsed_arguments"]);
            let call = earlier.called.call(id, name, arguments);
            // Text and calls of the model in a row are one message, unless there is reasoning between them.
            let is_next = earlier.reasoning.is_none();
            let calls = messages.last_mut().filter(|message| message.role == "assistant" && is_next);
            match calls.map(|message| message.more.entry("tool_calls").or_insert_with(|| json!([]))) {
                Some(Value::Array(calls)) => calls.push(call),
                _ => {
                    let message = earlier.reasoned(Message::assistant(""));
                    messages.push(message.with("tool_calls", json!([call])));
                }
            }
        }
        Some("function_call_output") => {
            let id: String = item.need("call_id")?;
            let output = item.value("output").ok_or_else(|| item.missing("output"))?;
            messages.push(earlier.called.result(&id, text(&item, output, "output")?, item.path("call_id"))?);
        }
        Some("reasoning") => earlier.reasoning = reasoning(&mut item)?,
        Some(other) => {
            let path = item.path("type");
            let message = format!(
                "{path} is {other:?}, but this server knows message, reasoning, function_call and function_call_output"
            );
            return Err(Refusal::field(path, "unsupported_content", message));
        }
    }
    item.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(body: Value) -> Vec<Message> {
        match &take(body, &Unknown::refused()).unwrap().0.prompts[0] {
            Prompt::Chat(conversation) => conversation.messages.clone(),
            _ => panic!("a conversation"),
        }
    }

    #[test]
    fn items_are_a_conversation() {
        assert_eq!(messages(json!({"input": "Hi"})), [Message::user("Hi")]);
        let call =
            |id: &str| json!({"type": "function_call", "id": "fc", "call_id": id, "name": "add", "arguments": "{}"});
        let told = |id: &str| json!({"id": id, "type": "function", "function": {"name": "add", "arguments": {}}});
        let got = messages(json!({"instructions": "Be brief.", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Add."}]},
            {"type": "message", "id": "msg", "status": "completed", "role": "assistant", "content": [
                {"type": "output_text", "text": "Yes.", "annotations": [], "logprobs": []},
            ]},
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}], "content": [],
                "encrypted_content": "x"},
            call("c1"), call("c2"),
            {"type": "function_call_output", "call_id": "c2", "output": "2"},
            call("c3"),
        ]}));
        let expected = [
            Message::system("Be brief."),
            Message::user("Add."),
            Message::assistant("Yes."),
            with_reasoning(Message::assistant(""), Some("Hm.".into()))
                .with("tool_calls", json!([told("c1"), told("c2")])),
            Message::new("tool", "2").with("tool_call_id", json!("c2")).with("name", json!("add")),
            Message::assistant("").with("tool_calls", json!([told("c3")])),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn what_it_asks_for_is_what_chats_ask_for() {
        let (ask, asked) = take(json!({
            "model": "m", "input": "x", "max_output_tokens": 5, "text": {"format": {
                "type": "json_schema", "name": "n", "strict": true, "schema": {"type": "integer"},
            }},
            "tools": [{"type": "function", "name": "f", "parameters": {}}], "tool_choice": "required", "store": false,
            "include": ["message.output_text.logprobs"], "top_logprobs": 2, "stream": true, "temperature": 0.5,
            "watermarking": true, "truncation": "auto", "verbosity": "low",
        }), &Unknown::refused())
        .unwrap();
        assert_eq!((ask.max_tokens, ask.logprobs, ask.choices), (Some(5), Some(2), 1));
        assert_eq!(
            ask.constraint,
            Some(ConstraintField::json_schema(json!({"type": "integer"}), "text.format.schema"))
        );
        assert!(ask.stream.is_some() && ask.tools.unwrap().tools.len() == 1);
        assert_eq!((&asked["temperature"], &asked["top_p"]), (&json!(0.5), &json!(0.95)));
        assert_eq!((&asked["tool_choice"], &asked["instructions"]), (&json!("required"), &json!(null)));
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        for (body, param) in [
            (json!({}), "input"),
            (json!({"input": []}), "input"),
            (json!({"input": 3}), "input"),
            (json!({"input": [{"role": "robot", "content": "x"}]}), "input[0].role"),
            (json!({"input": [{"type": "reasoning", "summary": [{"text": 3}]}]}), "input[0].summary[0].text"),
            (json!({"input": [{"type": "web_search_call"}]}), "input[0].type"),
            (json!({"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}), "input[0].call_id"),
            (
                json!({"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "["}]}),
                "input[0].arguments",
            ),
            (json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}), "input[0].content[0].type"),
            (json!({"input": "x", "previous_response_id": "resp_1"}), "previous_response_id"),
            (json!({"input": "x", "store": true}), "store"),
            (json!({"input": "x", "background": true}), "background"),
            (json!({"input": "x", "n": 2}), "n"),
            (json!({"input": "x", "top_logprobs": 2}), "top_logprobs"),
            (json!({"input": "x", "include": ["web"]}), "include[0]"),
            (json!({"input": "x", "reasoning": {"effort": "huge"}}), "reasoning.effort"),
            (json!({"input": "x", "text": {"format": {"type": "grammar"}}}), "text.format.type"),
            (json!({"input": "x", "text": {"style": "high"}}), "text.style"),
            (json!({"input": "x", "max_tokens": 5}), "max_tokens"),
            (
                json!({"input": "x", "text": {"format": {"type": "json_object"}}, "structured_outputs": {"regex": "a"}}),
                "structured_outputs.regex",
            ),
            (json!({"input": "x", "text": {"format": {"type": "json_object"}}, "guided_regex": "a"}), "guided_regex"),
        ] {
            let refusal = take(body.clone(), &Unknown::refused()).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{body}");
        }
    }
}
