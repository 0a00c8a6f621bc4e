//! What all requests share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use verdigris::schedule::Capacity;
use verdigris::{Engine, Key, KeyRing, Level, Prompt, Request, Written};

use crate::access::ApiKeys;
use crate::caller::Caller;
use crate::charge;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::operator::Operator;
use crate::protocol::Refusal;
use crate::protocol::ask::Ask;
use crate::protocol::form::Form;
use crate::protocol::mark::MarkStatus;
use crate::shares::{Share, Shares};
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
    /// Keys by tenants, which are the names of API keys, and by periods. It is read again on SIGHUP.
    pub ring: Option<KeyRing>,
    /// The file that holds a line for every answer.
    pub audit_log: Option<PathBuf>,
    /// Names that it answers to at a loopback address besides those of this machine; at another address, where there
    /// are some, the only ones.
    pub allowed_hosts: Vec<String>,
    /// Whether an address that others reach may do without keys.
    pub allow_anyone: bool,
    /// The largest weight that a request may give to experts; where there is none, it may give none.
    pub max_alpha: Option<f64>,
    /// Whether a request that wants no mark is refused.
    pub enforce_all: bool,
    /// Whether a text that was to be marked, and in which a detector could not verify the mark, is refused.
    pub refuses_unmarkable: bool,
    /// The p-value at which a text of an answer is called watermarked.
    pub mark_level: Level,
    /// The most tokens of an answer.
    pub max_tokens: usize,
    /// What the texts that are written may have at a time.
    pub capacity: Capacity,
    /// Whether tenants share what is kept of prompts and forms. Then each can find out how the others' prompts begin,
    /// and whether they ask for a form.
    pub share_caches: bool,
    /// Requests that are answered or wait at the same time; one more is told to come again.
    pub max_requests: usize,
    /// The most bytes of a body.
    pub max_body: usize,
    /// What else a request may take.
    pub limits: Limits,
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

/// A place among the requests that are answered.
pub(crate) struct Place {
    _share: Share,
    _place: OwnedSemaphorePermit,
}

/// What all requests share.
pub(crate) struct Service {
    pub(crate) options: Options,
    pub(crate) engine: Arc<Engine>,
    pub(crate) operator: Operator,
    pub(crate) writer: Arc<Writer>,
    pub(crate) metrics: Arc<Metrics>,
    /// In seconds since 1970, for lists of models.
    pub(crate) begun: i64,
    places: Arc<Semaphore>,
    /// Of the places, and of the bytes that bodies and answers take, what each tenant has.
    requests: Arc<Shares>,
    bytes: Arc<Shares>,
    draining: AtomicBool,
}

