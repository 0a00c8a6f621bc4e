//! Answers of `/v1/responses`: items (messages and calls), and the events of their stream.

use serde_json::{Map, Value, json};
use verdigris::TokenLogprobs;
use verdigris::text::calls::ParsedPart;

use crate::answer::{Call, Choice, Start, StreamEvent, Usage, Voice, logprobs, new_name};
use crate::input_marks::InputMark;
use crate::manifests::ManifestField;
use crate::protocol::Refusal;

/// One answer, and the progress of its stream.
#[derive(Debug)]
pub(crate) struct Response {
    id: String,
    /// Seconds since 1970.
    created: i64,
    model: String,
    /// The fields of the request that the answer repeats.
    asked: Map<String, Value>,
    /// The number of events so far.
    events: u64,
    /// The complete items.
    items: Vec<Value>,
    open: Option<OutputItem>,
    /// The end of the text: whether it was cut short, its mark, and if they were requested its tokens and its manifest.
    ended: Option<Ended>,
    return_token_ids: bool,
    /// The marks in the inputs, if they are looked for.
    input_marks: Option<Value>,
}

#[derive(Debug)]
struct Ended {
    /// The reason why it is not complete: its tokens ran out, or a stop string broke its constraint.
    cut: Option<&'static str>,
    mark: Value,
    tokens: Option<Value>,
    manifest: Option<ManifestField>,
}

impl Ended {
    fn status(&self) -> &'static str {
        if self.cut.is_some() { "incomplete" } else { "completed" }
    }
}

/// An item.
#[derive(Debug)]
enum OutputItem {
    Thought { id: String, text: String },
    Message { id: String, text: String },
    Call { id: String, call: Call },
}

impl OutputItem {
    fn thought(text: String) -> Self {
        Self::Thought { id: format!("rs_{}", new_name::<24>()), text }
    }

    fn message(text: String) -> Self {
        Self::Message { id: format!("msg_{}", new_name::<24>()), text }
    }

    fn call(call: Call) -> Self {
        Self::Call { id: format!("fc_{}", new_name::<24>()), call }
    }

    fn id(&self) -> &str {
        match self {
            Self::Thought { id, .. } | Self::Message { id, .. } | Self::Call { id, .. } => id,
        }
    }

    /// The item as JSON, with its content unless it is in progress.
    fn body(&self, status: &str, logprobs: &[TokenLogprobs]) -> Value {
        match self {
            Self::Thought { id, text } => {
                let content = match status {
                    "in_progress" => json!([]),
                    _ => json!([{"type": "reasoning_text", "text": text}]),
                };
                json!({"id": id, "type": "reasoning", "status": status, "summary": [], "content": content})
            }
            Self::Message { id, text } => {
                let content = if status == "in_progress" { Vec::new() } else { vec![part(text, logprobs)] };
                json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
            }
            Self::Call { id, call } => json!({
                "id": id, "type": "function_call", "status": status, "call_id": call.id, "name": call.name,
                "arguments": call.arguments,
            }),
        }
    }
}

/// The content part of a message.
fn part(text: &str, logprobs: &[TokenLogprobs]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs::objects(logprobs)})
}

/// The log-probabilities of the tokens of `text`, with which the answer begins; the tokens after it are calls.
fn of_text<'l>(text: &str, choice: &'l Choice) -> &'l [TokenLogprobs] {
    let all = choice.written.logprobs.as_deref().unwrap_or_default();
    let all = all.get(choice.written.answer_start..).unwrap_or_default();
    let mut length = 0;
    let tokens = all.iter().take_while(|token| {
        let is_in = length < text.len();
        length += token.chosen.text.len();
        is_in
    });
    let count = tokens.count();
    // A text without calls may end with tokens that write nothing.
    if choice.content.calls.is_empty() { all } else { &all[..count] }
}

impl Response {
    /// An answer with a new id.
    pub(crate) fn new(model: &str, asked: Map<String, Value>, return_token_ids: bool) -> Self {
        Self {
            id: format!("resp_{}", new_name::<24>()),
            created: jiff::Timestamp::now().as_second(),
            model: model.into(),
            asked,
            events: 0,
            items: Vec::new(),
            open: None,
            ended: None,
            return_token_ids,
            input_marks: None,
        }
    }

