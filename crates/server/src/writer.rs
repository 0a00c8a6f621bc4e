//! Generation: the texts of all answers share the passes of the model.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, SemaphorePermit};
use verdigris::logits::TokenId;
use verdigris::schedule::{Account, Capacity, Handle, Statistics};
use verdigris::{Ending, Engine, Error, Event, Key, PrefixFolder, Prompt, Request, ServedEvent, Service, Storing};

use crate::calls;
use crate::constraint_cache::ConstraintCache;
use crate::options::{Drafts, Options};
use crate::protocol::ask::Ask;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::refusal::Refusal;
use crate::turns::Turns;

/// An event of a text.
pub(crate) type Piece = Event<verdigris::Piece, Ending, Refusal>;

/// A message about a text.
pub(crate) enum Message {
    /// The number of tokens of the text's prompt, before anything else.
    Prompt(usize),
    /// The text is accepted; dropping the handle ends it.
    Taken(Handle),
    Piece(Piece),
}

/// The events of the texts of an answer, with the numbers of the texts. Only a limited number of texts is started
/// before others are read to their ends, so a client that reads slowly only delays its own. Dropping this ends the
/// texts.
pub(crate) struct Pieces {
    pieces: UnboundedReceiver<(usize, Message)>,
    /// The number of further texts that may be started.
    room: Arc<Semaphore>,
}

impl Pieces {
    /// The next message.
    pub(crate) async fn next(&mut self) -> Option<(usize, Message)> {
        let next = self.pieces.recv().await;
        if let Some((_, Message::Piece(Piece::End(_) | Piece::Failed(_)))) = next {
            self.room.add_permits(1);
        }
        next
    }
}

/// The options and slots that the writers of all models share.
#[derive(Clone)]
pub(crate) struct WriterOptions {
    capacity: Capacity,
    /// The maximum number of tokens of an answer.
    max_tokens: usize,
    /// Whether tenants share cached prompts and constraints.
    share_caches: bool,
    /// The slots for compiling constraints, so few that models keep their share of the processor.
    planners: Turns,
    /// The slots for texts without a constraint, or with a known one. They take no time, and wait for no compilation.
    beginners: Turns,
}

impl WriterOptions {
    pub(crate) fn of(options: &Options) -> Self {
        // One more than there are processors, for a tenant without a slot.
        let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let (planners, beginners) = (Turns::new(threads), Turns::new(threads));
        let Options { capacity, max_tokens, share_caches, .. } = *options;
        Self { capacity, max_tokens, share_caches, planners, beginners }
    }

    /// Runs work that compiles a constraint for a tenant, when it is the tenant's turn for one of the few slots. If the
    /// client disconnects, the work is cancelled; its slot is taken until it ends.
    pub(crate) async fn planned<T: Send + 'static>(
        &self,
        tenant: &Arc<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let done = self.planners.take(tenant).await.spend(work).await;
        done.ok_or_else(|| Refusal::new(500, "internal_error", "the constraint could not be compiled"))
    }

    /// The maximum number of texts of an answer that are started and not yet read to their ends: twice the number of
    /// running texts, so that a free slot is filled at once.
    pub(crate) fn at_a_time(&self) -> usize {
        self.capacity.texts.saturating_mul(2)
    }
}

/// The writer of all texts of a model.
pub(crate) struct Writer {
    engine: Arc<Engine>,
    service: Service,
    /// Whether the service stores beginnings of prompts.
    stores_prefixes: bool,
    drafts: Box<dyn Drafts>,
    constraints: ConstraintCache<ConstraintField>,
    /// The constraints of texts that may call tools.
    calls: ConstraintCache<calls::CallConstraint, calls::Calls>,
    options: WriterOptions,
    /// The number of answers so far.
    requests: AtomicU64,
}