impl Service {
    pub(crate) fn new(engine: Engine, operator: Operator, drafts: Box<dyn Drafts>, options: Options) -> Self {
        let engine = Arc::new(engine);
        Self {
            writer: Arc::new(Writer::new(engine.clone(), drafts, &options)),
            engine,
            operator,
            metrics: Arc::default(),
            begun: jiff::Timestamp::now().as_second(),
            places: Arc::new(Semaphore::new(options.max_requests)),
            requests: Shares::new(options.max_requests),
            bytes: Shares::new(options.limits.pending),
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

    /// A place among the requests that are answered, which is free again when it is dropped. Where there are several
    /// tenants, one that has many leaves some to the others.
    pub(crate) fn place(&self, tenant: &Arc<str>) -> Result<Place, Refusal> {
        if self.is_draining() {
            return Err(Refusal::new(503, "draining", "the server is about to stop: ask another").retry_after(1));
        }
        let share = self.requests.take(tenant, 1, self.operator.has_one_tenant());
        let place = share.zip(self.places.clone().try_acquire_owned().ok());
        let (_share, _place) = place.ok_or_else(|| {
            let message = format!("of {} requests yours are all being answered: come again", self.options.max_requests);
            Refusal::new(429, "overloaded", message).retry_after(1)
        })?;
        Ok(Place { _share, _place })
    }

    /// So many bytes for what a tenant sends or is answered, which are free again when they are dropped.
    pub(crate) fn bytes(&self, tenant: &Arc<str>, bytes: usize) -> Result<Share, Refusal> {
        self.bytes.take(tenant, bytes, self.operator.has_one_tenant()).ok_or_else(|| {
            let message = format!(
                "this request could take {bytes} bytes, and others of yours have so many that they do not fit now: \
                 come again, or ask for less"
            );
            Refusal::new(429, "overloaded", message).retry_after(1)
        })
    }

    /// What an answer may take while it is written.
    pub(crate) fn answer_bytes(&self, ask: &Ask, tenant: &Arc<str>) -> Result<Share, Refusal> {
        let Options { max_tokens, limits, .. } = self.options;
        charge::check_texts(ask, limits.texts)?;
        let bytes = charge::answer_bytes(ask, max_tokens, self.writer.at_a_time());
        charge::check_answer(bytes, limits.answer)?;
        self.bytes(tenant, bytes)
    }

    /// Refuses a model that this is not.
    pub(crate) fn check_model(&self, model: &str) -> Result<(), Refusal> {
        if *model == self.options.model {
            return Ok(());
        }
        let message = format!("there is no model {model:?} here: this is {:?}", self.options.model);
        Err(Refusal { param: Some("model".into()), ..Refusal::new(404, "model_not_found", message) })
    }

    /// Refuses a weight of experts that a request may not give.
    pub(crate) fn check_alpha(&self, ask: &Ask) -> Result<(), Refusal> {
        let message = match (ask.alpha, self.options.max_alpha) {
            (None, _) => return Ok(()),
            (Some(alpha), Some(most)) if alpha <= most => return Ok(()),
            (Some(alpha), Some(most)) => format!("alpha is {alpha}, and this server takes up to {most}"),
            (Some(_), None) => "this server takes no weight of experts from a request: leave the field out".into(),
        };
        Err(Refusal::field("alpha", "alpha_not_allowed", message))
    }

    /// Whether prompts must be counted: there is a limit, and by their bytes alone they may be longer.
    pub(crate) fn must_count(&self, ask: &Ask) -> bool {
        let most = self.options.limits.prompt_tokens;
        let may_be_longer = |prompt: &Prompt| match prompt {
            // A token has at least one byte, but for the one that begins a text.
            Prompt::Text(text) => text.len() >= most,
            Prompt::Tokens(tokens) => tokens.len() > most,
            Prompt::Chat(_) => true,
        };
        most < self.engine.context_length() && ask.prompts.iter().any(may_be_longer)
    }

    /// Refuses prompts of too many tokens.
    pub(crate) fn check_prompts(&self, ask: &Ask) -> Result<(), Refusal> {
        let most = self.options.limits.prompt_tokens;
        for prompt in &ask.prompts {
            let tokens = self.engine.prompt_tokens(prompt).map_err(|error| ask.refusal(error))?;
            if tokens.len() > most {
                let message = format!("a prompt is {} tokens long, and this server reads up to {most}", tokens.len());
                return Err(Refusal::field(ask.prompt_field(), "context_length_exceeded", message));
            }
        }
        Ok(())
    }

    /// Refuses forms of a request that are too long.
    pub(crate) fn check_forms(&self, ask: &Ask) -> Result<(), Refusal> {
        ask.form.iter().try_for_each(|form| self.check_form(form))?;
        let (tools, most) = (ask.tools.as_ref().map_or(0, |tools| tools.bytes()), self.options.limits.form);
        if tools > most {
            let message = format!("the schemas of tools have {tools} bytes, but may have {most}");
            return Err(Refusal::field("tools", "constraint_too_large", message));
        }
        Ok(())
    }

    /// Refuses a form that is too long.
    pub(crate) fn check_form(&self, form: &Form) -> Result<(), Refusal> {
        let (bytes, most) = (form.bytes(), self.options.limits.form);
        if bytes > most {
            let message = format!("{} has {bytes} bytes, but may have {most}", form.path());
            return Err(Refusal::field(form.path(), "constraint_too_large", message));
        }
        Ok(())
    }

    /// The key that an answer is marked with, if any.
    pub(crate) fn key_for(&self, ask: &Ask, caller: &Caller) -> Result<Option<Arc<Key>>, Refusal> {
        match (ask.watermarking, self.operator.marks()) {
            (Some(true), false) => Err(Refusal::field(
                "watermarking",
                "no_key",
                "a mark is asked for, and this server has no key: leave the field out, or ask another server",
            )),
            (Some(false), true) if self.options.enforce_all => Err(Refusal::field(
                "watermarking",
                "watermark_enforced",
                "this server marks all that it writes: leave the field out",
            )),
            (Some(false), _) | (None, false) => Ok(None),
            (_, true) => self.operator.writer(&caller.tenant).map(Some).ok_or_else(|| {
                let message = "there is no key today to mark this answer with: tell the operator";
                Refusal::new(503, "no_key_today", message)
            }),
        }
    }

    /// The keys that texts are looked at with for whoever asks: the one that is named, or all of theirs.
    pub(crate) fn keys_named(&self, caller: &Caller, id: Option<&str>) -> Result<Vec<Arc<Key>>, Refusal> {
        let mut keys = self.operator.readers(&caller.tenant);
        if keys.is_empty() {
            let message = "this server has no key to look with: start it with one, or ask another";
            return Err(Refusal::new(400, "no_key", message));
        }
        if let Some(id) = id {
            keys.retain(|key| key.id() == id);
            if keys.is_empty() {
                return Err(Refusal::field("key_id", "unknown_key", format!("there is no key {id:?} here")));
            }
        }
        Ok(keys)
    }

    /// What an answer says about its mark.
    pub(crate) fn mark_of(&self, key: Option<&Key>, written: &Written) -> MarkStatus {
        let Some(key) = key else {
            let reason = if !self.operator.marks() { "the server has no key" } else { "the request wants none" };
            return MarkStatus::NotWatermarked { reason };
        };
        let (key_id, scheme) = (key.id().to_owned(), key.dialect().name());
        let Ok(check) = self.engine.mark_check(key, written, self.options.mark_level) else {
            return MarkStatus::Skipped { key_id, reason: "the text could not be read by a detector" };
        };
        let (scored_tokens, reason) = (check.scored as usize, check.reason.unwrap_or_default());
        match check.status {
            verdigris::MarkStatus::Watermarked => MarkStatus::Watermarked { key_id, scheme, scored_tokens },
            verdigris::MarkStatus::TooWeak => MarkStatus::TooWeak { key_id, scheme, scored_tokens, reason },
            verdigris::MarkStatus::Skipped => MarkStatus::Skipped { key_id, reason },
        }
    }
}