    /// The answer so far, as JSON.
    fn body(&self, status: &str, items: &[Value], ended: Option<&Ended>, usage: Option<Usage>) -> Value {
        let mut body = self.asked.clone();
        let why = ended.and_then(|ended| ended.cut).map(|reason| json!({"reason": reason}));
        let own = json!({
            "id": self.id, "object": "response", "created_at": self.created, "model": self.model, "status": status,
            "error": null, "incomplete_details": why, "output": items, "usage": usage.map(used), "store": false,
            "previous_response_id": null, "background": false,
        });
        if let Value::Object(own) = own {
            body.extend(own);
        }
        if let Some(Ended { mark, tokens, manifest, .. }) = ended {
            body.insert("watermark".into(), mark.clone());
            body.extend(self.input_marks.clone().map(|marks| ("input_marks".to_owned(), marks)));
            body.extend(tokens.clone().map(|tokens| ("token_ids".to_owned(), tokens)));
            manifest.iter().for_each(|manifest| manifest.add_to(&mut body));
        }
        Value::Object(body)
    }

    fn ended(&self, choice: &Choice) -> Ended {
        let tokens = self.return_token_ids.then(|| json!(choice.tokens()));
        let is_broken = choice.written.complete == Some(false);
        let cut = choice.is_cut().then_some("max_output_tokens").or(is_broken.then_some("stop"));
        Ended { cut, mark: json!(choice.mark), tokens, manifest: choice.manifest.clone() }
    }

    /// Sends an event.
    fn tell(&mut self, event: &'static str, mut data: Value, events: &mut Vec<StreamEvent>) {
        data["type"] = event.into();
        data["sequence_number"] = self.events.into();
        self.events += 1;
        events.push(StreamEvent { event: Some(event), data: data.to_string() });
    }

    /// Begins an item.
    fn open(&mut self, item: OutputItem, events: &mut Vec<StreamEvent>) {
        let index = self.items.len();
        let (id, is_message) = (item.id().to_owned(), matches!(item, OutputItem::Message { .. }));
        let added = json!({"output_index": index, "item": item.body("in_progress", &[])});
        self.open = Some(item);
        self.tell("response.output_item.added", added, events);
        if is_message {
            let added = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part("", &[])});
            self.tell("response.content_part.added", added, events);
        }
    }

    /// Ends the current item, which is complete or cut short.
    fn close(&mut self, logprobs: &[TokenLogprobs], status: &str, events: &mut Vec<StreamEvent>) {
        let Some(item) = self.open.take() else { return };
        let index = self.items.len();
        match &item {
            OutputItem::Thought { id, text } => {
                let done = json!({"item_id": id, "output_index": index, "content_index": 0, "text": text});
                self.tell("response.reasoning_text.done", done, events);
            }
            OutputItem::Message { id, text } => {
                let place = json!({"item_id": id, "output_index": index, "content_index": 0});
                let (mut done, mut whole) = (place.clone(), place);
                done["text"] = text.as_str().into();
                done["logprobs"] = logprobs::objects(logprobs).into();
                whole["part"] = part(text, logprobs);
                self.tell("response.output_text.done", done, events);
                self.tell("response.content_part.done", whole, events);
            }
            OutputItem::Call { id, call } => {
                let done = json!({
                    "item_id": id, "output_index": index, "name": call.name, "arguments": call.arguments,
                });
                self.tell("response.function_call_arguments.done", done, events);
            }
        }
        let body = item.body(status, logprobs);
        self.tell("response.output_item.done", json!({"output_index": index, "item": body.clone()}), events);
        self.items.push(body);
    }
}

impl Voice for Response {
    fn id(&self) -> &str {
        &self.id
    }

    fn set_input_marks(&mut self, marks: &[InputMark]) {
        self.input_marks = Some(json!(marks));
    }

