//! Texts that are written: chats and completions, whole or piece by piece.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use verdigris::schedule::Handle;
use verdigris::{Ending, Key, Prompt};

use super::{computed, json};
use crate::answer::{Choice, Head, Shape, Usage};
use crate::caller::Caller;
use crate::limits::Deadline;
use crate::metrics::Clock;
use crate::protocol::Refusal;
use crate::protocol::ask::{Ask, Stream};
use crate::record::Record;
use crate::service::Service;
use crate::writer::Piece;

/// How long a stream may be silent before it says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(super) async fn chat(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = Ask::chat(json(body)?)?;
    Texts::begin(service, caller, ask, Shape::Chat).await?.answer().await
}

pub(super) async fn completions(
    State(service): State<Arc<Service>>,
    Extension(caller): Extension<Caller>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let ask = Ask::completion(json(body)?)?;
    Texts::begin(service, caller, ask, Shape::Completion).await?.answer().await
}

/// The texts of one request as they come. Dropping it ends them.
struct Texts {
    service: Arc<Service>,
    ask: Arc<Ask>,
    key: Option<Arc<Key>>,
    head: Head,
    pieces: UnboundedReceiver<(usize, Piece)>,
    /// Of the texts that were taken: they are written as long as these are kept.
    taken: Vec<Handle>,
    /// Texts that have not ended.
    open: usize,
    usage: Usage,
    clock: Clock,
    record: Record,
    deadline: Deadline,
    _place: OwnedSemaphorePermit,
}

impl Texts {
    async fn begin(service: Arc<Service>, caller: Caller, ask: Ask, shape: Shape) -> Result<Self, Refusal> {
        ask.model.iter().try_for_each(|model| service.check_model(model))?;
        let key = service.key_for(&ask, &caller)?;
        service.check_form(&ask)?;
        let place = service.place()?;
        let ask = Arc::new(ask);
        if service.must_count(&ask) {
            let (service, ask) = (service.clone(), ask.clone());
            computed(move || service.check_prompts(&ask)).await??;
        }
        let head = Head::new(shape, &service.options.model, ask.return_token_ids);
        Ok(Self {
            record: Record::new(service.clone(), caller, &head, ask.stream.is_some(), key.as_deref()),
            pieces: service.writer.write(&ask, key.as_ref()),
            head,
            taken: Vec::with_capacity(ask.texts()),
            deadline: Deadline::new(&service.options.limits),
            open: ask.texts(),
            usage: Usage::default(),
            clock: service.metrics.clock(),
            _place: place,
            service,
            ask,
            key,
        })
    }

    async fn answer(mut self) -> Result<Response, Refusal> {
        let Some(stream) = self.ask.stream else { return self.whole().await };
        // What cannot be written has a status of its own.
        let first = self.begun().await?;
        Ok(Sse::new(stream::unfold(Streaming::new(self, stream, first), Streaming::next))
            .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
            .into_response())
    }

    /// Waits until it is known whether the first text is written. A piece of it may come sooner than that it is taken.
    async fn begun(&mut self) -> Result<Option<(usize, Piece)>, Refusal> {
        match self.deadline.wait(self.pieces.recv()).await? {
            Some((_, Piece::Taken(handle))) => {
                self.taken.push(handle);
                Ok(None)
            }
            other => self.read(other).map(Some),
        }
    }

    /// What comes next, of whichever text.
    async fn next(&mut self) -> Result<(usize, Piece), Refusal> {
        loop {
            match self.deadline.wait(self.pieces.recv()).await? {
                Some((_, Piece::Taken(handle))) => self.taken.push(handle),
                other => return self.read(other),
            }
        }
    }

    fn read(&mut self, received: Option<(usize, Piece)>) -> Result<(usize, Piece), Refusal> {
        match received {
            Some((_, Piece::Failed(refusal))) => Err(refusal),
            Some(piece) => {
                self.clock.piece();
                self.record.piece();
                self.deadline.piece();
                Ok(piece)
            }
            None => Err(Refusal::new(500, "internal_error", "the text could not be written")),
        }
    }

