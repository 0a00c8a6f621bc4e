//! What all requests share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use verdigris::logits::TokenId;
use verdigris::schedule::Capacity;
use verdigris::{Engine, Key, Repeats, Request, Written};

use crate::access::ApiKeys;
use crate::metrics::Metrics;
use crate::protocol::Refusal;
use crate::protocol::ask::Ask;
use crate::protocol::mark::MarkStatus;
use crate::writer::Writer;

/// How the server is run.
#[derive(Debug)]
pub struct Options {
    /// Where it listens.
    pub address: SocketAddr,
    /// The name of the model, in requests and answers.
    pub model: String,
    /// Who may ask; without keys, everybody who reaches the address.
    pub api_keys: ApiKeys,
    /// Whether an address that others reach may do without keys.
    pub allow_anyone: bool,
    /// Whether a request that wants no mark is refused.
    pub enforce_all: bool,
    /// The most tokens of an answer.
    pub max_tokens: usize,
    /// What the texts that are written may have at a time.
    pub capacity: Capacity,
    /// Requests that are answered or wait at the same time; one more is told to come again.
    pub max_requests: usize,
    /// The most bytes of a body.
    pub max_body: usize,
    /// How long running answers may take to end once the server is told to.
    pub drain: Duration,
}

/// Who drafts, as the operator has it: nobody, by `()`, or as the options of a program say.
pub trait Drafts: Send + Sync {
    /// The same request with drafts. A text whose seed is given must be the same whenever it is asked for.
    fn onto<'r>(&'r self, request: Request<'r>, seed: Option<u64>) -> Request<'r>;
}

impl Drafts for () {
    fn onto<'r>(&'r self, request: Request<'r>, _seed: Option<u64>) -> Request<'r> {
        request
    }
}

/// What all requests share.
pub(crate) struct Service {
    pub(crate) options: Options,
    pub(crate) engine: Arc<Engine>,
    pub(crate) key: Option<Arc<Key>>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) metrics: Arc<Metrics>,
    /// In seconds since 1970, for lists of models.
    pub(crate) begun: i64,
    places: Arc<Semaphore>,
    draining: AtomicBool,
}

impl Service {
    pub(crate) fn new(engine: Engine, key: Option<Key>, drafts: Box<dyn Drafts>, options: Options) -> Self {
        let engine = Arc::new(engine);
        let texts = verdigris::Service::start(&engine, options.capacity);
        Self {
            writer: Arc::new(Writer::new(engine.clone(), texts, drafts, options.max_tokens)),
            engine,
            key: key.map(Arc::new),
            metrics: Arc::default(),
            begun: jiff::Timestamp::now().as_second(),
            places: Arc::new(Semaphore::new(options.max_requests)),
            draining: AtomicBool::new(false),
            options,
        }
    }

    /// Whether no new requests are taken.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Takes no new requests, and waits until those that are being answered have ended.
    pub(crate) async fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        let all = u32::try_from(self.options.max_requests).unwrap_or(u32::MAX);
        // The places are never closed.
        let _ = self.places.acquire_many(all).await;
    }

    /// A place among the requests that are answered, which is free again when it is dropped.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        if self.is_draining() {
            return Err(Refusal::new(503, "draining", "the server is about to stop: ask another").retry_after(1));
        }
        self.places.clone().try_acquire_owned().map_err(|_| {
            let message = format!("{} requests are being answered: come again", self.options.max_requests);
            Refusal::new(429, "overloaded", message).retry_after(1)
        })
    }

    /// Refuses a model that this is not.
    pub(crate) fn check_model(&self, model: &str) -> Result<(), Refusal> {
        if *model == self.options.model {
            return Ok(());
        }
        let message = format!("there is no model {model:?} here: this is {:?}", self.options.model);
        Err(Refusal { param: Some("model".into()), ..Refusal::new(404, "model_not_found", message) })
    }

    /// The key that an answer is marked with, if any.
    pub(crate) fn key_for(&self, ask: &Ask) -> Result<Option<Arc<Key>>, Refusal> {
        match (ask.watermarking, &self.key) {
            (Some(true), None) => Err(Refusal::field(
                "watermarking",
                "no_key",
                "a mark is asked for, and this server has no key: leave the field out, or ask another server",
            )),
            (Some(false), Some(_)) if self.options.enforce_all => Err(Refusal::field(
                "watermarking",
                "watermark_enforced",
                "this server marks all that it writes: leave the field out",
            )),
            (Some(false), _) => Ok(None),
            (_, key) => Ok(key.clone()),
        }
    }

    /// The keys that texts are looked at with: the one that is named, or all.
    pub(crate) fn keys_named(&self, id: Option<&str>) -> Result<Vec<Arc<Key>>, Refusal> {
        let Some(key) = &self.key else {
            let message = "this server has no key to look with: start it with one, or ask another";
            return Err(Refusal::new(400, "no_key", message));
        };
        match id {
            Some(id) if id != key.id() => {
                Err(Refusal::field("key_id", "unknown_key", format!("there is no key {id:?} here")))
            }
            _ => Ok(vec![key.clone()]),
        }
    }

    /// What an answer says about its mark.
    pub(crate) fn mark_of(&self, ask: &Ask, key: Option<&Key>, written: &Written) -> MarkStatus {
        let Some(key) = key else {
            let reason = if self.key.is_none() { "the server has no key" } else { "the request wants none" };
            return MarkStatus::NotWatermarked { reason };
        };
        let (key_id, scheme) = (key.id().to_owned(), key.dialect().name());
        let scored = self.scored(key, &written.tokens);
        if scored > 0 {
            return MarkStatus::Watermarked { key_id, scheme, scored_tokens: scored };
        }
        let reason = match ask.form {
            Some(_) => "the form left no choice",
            None => "the text is too short",
        };
        MarkStatus::Skipped { key_id, reason }
    }

    /// The tokens that a detector counts.
    fn scored(&self, key: &Key, tokens: &[TokenId]) -> usize {
        let evidence = self.engine.reader().evidence(key, tokens, Repeats::default());
        evidence.map_or(0, |evidence| evidence.scored as usize)
    }
}