    fn whole(&self, choices: &[Choice], usage: Usage) -> Value {
        let Some(choice) = choices.first() else { return self.body("failed", &[], None, Some(usage)) };
        let (content, ended) = (&choice.content, self.ended(choice));
        let status = ended.status();
        let mut items = Vec::new();
        // A thought that was cut short has no answer after it.
        let is_cut = ended.cut.is_some() && choice.written.answer_start == choice.written.tokens.len();
        if let Some(thought) = &choice.written.reasoning {
            let status = if is_cut { "incomplete" } else { "completed" };
            items.push(OutputItem::thought(thought.clone()).body(status, &[]));
        }
        let ends_in_thought = is_cut && !items.is_empty();
        if !content.text.is_empty() || content.calls.is_empty() && !ends_in_thought {
            let message = OutputItem::message(content.text.clone());
            items.push(message.body(status, of_text(&content.text, choice)));
        }
        items.extend(content.calls.iter().map(|call| OutputItem::call(call.clone()).body("completed", &[])));
        self.body(status, &items, Some(&ended), Some(usage))
    }

    fn begin(&mut self, _number: usize, _start: Start<'_>, events: &mut Vec<StreamEvent>) {
        for event in ["response.created", "response.in_progress"] {
            let response = self.body("in_progress", &[], None, None);
            self.tell(event, json!({"response": response}), events);
        }
    }

    fn thought(&mut self, _number: usize, piece: String, events: &mut Vec<StreamEvent>) {
        let index = self.items.len();
        if self.open.is_none() {
            self.open(OutputItem::thought(String::new()), events);
        }
        let Some(OutputItem::Thought { id, text }) = &mut self.open else { return };
        text.push_str(&piece);
        let delta = json!({"item_id": id, "output_index": index, "content_index": 0, "delta": piece});
        self.tell("response.reasoning_text.delta", delta, events);
    }

    fn part(&mut self, _number: usize, next: ParsedPart, events: &mut Vec<StreamEvent>) {
        let index = self.items.len();
        match next {
            ParsedPart::Text(piece) => {
                if let Some(OutputItem::Thought { .. }) = self.open {
                    self.close(&[], "completed", events);
                }
                let index = self.items.len();
                if self.open.is_none() {
                    self.open(OutputItem::message(String::new()), events);
                }
                let Some(OutputItem::Message { id, text }) = &mut self.open else { return };
                text.push_str(&piece);
                let delta = json!({
                    "item_id": id, "output_index": index, "content_index": 0, "delta": piece, "logprobs": [],
                });
                self.tell("response.output_text.delta", delta, events);
            }
            ParsedPart::Call(name) => {
                self.close(&[], "completed", events);
                self.open(OutputItem::call(Call::begin(name)), events);
            }
            ParsedPart::Arguments(piece) => {
                let Some(OutputItem::Call { id, call }) = &mut self.open else { return };
                call.arguments.push_str(&piece);
                let delta = json!({"item_id": id, "output_index": index, "delta": piece});
                self.tell("response.function_call_arguments.delta", delta, events);
            }
            ParsedPart::CallEnd => self.close(&[], "completed", events),
        }
    }

    fn end(&mut self, _number: usize, choice: &Choice, events: &mut Vec<StreamEvent>) {
        let ended = self.ended(choice);
        if self.open.is_none() && self.items.is_empty() {
            // An empty text is a message too.
            self.open(OutputItem::message(String::new()), events);
        }
        let text = match &self.open {
            Some(OutputItem::Message { text, .. }) => text.clone(),
            _ => String::new(),
        };
        // A call that is still open was cut short, for example by a stop string, and so was a thought.
        let is_call = matches!(self.open, Some(OutputItem::Call { .. } | OutputItem::Thought { .. }));
        self.close(of_text(&text, choice), if is_call { "incomplete" } else { ended.status() }, events);
        self.ended = Some(ended);
    }

    fn over(&mut self, usage: Usage, events: &mut Vec<StreamEvent>) {
        let status = self.ended.as_ref().map_or("completed", Ended::status);
        let event = if status == "incomplete" { "response.incomplete" } else { "response.completed" };
        let response = self.body(status, &self.items, self.ended.as_ref(), Some(usage));
        self.tell(event, json!({"response": response}), events);
    }

    fn failed(&mut self, refusal: &Refusal, events: &mut Vec<StreamEvent>) {
        let fault = json!({"code": refusal.code, "message": refusal.message, "param": refusal.param});
        self.tell("error", fault, events);
    }
}

fn used(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage.completion, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    })
}
