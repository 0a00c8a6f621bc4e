//! Answers as they are written: each text is one of many that share the passes of the model.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, SemaphorePermit};
use verdigris::logits::TokenId;
use verdigris::schedule::{Account, Handle, Statistics};
use verdigris::{Ending, Engine, Error, Key, Request, Service};

use crate::calls;
use crate::forms::Forms;
use crate::protocol::ask::Ask;
use crate::protocol::form::Form;
use crate::protocol::refusal::Refusal;
use crate::service::{Drafts, Options};
use crate::turns::Turns;

/// What comes of an answer.
pub(crate) enum Piece {
    /// A text of it has waited long enough: its prompt is read.
    Begun,
    /// It is taken, and written as long as this is kept.
    Taken(Handle),
    /// What comes next of it: never empty, and whole characters.
    Text(String),
    /// Its end.
    End(Ending),
    /// No end.
    Failed(Refusal),
}

/// What comes of the texts of an answer, with their numbers. As many pieces wait as its texts that are being written
/// have, so a client that reads slowly holds up its own texts alone; when this is dropped, they end.
pub(crate) struct Pieces {
    pieces: UnboundedReceiver<(usize, Piece)>,
    /// How many more of its texts may be begun.
    room: Arc<Semaphore>,
}

impl Pieces {
    /// The next piece.
    pub(crate) async fn next(&mut self) -> Option<(usize, Piece)> {
        let next = self.pieces.recv().await;
        if let Some((_, Piece::End(_) | Piece::Failed(_))) = next {
            self.room.add_permits(1);
        }
        next
    }
}

/// One model that writes all answers.
pub(crate) struct Writer {
    engine: Arc<Engine>,
    service: Service,
    drafts: Box<dyn Drafts>,
    forms: Forms<Form>,
    /// Of texts that may call tools.
    calls: Forms<calls::Asked>,
    /// Who works out what a request asks for: so many at a time, that the model keeps its share of the processor.
    planners: Turns,
    /// The same for texts whose forms are known, or that have none. They take no time, and wait for no form.
    beginners: Turns,
    /// The most tokens of an answer.
    most: usize,
    /// Whether tenants share what is kept of prompts and forms.
    share_caches: bool,
    /// How many texts of one answer are begun and not yet read to their ends.
    at_a_time: usize,
    /// How many answers there were.
    requests: AtomicU64,
}

impl Writer {
    pub(crate) fn new(engine: Arc<Engine>, drafts: Box<dyn Drafts>, options: &Options) -> Self {
        let service = Service::start(&engine, options.capacity);
        let (most, share_caches) = (options.max_tokens, options.share_caches);
        // One more than there are processors, for tenants that have none.
        let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        let (planners, beginners) = (Turns::new(threads), Turns::new(threads));
        Self {
            engine,
            service,
            drafts,
            forms: Forms::default(),
            calls: Forms::default(),
            planners,
            beginners,
            most,
            share_caches,
            // As many wait as are written, so that no place is empty until the next is begun.
            at_a_time: options.capacity.texts.saturating_mul(2),
            requests: AtomicU64::new(0),
        }
    }

    /// What texts of a tenant share: prompts and forms that are kept, with those of the same salt.
    fn salt(&self, tenant: &Arc<str>) -> Arc<str> {
        if self.share_caches { "".into() } else { tenant.clone() }
    }