    async fn whole(mut self) -> Result<Response, Refusal> {
        let mut choices: Vec<Option<Choice>> = (0..self.open).map(|_| None).collect();
        while self.open > 0 {
            if let (number, Piece::End(ending)) = self.next().await? {
                choices[number] = Some(self.ended(number, ending).await?);
            }
        }
        let choices: Vec<Choice> = choices.into_iter().flatten().collect();
        Ok(axum::Json(self.head.whole(&choices, self.usage)).into_response())
    }

    /// A text has ended: it is counted, and what is asked about it and what it says of its mark is looked up.
    async fn ended(&mut self, number: usize, ending: Ending) -> Result<Choice, Refusal> {
        self.open -= 1;
        let (service, ask, key) = (self.service.clone(), self.ask.clone(), self.key.clone());
        let echo = self.echo(number).map(Into::into);
        let look = move || -> Result<Choice, Refusal> {
            let written = service.writer.written(&ask, number, ending)?;
            let mark = service.mark_of(&ask, key.as_deref(), &written);
            Ok(Choice { echo, written: Box::new(written), mark })
        };
        let choice = computed(look).await??;
        // The texts of one prompt share it.
        let (prompt, written) = (choice.written.prompt_tokens, choice.written.tokens.len());
        if number.is_multiple_of(self.ask.choices) {
            self.usage.prompt += prompt;
        }
        self.usage.completion += written;
        self.service.metrics.tokens(prompt, written);
        self.service.metrics.marked(choice.mark.name());
        self.clock.text(written);
        self.record.text(number, &choice, self.usage);
        if self.open == 0 {
            self.record.enter().await?;
        }
        Ok(choice)
    }

    /// The prompt of a text, where it stands before it.
    fn echo(&self, number: usize) -> Option<&str> {
        match self.ask.prompt(number) {
            Prompt::Text(prompt) if self.ask.echo => Some(prompt),
            _ => None,
        }
    }
}

/// An answer that comes piece by piece.
struct Streaming {
    texts: Texts,
    stream: Stream,
    /// The first piece, where it came before anything else was known.
    first: Option<(usize, Piece)>,
    /// Which texts have begun.
    begun: Vec<bool>,
    /// What is sent before the next piece is waited for.
    ready: VecDeque<String>,
    is_over: bool,
}

impl Streaming {
    fn new(texts: Texts, stream: Stream, first: Option<(usize, Piece)>) -> Self {
        let begun = vec![false; texts.open];
        Self { texts, stream, first, begun, ready: VecDeque::new(), is_over: false }
    }

    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                return Some((Ok(Event::default().data(data)), self));
            }
            if self.is_over {
                return None;
            }
            if let Err(refusal) = self.read().await {
                self.push(&refusal.body());
                self.over();
            }
        }
    }

    fn push(&mut self, body: &Value) {
        self.ready.push_back(body.to_string());
    }

    fn over(&mut self) {
        self.ready.push_back("[DONE]".into());
        self.is_over = true;
    }

    /// Makes of the next piece what is sent.
    async fn read(&mut self) -> Result<(), Refusal> {
        let (number, piece) = match self.first.take() {
            Some(first) => first,
            None => self.texts.next().await?,
        };
        if !std::mem::replace(&mut self.begun[number], true) {
            let first = self.texts.head.first(number, self.texts.echo(number));
            first.iter().for_each(|first| self.push(first));
        }
        match piece {
            Piece::Text(text) => self.push(&self.texts.head.piece(number, &text)),
            Piece::Taken(_) => unreachable!("these are no pieces of a text"),
            Piece::End(ending) => {
                let choice = self.texts.ended(number, ending).await?;
                self.push(&self.texts.head.last(number, &choice));
            }
            Piece::Failed(refusal) => return Err(refusal),
        }
        if self.texts.open == 0 {
            if self.stream.include_usage {
                self.push(&self.texts.head.usage(self.texts.usage));
            }
            self.over();
        }
        Ok(())
    }
}
