//! Answers of Ollama's `/api/chat` and `/api/generate`: one object, or a stream of objects, a line each.

use serde_json::{Map, Value, json};
use verdigris::text::calls::ParsedPart;

use crate::answer::extras::Extras;
use crate::answer::{Call, Choice, Framing, Start, StreamEvent, Usage, Voice, logprobs, new_name};
use crate::input_marks::InputMark;
use crate::protocol::Refusal;
use crate::protocol::refusal::ErrorShape;

/// The field that an answer has its text in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OllamaShape {
    /// `message` of `/api/chat`.
    Chat,
    /// `response` of `/api/generate`.
    Generate,
}

/// One answer, and the progress of its stream.
#[derive(Debug)]
pub(crate) struct OllamaAnswer {
    shape: OllamaShape,
    /// An id for the audit log; the protocol has none.
    id: String,
    /// The name of the model, as in the request.
    model: String,
    /// The call that is being written, which is sent once it is complete.
    call: Option<Call>,
    /// The number of bytes of text that have been sent.
    sent: usize,
    extras: Extras,
    /// The end of the text, which the stream reports in its last object.
    ended: Option<Map<String, Value>>,
}

impl OllamaAnswer {
    /// An answer with a new id.
    pub(crate) fn new(shape: OllamaShape, model: &str, return_token_ids: bool) -> Self {
        Self {
            shape,
            id: format!("ollama-{}", new_name::<24>()),
            model: model.into(),
            call: None,
            sent: 0,
            extras: Extras::new(return_token_ids),
            ended: None,
        }
    }

    /// The answer to a request without a prompt.
    pub(crate) fn nothing(&self, reason: &str) -> Value {
        let mut body = self.object("", None, &[], true);
        body.insert("done_reason".into(), reason.into());
        Value::Object(body)
    }

    fn object(&self, text: &str, thought: Option<&str>, calls: &[Call], done: bool) -> Map<String, Value> {
        let mut body = Map::from_iter([
            ("model".to_owned(), json!(self.model)),
            ("created_at".to_owned(), json!(jiff::Timestamp::now().to_string())),
        ]);
        match self.shape {
            OllamaShape::Chat => {
                let mut message = json!({"role": "assistant", "content": text});
                if let Some(thought) = thought {
                    message["thinking"] = thought.into();
                }
                if !calls.is_empty() {
                    message["tool_calls"] = calls.iter().enumerate().map(of_call).collect();
                }
                body.insert("message".into(), message);
            }
            OllamaShape::Generate => {
                body.insert("response".into(), text.into());
                body.extend(thought.map(|thought| ("thinking".to_owned(), thought.into())));
            }
        }
        body.insert("done".into(), done.into());
        body
    }

    fn send(&self, text: &str, calls: &[Call], events: &mut Vec<StreamEvent>) {
        events.push(line(self.object(text, None, calls, false)));
    }

    /// The fields at the end of a text.
    fn ending(&self, choice: &Choice) -> Map<String, Value> {
        let reason = if choice.finish_reason() == "length" { "length" } else { "stop" };
        let mut ending = Map::from_iter([("done_reason".to_owned(), json!(reason))]);
        if let Some(all) = choice.logprobs() {
            ending.insert("logprobs".into(), logprobs::objects(all).into());
        }
        ending.extend(self.extras.of(choice));
        ending
    }
}

impl Voice for OllamaAnswer {
    fn id(&self) -> &str {
        &self.id
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn set_input_marks(&mut self, marks: &[InputMark]) {
        self.extras.set_input_marks(marks);
    }

    /// The mark's status is a field of the object, in a stream of the last one.
    fn whole(&self, choices: &[Choice], usage: Usage) -> Value {
        let Some(choice) = choices.first() else { return self.nothing("stop") };
        let (content, thought) = (&choice.content, choice.written.reasoning.as_deref());
        let mut body = self.object(&content.text, thought, &content.calls, true);
        body.extend(self.ending(choice));
        body.extend(used(usage));
        Value::Object(body)
    }

    fn begin(&mut self, _number: usize, _start: Start<'_>, _events: &mut Vec<StreamEvent>) {}

    fn thought(&mut self, _number: usize, piece: String, events: &mut Vec<StreamEvent>) {
        events.push(line(self.object("", Some(&piece), &[], false)));
    }

    fn part(&mut self, _number: usize, part: ParsedPart, events: &mut Vec<StreamEvent>) {
        match part {
            ParsedPart::Text(text) => {
                self.sent += text.len();
                self.send(&text, &[], events);
            }
            ParsedPart::Call(name) => self.call = Some(Call::begin(name)),
            ParsedPart::Arguments(piece) => {
                if let Some(call) = &mut self.call {
                    call.arguments.push_str(&piece);
                }
            }
            ParsedPart::CallEnd => {
                let calls: Vec<Call> = self.call.take().into_iter().collect();
                self.send("", &calls, events);
            }
        }
    }

    fn end(&mut self, _number: usize, choice: &Choice, events: &mut Vec<StreamEvent>) {
        // A call that was cut short stays text.
        if let Some(rest) = choice.content.text.get(self.sent..).filter(|rest| !rest.is_empty()) {
            self.send(rest, &[], events);
        }
        self.ended = Some(self.ending(choice));
    }

    fn over(&mut self, usage: Usage, events: &mut Vec<StreamEvent>) {
        let mut body = self.object("", None, &[], true);
        body.extend(self.ended.take().unwrap_or_default());
        body.extend(used(usage));
        events.push(line(body));
    }

    fn failed(&mut self, refusal: &Refusal, events: &mut Vec<StreamEvent>) {
        events.push(StreamEvent { event: None, data: refusal.body_in(ErrorShape::Ollama).to_string() });
    }
}

fn line(body: Map<String, Value>) -> StreamEvent {
    StreamEvent { event: None, data: Value::Object(body).to_string() }
}

fn of_call((index, call): (usize, &Call)) -> Value {
    json!({"id": call.id, "function": {"index": index, "name": call.name, "arguments": call.input()}})
}

/// The numbers of tokens, and durations in nanoseconds.
fn used(usage: Usage) -> Map<String, Value> {
    let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Map::from_iter([
        ("total_duration".to_owned(), json!(nanoseconds(usage.time))),
        // The model is loaded before the first request.
        ("load_duration".to_owned(), json!(0)),
        ("prompt_eval_count".to_owned(), json!(usage.prompt)),
        ("prompt_eval_duration".to_owned(), json!(nanoseconds(usage.prompt_time))),
        ("eval_count".to_owned(), json!(usage.completion)),
        ("eval_duration".to_owned(), json!(nanoseconds(usage.time.saturating_sub(usage.prompt_time)))),
    ])
}
