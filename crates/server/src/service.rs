//! The state that all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use verdigris::{Engine, Error, Key, MarkStatus, Prompt, Written};

use crate::caller::Caller;
use crate::charge;
use crate::limits::Deadline;
use crate::manifests::Manifests;
use crate::metrics::Metrics;
use crate::model_source::ServedModels;
use crate::models::{Lease, ModelEntry, ModelId, Models};
use crate::operator::Operator;
use crate::options::Options;
use crate::protocol::Refusal;
use crate::protocol::ask::Ask;
use crate::protocol::constraint::ConstraintField;
use crate::protocol::mark::MarkField;
use crate::shares::{Share, Shares};
use crate::turns::Turns;
use crate::writer::WriterOptions;

/// The number of requests for embeddings that are computed at the same time, of which one is kept for a tenant that
/// computes no other.
const EMBEDDERS: usize = 2;

/// The slot of a request, and its tenant's share of them.
pub(crate) struct RequestSlot {
    _share: Share,
    _permit: OwnedSemaphorePermit,
}

/// The state that all requests share.
pub(crate) struct Service {
    pub(crate) options: Options,
    pub(crate) models: Arc<Models>,
    pub(crate) writing: WriterOptions,
    /// The slots for computing embeddings, so few that models keep their share of the processor.
    pub(crate) embedders: Turns,
    pub(crate) operator: Operator,
    pub(crate) manifests: Manifests,
    pub(crate) metrics: Arc<Metrics>,
    /// Seconds since 1970, for lists of models.
    pub(crate) begun: i64,
    slots: Arc<Semaphore>,
    /// The shares of tenants in the slots for requests, and in the bytes of bodies and answers.
    requests: Arc<Shares>,
    bytes: Arc<Shares>,
    draining: AtomicBool,
}

impl Service {
    /// # Errors
    /// If the folder for states of prompts cannot be used.
    pub(crate) fn new(models: ServedModels, operator: Operator, mut options: Options) -> Result<Self, Error> {
        let metrics: Arc<Metrics> = Arc::default();
        let (writing, prefix_store) = (WriterOptions::of(&options), options.prefix_store.take());
        Ok(Self {
            models: Arc::new(Models::new(models, writing.clone(), prefix_store, metrics.clone())?),
            writing,
            embedders: Turns::new(EMBEDDERS),
            operator,
            manifests: Manifests::new(&options),
            metrics,
            begun: jiff::Timestamp::now().as_second(),
            slots: Arc::new(Semaphore::new(options.max_requests.min(Semaphore::MAX_PERMITS))),
            requests: Shares::new(options.max_requests),
            bytes: Shares::new(options.limits.pending),
            draining: AtomicBool::new(false),
            options,
        })
    }

