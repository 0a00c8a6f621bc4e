//! Answers as they are written: each text is one of many that share the passes of the model.

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use verdigris::schedule::{Handle, Statistics};
use verdigris::{Ending, Engine, Error, Key, Request, Service, Written};

use crate::calls;
use crate::forms::Forms;
use crate::protocol::ask::Ask;
use crate::protocol::form::Form;
use crate::protocol::refusal::Refusal;
use crate::service::{Drafts, Options};

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

/// What comes goes there, with the text's number. As many pieces wait as an answer has, so who reads slowly holds up
/// nobody; and where nobody reads any more, the text ends.
type Pieces = UnboundedSender<(usize, Piece)>;

/// One model that writes all answers.
pub(crate) struct Writer {
    engine: Arc<Engine>,
    service: Service,
    drafts: Box<dyn Drafts>,
    forms: Forms<Form>,
    /// Of texts that may call tools.
    calls: Forms<calls::Asked>,
    /// Who works out what a request asks for: so many at a time, that the model keeps its share of the processor.
    planners: Semaphore,
    /// The most tokens of an answer.
    most: usize,
    /// Whether tenants share what is kept of prompts and forms.
    share_caches: bool,
}

impl Writer {
    pub(crate) fn new(engine: Arc<Engine>, drafts: Box<dyn Drafts>, options: &Options) -> Self {
        let service = Service::start(&engine, options.capacity);
        let (most, share_caches) = (options.max_tokens, options.share_caches);
        let planners = Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from));
        Self { engine, service, drafts, forms: Forms::default(), calls: Forms::default(), planners, most, share_caches }
    }

    /// What texts of a tenant share: prompts and forms that are kept, with those of the same salt.
    fn salt(&self, tenant: &Arc<str>) -> Arc<str> {
        if self.share_caches { "".into() } else { tenant.clone() }
    }

    /// Works out for the model what its tools make of a request's prompt and form.
    pub(crate) async fn settled(self: &Arc<Self>, ask: Ask, tenant: &Arc<str>) -> Result<Ask, Refusal> {
        // The semaphore is never closed.
        let _planner = self.planners.acquire().await;
        let (planner, salt) = (self.clone(), self.salt(tenant));
        let settled = tokio::task::spawn_blocking(move || ask.settled(&planner.engine, &planner.calls, &salt)).await;
        settled.map_err(|_| Refusal::new(500, "internal_error", "the tools could not be read"))?
    }

    /// Has all texts written that a tenant asks for: those of the first prompt, then those of the next. Dropping what is
    /// returned ends them.
    pub(crate) fn write(
        self: &Arc<Self>,
        ask: &Arc<Ask>,
        key: Option<&Arc<Key>>,
        tenant: &Arc<str>,
    ) -> UnboundedReceiver<(usize, Piece)> {
        let (pieces, read) = unbounded_channel();
        let (writer, ask, key) = (self.clone(), ask.clone(), key.cloned());
        let salt = self.salt(tenant);
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _planner = writer.planners.acquire().await;
            let planner = writer.clone();
            // Where it panics, the reader sees an end without a piece.
            let _ = tokio::task::spawn_blocking(move || planner.begin(&ask, key.as_deref(), &salt, &pieces)).await;
        });
        read
    }

    /// Hands the texts of a request to the model. The first that cannot be written is the last.
    fn begin(&self, ask: &Arc<Ask>, key: Option<&Key>, salt: &Arc<str>, pieces: &Pieces) {
        for number in 0..ask.texts() {
            if pieces.is_closed() {
                return;
            }
            let (to, of) = (pieces.clone(), ask.clone());
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
            let taken = self.request(ask, number, key, salt).and_then(|request| request.submit(&self.service, reader));
            let (piece, is_last) = match taken {
                Ok(handle) => (Piece::Taken(handle), false),
                Err(error) => (Piece::Failed(ask.refusal(error)), true),
            };
            // Where nobody reads any more, dropping the handle ends the text.
            let _ = pieces.send((number, piece));
            if is_last {
                return;
            }
        }
    }

    /// The request of one of the texts that are asked for, with its form worked out.
    fn request<'a>(
        &'a self,
        ask: &Ask,
        number: usize,
        key: Option<&'a Key>,
        salt: &Arc<str>,
    ) -> Result<Request<'a>, Error> {
        let request = ask.request(&self.engine, number, key, self.most).cache_salt(salt.clone());
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

    /// The text that has ended so, with what is asked about it.
    pub(crate) fn written(&self, ask: &Ask, number: usize, ending: Ending) -> Result<Written, Refusal> {
        ending.written(&ask.request(&self.engine, number, None, self.most)).map_err(|error| ask.refusal(error))
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
