//! The texts of a request, written and sent in any protocol, complete or streamed.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use verdigris::schedule::Handle;
use verdigris::text::calls::{CallReader, ParsedPart};
use verdigris::{Ending, Key, Prompt};

use super::computed;
use crate::answer::{Choice, Content, Framing, Start, StreamEvent, Usage, Voice};
use crate::audit::Outcome;
use crate::caller::Caller;
use crate::input_marks::Inputs;
use crate::ledger::LedgerText;
use crate::limits::Deadline;
use crate::manifests::ManifestField;
use crate::metrics::Clock;
use crate::models::{Lease, ModelId};
use crate::protocol::Refusal;
use crate::protocol::ask::Ask;
use crate::record::Record;
use crate::service::{RequestSlot, Service};
use crate::shares::Share;
use crate::writer::{Message, Piece, Pieces};

/// The time after which a silent stream sends a keep-alive message.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The texts of one request in progress. Dropping it ends them.
pub(super) struct Generation {
    service: Arc<Service>,
    model: Lease,
    ask: Arc<Ask>,
    key: Option<Arc<Key>>,
    /// Whether texts are signed.
    is_signed: bool,
    /// The name of the API key.
    tenant: Arc<str>,
    request_id: Arc<str>,
    voice: Box<dyn Voice>,
    pieces: Pieces,
    /// The handles of running texts, which end when these are dropped.
    taken: HashMap<usize, Handle>,
    /// The numbers of tokens of the prompts of texts that have not begun.
    prompts: HashMap<usize, usize>,
    /// The number of texts that have not ended.
    open: usize,
    usage: Usage,
    /// When the request arrived.
    arrived: Instant,
    clock: Clock,
    record: Record,
    deadline: Deadline,
    _held: (RequestSlot, Share),
}

impl Generation {
    pub(super) async fn begin(
        service: Arc<Service>,
        caller: Caller,
        model: ModelId,
        ask: Ask,
        mut voice: Box<dyn Voice>,
    ) -> Result<Self, Refusal> {
        let arrived = Instant::now();
        let deadline = Deadline::new(&service.options.limits);
        let key = service.key_for(model, &ask, &caller)?;
        service.check_constraints(&ask)?;
        service.check_alpha(&ask)?;
        let is_signed = service.manifests.are_for(&ask)?;
        let held = (service.slot(&caller.tenant)?, service.answer_bytes(&ask, &caller.tenant)?);
        let model = service.lease(model, &deadline).await?;
        // Before the prompt of a chat with tools is put into words.
        let inputs = service.options.reports_input_marks.then(|| Inputs::of(&ask.prompts));
        let (ask, held) = match ask.is_open() {
            true => deadline.wait(model.writer.settled(ask, &caller.tenant, held)).await??,
            false => (ask, held),
        };
        let ask = Arc::new(ask);
        if service.must_count(&ask, &model.engine) {
            let (service, model, ask) = (service.clone(), model.clone(), ask.clone());
            deadline.wait(computed(move || service.check_prompts(&ask, &model.engine))).await???;
        }
        let mut input_marks = None;
        if let Some(inputs) = inputs {
            let (model, keys) = (model.clone(), service.operator.readers(model.id, &caller.tenant));
            let examined = computed(move || inputs.examined(model.engine.reader(), &keys));
            let marks = deadline.wait(examined).await??;
            voice.set_input_marks(&marks);
            input_marks = Some(marks);
        }
        Ok(Self {
            pieces: model.writer.write(&ask, key.as_ref(), &caller.tenant),
            is_signed,
            tenant: caller.tenant.clone(),
            request_id: caller.request_id.clone(),
            record: Record::new(
                service.clone(),
                caller,
                voice.id(),
                service.entry(model.id).name(),
                ask.stream.is_some(),
                key.as_deref(),
                input_marks,
            ),
            taken: HashMap::new(),
            prompts: HashMap::new(),
            arrived,
            voice,
            deadline,
            open: ask.texts(),
            usage: Usage::default(),
            clock: service.metrics.clock(),
            _held: held,
            service,
            model,
            ask,
            key,
        })
    }

    pub(super) async fn answer(mut self) -> Result<Response, Refusal> {
        if self.ask.stream.is_none() {
            return self.whole().await;
        }
        // A text that cannot be written has its own status, which must be known before the first byte is sent.
        let first = self.begun().await?;
        self.record.begin().await?;
        let framing = self.voice.framing();
        let events = stream::unfold(Streaming::new(self, first), Streaming::next);
        Ok(match framing {
            Framing::Events { ping } => {
                let alive = KeepAlive::new().interval(KEEP_ALIVE);
                let alive = ping.into_iter().fold(alive, |alive, ping| alive.event(sse(ping)));
                Sse::new(events.map(|event| Ok::<_, Infallible>(sse(event)))).keep_alive(alive).into_response()
            }
            Framing::Lines => {
                let lines = events.map(|event| Ok::<_, Infallible>(format!("{}\n", event.data)));
                ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
            }
        })
    }