impl Writer {
    pub(crate) fn new(
        engine: Arc<Engine>,
        drafts: Box<dyn Drafts>,
        options: &WriterOptions,
        rows: Option<usize>,
        prefixes: Option<PrefixFolder>,
    ) -> Result<Self, Error> {
        let stores_prefixes = prefixes.is_some();
        let capacity = Capacity { rows: rows.unwrap_or(options.capacity.rows), ..options.capacity };
        engine.model().check_room(capacity.tokens)?;
        let service = match prefixes {
            Some(prefixes) => Service::start_with_folder(&engine, capacity, prefixes)?,
            None => Service::start(&engine, capacity),
        };
        Ok(Self {
            engine,
            service,
            stores_prefixes,
            drafts,
            constraints: ConstraintCache::default(),
            calls: ConstraintCache::default(),
            options: options.clone(),
            requests: AtomicU64::new(0),
        })
    }

    /// The salt of a tenant's texts: texts with the same salt share cached prompts and constraints.
    fn salt(&self, tenant: &Arc<str>) -> Arc<str> {
        if self.options.share_caches { "".into() } else { tenant.clone() }
    }

    /// Runs [`Ask::settled`] on a thread for compilation. `held` is what the request holds; it is kept until that ends,
    /// even if the client disconnects.
    pub(crate) async fn settled<H: Send + 'static>(
        self: &Arc<Self>,
        ask: Ask,
        tenant: &Arc<str>,
        held: H,
    ) -> Result<(Ask, H), Refusal> {
        let (planner, salt) = (self.clone(), self.salt(tenant));
        let settle = move || ask.settled(&planner.engine, &planner.calls, &salt).map(|ask| (ask, held));
        self.options.planned(tenant, settle).await?
    }

    /// Writes all texts of a request: those of the first prompt, then those of the next. [`WriterOptions::at_a_time`]
    /// of them are started, and one more whenever one has been read to its end.
    pub(crate) fn write(self: &Arc<Self>, ask: &Arc<Ask>, key: Option<&Arc<Key>>, tenant: &Arc<str>) -> Pieces {
        let (sender, pieces) = unbounded_channel();
        let room = Arc::new(Semaphore::new(self.options.at_a_time()));
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let beginning = Beginning {
            writer: self.clone(),
            ask: ask.clone(),
            key: key.cloned(),
            account: Account { tenant: tenant.clone(), request },
            salt: self.salt(tenant),
            pieces: sender,
            prompt: None,
        };
        tokio::spawn(beginning.all(room.clone()));
        Pieces { pieces, room }
    }

    /// The request for one of the texts, with its constraint compiled.
    fn request<'a>(
        &'a self,
        ask: &Ask,
        number: usize,
        prompt: Arc<[TokenId]>,
        key: Option<&'a Key>,
        salt: &Arc<str>,
    ) -> Result<Request<'a>, Error> {
        let request = ask.request(&self.engine, number, prompt, key, self.options.max_tokens).cache_salt(salt.clone());
        let request = self.drafts.onto(request, ask.sampling.seed);
        match (&ask.calls, &ask.constraint) {
            (Some(calls), _) => Ok(request.constraint(&calls.constraint)),
            (None, Some(constraint)) => {
                let asked = || constraint.onto(self.engine.request("")).compiled_constraint();
                let worked_out = || Ok::<_, Error>(asked()?.expect("the request has a constraint"));
                Ok(request.constraint(&self.constraints.constraint(salt, constraint, worked_out)?))
            }
            (None, None) => Ok(request),
        }
    }

    /// Whether the constraint is known, or there is none.
    fn has_constraint(&self, ask: &Ask, salt: &Arc<str>) -> bool {
        ask.calls.is_some() || ask.constraint.as_ref().is_none_or(|constraint| self.constraints.knows(salt, constraint))
    }

    /// Statistics of the model's loop.
    pub(crate) fn statistics(&self) -> Statistics {
        self.service.statistics()
    }

    /// Whether texts are written, which ends when the model fails.
    pub(crate) fn is_alive(&self) -> bool {
        self.service.is_alive()
    }
}