    /// Works out for the model what its tools make of a request's prompt and form. What the request holds is held as
    /// long as that takes, also where its client goes away.
    pub(crate) async fn settled<H: Send + 'static>(
        self: &Arc<Self>,
        ask: Ask,
        tenant: &Arc<str>,
        held: H,
    ) -> Result<(Ask, H), Refusal> {
        let (planner, salt) = (self.clone(), self.salt(tenant));
        let settle = move || ask.settled(&planner.engine, &planner.calls, &salt).map(|ask| (ask, held));
        self.planned(tenant, settle).await?
    }

    /// Does what works out a form for a tenant, when one of the few threads for that is free and it is the tenant's
    /// turn. Where the client leaves, the work is cancelled; its place is taken until it ends.
    pub(crate) async fn planned<T: Send + 'static>(
        &self,
        tenant: &Arc<str>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let done = self.planners.take(tenant).await.spend(work).await;
        done.ok_or_else(|| Refusal::new(500, "internal_error", "the form could not be worked out"))
    }

    /// Has all texts written that a tenant asks for: those of the first prompt, then those of the next. So many of them
    /// are begun as can be written at a time, and one more whenever one has been read to its end.
    pub(crate) fn write(self: &Arc<Self>, ask: &Arc<Ask>, key: Option<&Arc<Key>>, tenant: &Arc<str>) -> Pieces {
        let (sender, pieces) = unbounded_channel();
        let room = Arc::new(Semaphore::new(self.at_a_time));
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

    /// The request of one of the texts that are asked for, with its form worked out.
    fn request<'a>(
        &'a self,
        ask: &Ask,
        number: usize,
        prompt: Arc<[TokenId]>,
        key: Option<&'a Key>,
        salt: &Arc<str>,
    ) -> Result<Request<'a>, Error> {
        let request = ask.request(&self.engine, number, prompt, key, self.most).cache_salt(salt.clone());
        let request = self.drafts.onto(request, ask.sampling.seed);
        match (&ask.calls, &ask.form) {
            (Some(calls), _) => Ok(request.constraint(&calls.constraint)),
            (None, Some(form)) => {
                let asked = || form.onto(self.engine.request("")).compiled_form();
                let worked_out = || Ok::<_, Error>(asked()?.expect("a form was asked for"));
                Ok(request.constraint(&self.forms.constraint(salt, form, worked_out)?))
            }
            (None, None) => Ok(request),
        }
    }

    /// Whether a form is known, or none is asked for.
    fn has_form(&self, ask: &Ask, salt: &Arc<str>) -> bool {
        ask.calls.is_some() || ask.form.as_ref().is_none_or(|form| self.forms.knows(salt, form))
    }

    /// How many texts of one answer are begun and not yet read to their ends.
    pub(crate) fn at_a_time(&self) -> usize {
        self.at_a_time
    }

    /// What the model is doing, and has done.
    pub(crate) fn statistics(&self) -> Statistics {
        self.service.statistics()
    }

    /// Whether answers are written: they are until the model fails.
    pub(crate) fn is_alive(&self) -> bool {
        self.service.is_alive()
    }
}

/// The texts of an answer that are still to be begun.
struct Beginning {
    writer: Arc<Writer>,
    ask: Arc<Ask>,
    key: Option<Arc<Key>>,
    account: Account,
    salt: Arc<str>,
    pieces: UnboundedSender<(usize, Piece)>,
    /// The prompt that was read last, with its number: its texts share it.
    prompt: Option<(usize, Arc<[TokenId]>)>,
}

impl Beginning {
    /// So many texts are worked out before others have their turn.
    const AT_ONCE: usize = 16;

    /// Begins one text after the other, as room comes.
    async fn all(self, room: Arc<Semaphore>) {
        let (pieces, texts) = (self.pieces.clone(), self.ask.texts());
        let (mut number, mut beginning) = (0, Some(self));
        while let Some(mut this) = beginning.take().filter(|_| number < texts) {
            let writer = this.writer.clone();
            let turns = if writer.has_form(&this.ask, &this.salt) { &writer.beginners } else { &writer.planners };
            let (turn, more) = tokio::select! {
                () = pieces.closed() => return,
                got = async {
                    // It is never closed.
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
            // Where it panics, the reader sees an end without a piece.
            let begun = turn.spend(move || this.some(some).then_some(this));
            beginning = tokio::select! {
                () = pieces.closed() => return,
                begun = begun => begun.flatten(),
            };
        }
    }

    /// Hands texts to the model; `false` where no more are to be begun: one cannot be written, or nobody reads.
    fn some(&mut self, numbers: Range<usize>) -> bool {
        for number in numbers {
            if self.pieces.is_closed() {
                return false;
            }
            let (piece, goes_on) = match self.one(number) {
                Ok(handle) => (Piece::Taken(handle), true),
                Err(error) => (Piece::Failed(self.ask.refusal(error)), false),
            };
            // Where nobody reads any more, dropping the handle ends the text.
            let _ = self.pieces.send((number, piece));
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn one(&mut self, number: usize) -> Result<Handle, Error> {
        let (to, of) = (self.pieces.clone(), self.ask.clone());
        let reader = move |piece| {
            let piece = match piece {
                verdigris::Piece::Begun => Piece::Begun,
                verdigris::Piece::Text(text) => Piece::Text(text),
                verdigris::Piece::End(ending) => Piece::End(ending),
                verdigris::Piece::Failed(error) => Piece::Failed(of.refusal(error)),
            };
            match to.send((number, piece)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        };
        let prompt = self.prompt(number)?;
        let request = self.writer.request(&self.ask, number, prompt, self.key.as_deref(), &self.salt)?;
        request.account(self.account.clone()).submit(&self.writer.service, reader)
    }

    /// The tokens of a text's prompt.
    fn prompt(&mut self, number: usize) -> Result<Arc<[TokenId]>, Error> {
        let of = number / self.ask.choices;
        if let Some((_, read)) = self.prompt.as_ref().filter(|(read, _)| *read == of) {
            return Ok(read.clone());
        }
        let read = self.writer.engine.prompt_tokens(&self.ask.prompts[of])?;
        Ok(self.prompt.insert((of, read)).1.clone())
    }
}