    /// Waits until it is known whether a first text can be written. If a piece arrives before [`Message::Taken`], it
    /// is returned.
    async fn begun(&mut self) -> Result<Option<(usize, Piece)>, Refusal> {
        match self.received().await? {
            Some((number, Message::Taken(handle))) => {
                self.taken.insert(number, handle);
                Ok(None)
            }
            other => self.read(other).map(Some),
        }
    }

    /// The next piece of any text.
    async fn next(&mut self) -> Result<(usize, Piece), Refusal> {
        loop {
            match self.received().await? {
                Some((number, Message::Taken(handle))) => _ = self.taken.insert(number, handle),
                other => return self.read(other),
            }
        }
    }

    /// The next message about any text other than [`Message::Prompt`] and [`Piece::Begun`], which are noted.
    async fn received(&mut self) -> Result<Option<(usize, Message)>, Refusal> {
        loop {
            match self.deadline.wait(self.pieces.next()).await? {
                Some((number, Message::Prompt(tokens))) => _ = self.prompts.insert(number, tokens),
                Some((_, Message::Piece(Piece::Begun))) => {
                    self.clock.text_begins();
                    self.deadline.begun();
                }
                other => return Ok(other),
            }
        }
    }

    fn read(&mut self, received: Option<(usize, Message)>) -> Result<(usize, Piece), Refusal> {
        match received {
            Some((_, Message::Piece(Piece::Failed(refusal)))) => Err(refusal),
            Some((number, Message::Piece(piece))) => {
                if self.usage.prompt_time.is_zero() {
                    self.usage.prompt_time = self.arrived.elapsed();
                }
                if matches!(piece, Piece::Text(_) | Piece::Reasoning(_)) {
                    self.clock.piece(number);
                }
                self.record.piece();
                Ok((number, piece))
            }
            Some((_, Message::Prompt(_) | Message::Taken(_))) => unreachable!("a text is read and accepted once"),
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
        Ok(axum::Json(self.voice.whole(&choices, self.usage)).into_response())
    }

    /// Completes a text that has ended: determines its mark and tool calls, signs it, counts and records it.
    async fn ended(&mut self, number: usize, ending: Ending) -> Result<Choice, Refusal> {
        self.open -= 1;
        self.taken.remove(&number);
        let (service, model) = (self.service.clone(), self.model.clone());
        let (ask, key) = (self.ask.clone(), self.key.clone());
        let echo = self.echo(number);
        let look = move || -> Result<Choice, Refusal> {
            let mut written = ending.at_once();
            let mut hidden = 0;
            if !ask.reasoning.is_included {
                written.reasoning = None;
                hidden = written.answer_start;
            }
            let mark = service.mark_of(&model.engine, key.as_deref(), &written);
            let content = Content::of(&written, ask.call_format());
            Ok(Choice { echo, written: Box::new(written), hidden, content, mark, manifest: None })
        };
        let mut choice = self.deadline.wait(computed(look)).await???;
        // The texts of one prompt share it, so its tokens count once.
        let (prompt, written) = (choice.written.prompt_tokens, choice.written.tokens.len());
        if number.is_multiple_of(self.ask.choices) {
            self.usage.prompt += prompt;
        }
        self.usage.completion += written;
        self.usage.time = self.arrived.elapsed();
        self.usage.reasoning += choice.written.reasoning_tokens;
        self.service.metrics.tokens(prompt, written);
        self.service.metrics.marked(choice.mark.status);
        self.clock.text(number, written);
        if self.is_signed && !choice.content.text.is_empty() {
            let (model, text) = (self.service.entry(self.model.id).name(), &choice.content.text);
            let signing = self.service.manifests.sign(model, text, self.key.clone(), &self.tenant, &self.request_id);
            choice.manifest = self.deadline.wait(signing).await?;
        }
        choice.manifest.iter().for_each(|manifest| self.service.metrics.signed(manifest.status()));
        self.record.text(number, &choice, self.usage);
        let refused = choice.mark.unmarkable().filter(|_| self.service.options.refuses_unmarkable);
        // A stream has sent a text that is refused.
        if refused.is_none() || self.ask.stream.is_some() {
            self.enter_text(number, &choice).await?;
        }
        if let Some(reason) = refused {
            self.record.enter(Outcome::Refused).await?;
            let message = format!(
                "a detector could not verify the mark of this text ({reason}), and this server refuses such texts: \
                 request a longer one, or one with more choice"
            );
            return Err(Refusal::new(422, "unmarkable", message));
        }
        if let Some(refusal) = choice.manifest.as_ref().and_then(|made| self.service.manifests.refusal(made)) {
            self.record.enter(Outcome::Refused).await?;
            return Err(refusal);
        }
        if self.open == 0 {
            self.record.enter(Outcome::Whole).await?;
        }
        Ok(choice)
    }

    /// Records a text in the ledger, and waits until that is on disk.
    async fn enter_text(&mut self, number: usize, choice: &Choice) -> Result<(), Refusal> {
        if !self.service.operator.has_ledger() {
            return Ok(());
        }
        let (service, tenant, key) = (self.service.clone(), self.tenant.clone(), self.key.clone());
        let (id, text, manifest) = (self.voice.id().to_owned(), choice.content.text.clone(), choice.manifest.clone());
        let enter = move || {
            let key_id = key.as_deref().map(Key::id);
            let manifest = manifest.as_ref().and_then(ManifestField::store);
            let text = LedgerText { id: &id, index: number, tenant: &tenant, key_id, text: &text, manifest };
            service.operator.enter_text(&text)
        };
        computed(enter).await?
    }

    /// The prompt of a text, if it is returned before the text.
    fn echo(&self, number: usize) -> Option<String> {
        match self.ask.prompt(number) {
            _ if !self.ask.echo => None,
            Prompt::Text(prompt) => Some(prompt.clone()),
            Prompt::Tokens(tokens) => Some(self.model.engine.reader().tokenizer().decode(tokens)),
            Prompt::Chat(_) => None,
        }
    }
}

fn sse(StreamEvent { event, data }: StreamEvent) -> Event {
    event.into_iter().fold(Event::default().data(data), Event::event)
}

/// A streamed answer.
struct Streaming {
    texts: Generation,
    /// The first piece, if it has arrived already.
    first: Option<(usize, Piece)>,
    /// The parsers of the texts that have begun.
    readers: Vec<Option<CallReader>>,
    /// The parts of each text's current call, if a stop string may cut it: until it is complete, it may be text.
    held: Vec<Vec<ParsedPart>>,
    /// Events to send before waiting for the next piece.
    ready: VecDeque<StreamEvent>,
    is_over: bool,
}

impl Streaming {
    fn new(texts: Generation, first: Option<(usize, Piece)>) -> Self {
        let readers = (0..texts.open).map(|_| None).collect();
        let held = vec![Vec::new(); texts.open];
        Self { texts, first, readers, held, ready: VecDeque::new(), is_over: false }
    }