/// The texts of an answer that have not been started yet.
struct Beginning {
    writer: Arc<Writer>,
    ask: Arc<Ask>,
    key: Option<Arc<Key>>,
    account: Account,
    salt: Arc<str>,
    pieces: UnboundedSender<(usize, Message)>,
    /// The tokens of the last prompt, with its number: its texts share them; and the part that is stored.
    prompt: Option<(usize, Arc<[TokenId]>, Storing)>,
}

impl Beginning {
    /// The maximum number of texts that are started before others have their turn.
    const AT_ONCE: usize = 16;

    /// Starts one text after another, as room permits.
    async fn all(self, room: Arc<Semaphore>) {
        let (pieces, texts) = (self.pieces.clone(), self.ask.texts());
        let (mut number, mut beginning) = (0, Some(self));
        while let Some(mut this) = beginning.take().filter(|_| number < texts) {
            let writer = this.writer.clone();
            let turns = if writer.has_constraint(&this.ask, &this.salt) {
                &writer.options.beginners
            } else {
                &writer.options.planners
            };
            let (turn, more) = tokio::select! {
                () = pieces.closed() => return,
                got = async {
                    // The semaphore is never closed.
                    room.acquire().await.into_iter().for_each(SemaphorePermit::forget);
                    let turn = turns.take(&this.account.tenant).await;
                    let more = room.available_permits().min(Self::AT_ONCE - 1);
                    let more = room.try_acquire_many(more as u32).map_or(0, |permits| {
                        permits.forget();
                        more
                    });
                    (turn, more)
                } => got,
            };
            let some = number..texts.min(number + 1 + more);
            number = some.end;
            // If it panics, the receiver sees the end of the channel without a final event.
            let begun = turn.spend(move || this.some(some).then_some(this));
            beginning = tokio::select! {
                () = pieces.closed() => return,
                begun = begun => begun.flatten(),
            };
        }
    }

    /// Passes texts to the model; `false` if no more should be started: one cannot be written, or the receiver is gone.
    fn some(&mut self, numbers: Range<usize>) -> bool {
        for number in numbers {
            if self.pieces.is_closed() {
                return false;
            }
            let (message, goes_on) = match self.one(number) {
                Ok(handle) => (Message::Taken(handle), true),
                Err(error) => (Message::Piece(Piece::Failed(self.ask.refusal(error))), false),
            };
            // If the receiver is gone, dropping the handle ends the text.
            let _ = self.pieces.send((number, message));
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn one(&mut self, number: usize) -> Result<Handle, Error> {
        let (to, of) = (self.pieces.clone(), self.ask.clone());
        let reader = move |event: ServedEvent| {
            let piece = event.map_failed(|error| of.refusal(error));
            match to.send((number, Message::Piece(piece))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let (prompt, storing) = self.prompt(number)?;
        // If the receiver is gone, the first piece ends the text.
        let _ = self.pieces.send((number, Message::Prompt(prompt.len())));
        let request = self.writer.request(&self.ask, number, prompt, self.key.as_deref(), &self.salt)?;
        request.storing(storing).account(self.account.clone()).submit(&self.writer.service, reader)
    }

    /// The tokens of a text's prompt, and the part that is stored.
    fn prompt(&mut self, number: usize) -> Result<(Arc<[TokenId]>, Storing), Error> {
        let of = number / self.ask.choices;
        if let Some((_, read, storing)) = self.prompt.as_ref().filter(|(read, ..)| *read == of) {
            return Ok((read.clone(), *storing));
        }
        let (engine, prompt) = (&self.writer.engine, &self.ask.prompts[of]);
        let read = engine.prompt_tokens(prompt)?;
        let storing = match prompt {
            _ if !self.writer.stores_prefixes => Storing::Nothing,
            // Messages after the instructions are one conversation's own.
            Prompt::Chat(_) => Storing::First(engine.instruction_tokens(prompt, &read)),
            Prompt::Text(_) | Prompt::Tokens(_) => Storing::Shared,
        };
        self.prompt = Some((of, read.clone(), storing));
        Ok((read, storing))
    }
}