    /// Whether no new requests are accepted.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Accepts no new requests, and waits until the running ones have ended.
    pub(crate) async fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        let all = u32::try_from(self.options.max_requests).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        let _ = self.slots.acquire_many(all).await;
    }

    /// Takes a slot for a request, which is freed on drop. With several tenants, one that has many slots leaves some to
    /// the others.
    pub(crate) fn slot(&self, tenant: &Arc<str>) -> Result<RequestSlot, Refusal> {
        if self.is_draining() {
            return Err(Refusal::new(503, "draining", "the server is shutting down: use another").retry_after(1));
        }
        let share = self.requests.take(tenant, 1, self.operator.has_one_tenant());
        let slot = share.zip(self.slots.clone().try_acquire_owned().ok());
        let (_share, _permit) = slot.ok_or_else(|| {
            let message = format!("your share of {} requests is in use: try again later", self.options.max_requests);
            Refusal::new(429, "overloaded", message).retry_after(1)
        })?;
        Ok(RequestSlot { _share, _permit })
    }

    /// Takes memory for the bodies and answers of a tenant, which is freed on drop.
    pub(crate) fn bytes(&self, tenant: &Arc<str>, bytes: usize) -> Result<Share, Refusal> {
        self.bytes.take(tenant, bytes, self.operator.has_one_tenant()).ok_or_else(|| {
            let message = format!(
                "this request could take {bytes} bytes, which do not fit now with those of your other requests: try \
                 again later, or request less"
            );
            Refusal::new(429, "overloaded", message).retry_after(1)
        })
    }

    /// Takes memory for an answer while it is written.
    pub(crate) fn answer_bytes(&self, ask: &Ask, tenant: &Arc<str>) -> Result<Share, Refusal> {
        let Options { max_tokens, limits, .. } = self.options;
        charge::check_texts(ask, limits.texts)?;
        let is_signed = self.manifests.are_for(ask)?;
        let bytes = charge::answer_bytes(ask, max_tokens, self.writing.at_a_time(), is_signed);
        charge::check_answer(bytes, limits.answer)?;
        self.bytes(tenant, bytes)
    }

    /// The model with a name; the first one for requests that name none.
    pub(crate) fn model(&self, name: Option<&str>) -> Result<ModelId, Refusal> {
        let Some(name) = name else { return Ok(ModelId::FIRST) };
        self.models.named(name).ok_or_else(|| {
            let all: Vec<String> = self.models.all().map(|(_, model)| format!("{:?}", model.name())).collect();
            let message = format!("this server has no model {name:?}: it serves {}", all.join(", "));
            Refusal { param: Some("model".into()), ..Refusal::new(404, "model_not_found", message) }
        })
    }

    /// The description of a model.
    pub(crate) fn entry(&self, model: ModelId) -> &ModelEntry {
        self.models.entry(model)
    }

    /// Waits until a model is loaded, and uses it.
    ///
    /// # Errors
    /// If it cannot be loaded, or not before the deadline.
    pub(crate) async fn lease(&self, model: ModelId, deadline: &Deadline) -> Result<Lease, Refusal> {
        deadline.wait(self.models.lease(model)).await?
    }

    /// Refuses a weight of the experts that a request may not set.
    pub(crate) fn check_alpha(&self, ask: &Ask) -> Result<(), Refusal> {
        let message = match (ask.alpha, self.options.max_alpha) {
            (None, _) => return Ok(()),
            (Some(alpha), Some(most)) if alpha <= most => return Ok(()),
            (Some(alpha), Some(most)) => format!("alpha is {alpha}, but this server accepts up to {most}"),
            (Some(_), None) => "requests may not set the weight of the experts here: leave the field out".into(),
        };
        Err(Refusal::field("alpha", "alpha_not_allowed", message))
    }

    /// Whether the tokens of prompts must be counted: there is a limit, and by their bytes they may exceed it.
    pub(crate) fn must_count(&self, ask: &Ask, engine: &Engine) -> bool {
        let most = self.options.limits.prompt_tokens;
        let may_be_longer = |prompt: &Prompt| match prompt {
            // A token has at least one byte, except for the one that begins a text.
            Prompt::Text(text) => text.len() >= most,
            Prompt::Tokens(tokens) => tokens.len() > most,
            Prompt::Chat(_) => true,
        };
        most < engine.context_length() && ask.prompts.iter().any(may_be_longer)
    }

    /// Refuses prompts of too many tokens.
    pub(crate) fn check_prompts(&self, ask: &Ask, engine: &Engine) -> Result<(), Refusal> {
        let most = self.options.limits.prompt_tokens;
        for prompt in &ask.prompts {
            let tokens = engine.prompt_tokens(prompt).map_err(|error| ask.refusal(error))?;
            if tokens.len() > most {
                let message = format!("a prompt has {} tokens, but this server accepts up to {most}", tokens.len());
                return Err(Refusal::field(ask.prompt_field(), "context_length_exceeded", message));
            }
        }
        Ok(())
    }

    /// Refuses a request whose constraints are too long.
    pub(crate) fn check_constraints(&self, ask: &Ask) -> Result<(), Refusal> {
        ask.constraint.iter().try_for_each(|constraint| self.check_constraint(constraint))?;
        let (tools, most) = (ask.tools.as_ref().map_or(0, |tools| tools.bytes()), self.options.limits.constraint);
        if tools > most {
            let message = format!("the schemas of tools have {tools} bytes, but at most {most} are allowed");
            return Err(Refusal::field("tools", "constraint_too_large", message));
        }
        Ok(())
    }

    /// Refuses a constraint that is too long.
    pub(crate) fn check_constraint(&self, constraint: &ConstraintField) -> Result<(), Refusal> {
        let (bytes, most) = (constraint.bytes(), self.options.limits.constraint);
        if bytes > most {
            let message = format!("{} has {bytes} bytes, but at most {most} are allowed", constraint.path());
            return Err(Refusal::field(constraint.path(), "constraint_too_large", message));
        }
        Ok(())
    }

    /// The key that an answer of a model is marked with, if any.
    pub(crate) fn key_for(&self, model: ModelId, ask: &Ask, caller: &Caller) -> Result<Option<Arc<Key>>, Refusal> {
        match (ask.watermarking, self.operator.marks()) {
            (Some((true, field)), false) => Err(Refusal::field(
                field,
                "no_key",
                "a mark is requested, but this server has no key: leave the field out, or use another server",
            )),
            (Some((false, field)), true) if self.options.enforce_all => Err(Refusal::field(
                field,
                "watermark_enforced",
                "this server marks all texts that it writes: leave the field out",
            )),
            (Some((false, _)), _) | (None, false) => Ok(None),
            (_, true) => self.operator.writer(model, &caller.tenant).map(Some).ok_or_else(|| {
                let message = "the server has no key for marking this answer today: tell the operator";
                Refusal::new(503, "no_key_today", message)
            }),
        }
    }

    /// The model whose tokenizer reads a text: the one that is named, or the one that the key with the given id is for.
    ///
    /// # Errors
    /// If neither is given, and texts of different models are read in different ways.
    pub(crate) fn model_of_text(
        &self,
        caller: &Caller,
        model: Option<&str>,
        key_id: Option<&str>,
    ) -> Result<ModelId, Refusal> {
        if model.is_some() {
            return self.model(model);
        }
        let has_key =
            |model: ModelId, id: &str| self.operator.readers(model, &caller.tenant).iter().any(|key| key.id() == id);
        if let Some(id) = key_id {
            let of_key = self.models.all().map(|(model, _)| model).find(|&model| has_key(model, id));
            return Ok(of_key.unwrap_or(ModelId::FIRST));
        }
        let vocabulary = |model: &ModelEntry| model.reader().vocabulary().fingerprint().to_owned();
        let first = vocabulary(self.entry(ModelId::FIRST));
        match self.models.all().find(|(_, model)| vocabulary(model) != first) {
            None => Ok(ModelId::FIRST),
            Some((_, other)) => {
                let (one, other) = (self.entry(ModelId::FIRST).name(), other.name());
                let message = format!(
                    "the models of this server have different tokenizers, such as {one:?} and {other:?}: name the \
                     model that may have written the text, or a key in key_id"
                );
                Err(Refusal::field("model", "missing_field", message))
            }
        }
    }

    /// The keys with which texts of a model are tested for a client: the one with the given id, or all that the client
    /// may use. A client without the right `detect` gets the published keys only, if there are some.
    pub(crate) fn keys_named(
        &self,
        caller: &Caller,
        model: ModelId,
        id: Option<&str>,
    ) -> Result<Vec<Arc<Key>>, Refusal> {
        let mut keys = self.operator.readers(model, &caller.tenant);
        if keys.is_empty() {
            let message = "this server has no key for detection: start it with one, or use another server";
            return Err(Refusal::new(400, "no_key", message));
        }
        if !caller.rights.detect && keys.iter().any(|key| key.is_published()) {
            keys.retain(|key| key.is_published());
        }
        if let Some(id) = id {
            keys.retain(|key| key.id() == id);
            if keys.is_empty() {
                return Err(Refusal::field("key_id", "unknown_key", format!("this server has no key {id:?}")));
            }
        }
        Ok(keys)
    }

    /// The status of the mark of a text.
    pub(crate) fn mark_of(&self, engine: &Engine, key: Option<&Key>, written: &Written) -> MarkField {
        let Some(key) = key else {
            let reason = if !self.operator.marks() { "the server has no key" } else { "the request wants no mark" };
            return MarkField::not_watermarked(reason);
        };
        let (status, reason, scored) = match engine.mark_check(key, written, self.options.mark_level) {
            Ok(check) => (check.status, check.reason, check.scored),
            Err(_) => (MarkStatus::Skipped, Some("the text could not be read by a detector"), 0),
        };
        MarkField {
            status: status.name(),
            reason,
            key_id: Some(key.id().into()),
            scheme: (status != MarkStatus::Skipped).then(|| key.dialect().name()),
            scored_tokens: scored as usize,
        }
    }
}