    async fn next(mut self) -> Option<(StreamEvent, Self)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((event, self));
            }
            if self.is_over {
                return None;
            }
            let mut events = Vec::new();
            if let Err(refusal) = self.read(&mut events).await {
                self.texts.record.failed(&refusal);
                self.texts.voice.failed(&refusal, &mut events);
                self.is_over = true;
            }
            self.ready.extend(events);
        }
    }

    /// Sends parts of a text, but holds a call back until it is complete if a stop string may cut it.
    fn send(&mut self, number: usize, parts: Vec<ParsedPart>, events: &mut Vec<StreamEvent>) {
        let (voice, held) = (&mut self.texts.voice, &mut self.held[number]);
        let may_be_cut = self.texts.ask.sampling.has_stops();
        for part in parts {
            let is_end = matches!(part, ParsedPart::CallEnd);
            if may_be_cut && !matches!(part, ParsedPart::Text(_)) {
                held.push(part);
                if is_end {
                    held.drain(..).for_each(|part| voice.part(number, part, events));
                }
            } else {
                voice.part(number, part, events);
            }
        }
    }

    /// Converts the next piece to events.
    async fn read(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Refusal> {
        let (number, piece) = match self.first.take() {
            Some(first) => first,
            None => self.texts.next().await?,
        };
        if self.readers[number].is_none() {
            let echo = self.texts.echo(number);
            let prompt_tokens = self.texts.prompts.remove(&number).unwrap_or_default();
            self.texts.voice.begin(number, Start { echo: echo.as_deref(), prompt_tokens }, events);
        }
        let reader = self.readers[number].get_or_insert_with(|| CallReader::new(self.texts.ask.call_format().cloned()));
        let mut parts = Vec::new();
        match piece {
            Piece::Text(piece) => {
                piece.parts().for_each(|part| reader.push_part(part, &mut parts));
                self.send(number, parts, events);
            }
            Piece::Reasoning(thought) if self.texts.ask.reasoning.is_included => {
                self.texts.voice.thought(number, thought.text, events);
            }
            Piece::Begun | Piece::Reasoning(_) => (),
            Piece::End(ending) => {
                let cut = reader.finish(&mut parts);
                self.send(number, parts, events);
                // A call that the limit cuts short has been sent as far as it goes.
                let is_unsent = !std::mem::take(&mut self.held[number]).is_empty();
                if let Some(cut) = cut.filter(|cut| (is_unsent || !cut.is_begun) && !cut.text.is_empty()) {
                    self.texts.voice.part(number, ParsedPart::Text(cut.text), events);
                }
                let choice = self.texts.ended(number, ending).await?;
                self.texts.voice.end(number, &choice, events);
            }
            Piece::Failed(refusal) => return Err(refusal),
        }
        if self.texts.open == 0 {
            self.texts.voice.over(self.texts.usage, events);
            self.is_over = true;
        }
        Ok(())
    }
}
