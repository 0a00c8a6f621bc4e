//! The models of a server: loaded on demand, and released when others need their memory.
//!
//! A request that uses a model holds a [`Lease`], and a model is only released when nothing holds one. At most one
//! model is loaded at a time, in the order of the requests. If all loaded models are in use, the least recently used
//! one takes no further requests until its answers have ended and it was released, so that no model waits forever.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use verdigris::schedule::Statistics;
use verdigris::{Engine, Error, PendingStates, PrefixFolder, Reader};

use crate::metrics::Metrics;
use crate::model_source::{LoadedModel, ModelLimits, ModelSource, ServedModels};
use crate::options::PrefixStoreOptions;
use crate::protocol::Refusal;
use crate::totals::Totals;
use crate::writer::{Writer, WriterOptions};

/// The number of permits of a loaded model; a lease holds one, and releasing the model takes all.
const LEASES: u32 = 1 << 20;

/// The time in which a model that could not be loaded is not tried again, so that requests for it do not release
/// others.
const RETRY: Duration = Duration::from_secs(10);

/// The number of a model, in the order of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ModelId(usize);

impl ModelId {
    /// The model of requests that name none.
    pub(crate) const FIRST: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// All models of a server.
pub(crate) struct Models {
    entries: Vec<ModelEntry>,
    limits: ModelLimits,
    writing: WriterOptions,
    prefix_store: Option<PrefixStoreOptions>,
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    /// Held while a model is released or loaded.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A model, loaded or not.
pub(crate) struct ModelEntry {
    source: ModelSource,
    /// The maximum number of tokens of prompt and output together, if that is known yet.
    context: OnceLock<usize>,
}

impl ModelEntry {
    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.source.reader
    }

    /// The source of its chat template, if it has a valid one.
    pub(crate) fn template(&self) -> Option<&str> {
        self.source.template.as_deref()
    }

    /// The number of tokens of prompt and output together, if that is known yet.
    pub(crate) fn context(&self) -> Option<usize> {
        self.context.get().copied()
    }

    /// The number of bytes of its weights; 0 if that is not known.
    pub(crate) fn bytes(&self) -> u64 {
        self.source.bytes
    }
}

#[derive(Default)]
struct State {
    /// The loaded models, the least recently used one first.
    loaded: Vec<Arc<Running>>,
    /// The model that takes no further requests, and is released when its answers have ended.
    leaving: Option<Arc<Running>>,
    /// The statistics of released models.
    released: Totals,
    /// The models that could not be loaded, and when that was.
    failed: HashMap<ModelId, Instant>,
}

impl State {
    /// All models in memory.
    fn all(&self) -> impl Iterator<Item = &Arc<Running>> {
        self.loaded.iter().chain(&self.leaving)
    }
}

/// A loaded model.
pub(crate) struct Running {
    pub(crate) id: ModelId,
    pub(crate) engine: Arc<Engine>,
    pub(crate) writer: Arc<Writer>,
    /// The states of prompts that wait to be stored.
    pending: Option<PendingStates>,
    leases: Arc<Semaphore>,
}

/// The use of a loaded model, which is not released while there is one.
#[derive(Clone)]
pub(crate) struct Lease(Arc<Leased>);

struct Leased {
    model: Arc<Running>,
    _permit: OwnedSemaphorePermit,
}

impl Deref for Lease {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.0.model
    }
}

impl Running {
    fn lease(self: &Arc<Self>) -> Option<Lease> {
        let permit = self.leases.clone().try_acquire_owned().ok()?;
        Some(Lease(Arc::new(Leased { model: self.clone(), _permit: permit })))
    }

    fn is_idle(&self) -> bool {
        self.leases.available_permits() == LEASES as usize
    }
}

impl Models {
    /// # Errors
    /// If the folder for states of prompts cannot be used with the first model.
    pub(crate) fn new(
        models: ServedModels,
        writing: WriterOptions,
        prefix_store: Option<PrefixStoreOptions>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let ServedModels { sources, first, limits } = models;
        let entry = |source: ModelSource| {
            let context = source.context.map_or_else(OnceLock::new, OnceLock::from);
            ModelEntry { source, context }
        };
        let (entries, state, turn) = (sources.into_iter().map(entry).collect(), Mutex::default(), Arc::default());
        let models = Self { entries, limits, writing, prefix_store, metrics, state, turn };
        models.start(ModelId::FIRST, first)?;
        Ok(models)
    }

    pub(crate) fn entry(&self, id: ModelId) -> &ModelEntry {
        &self.entries[id.0]
    }

    /// All models, in the order of the operator.
    pub(crate) fn all(&self) -> impl Iterator<Item = (ModelId, &ModelEntry)> {
        self.entries.iter().enumerate().map(|(at, entry)| (ModelId(at), entry))
    }

    /// The model with this name.
    pub(crate) fn named(&self, name: &str) -> Option<ModelId> {
        self.entries.iter().position(|entry| entry.name() == name).map(ModelId)
    }

    /// The loaded models, in the order of the operator.
    pub(crate) fn loaded(&self) -> Vec<ModelId> {
        let mut ids: Vec<ModelId> = self.state().all().map(|model| model.id).collect();
        ids.sort_by_key(|id| id.0);
        ids
    }

    /// Waits until a model is loaded, and uses it.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub(crate) async fn lease(self: &Arc<Self>, id: ModelId) -> Result<Lease, Refusal> {
        if let Some(lease) = self.leased(id) {
            return Ok(lease);
        }
        let turn = self.turn.clone().lock_owned().await;
        if let Some(lease) = self.leased(id) {
            return Ok(lease);
        }
        if self.state().failed.get(&id).is_some_and(|at| at.elapsed() < RETRY) {
            return Err(self.unavailable(id));
        }
        let models = self.clone();
        // A task of its own: if the client disconnects, the turn still lasts until the model is loaded.
        let loading = tokio::spawn(async move {
            let _turn = turn;
            models.make_room(id).await;
            let loaded = models.clone();
            tokio::task::spawn_blocking(move || loaded.load(id)).await
        });
        match loading.await {
            Ok(Ok(loaded)) => loaded,
            // It panicked.
            Ok(Err(_)) | Err(_) => {
                self.state().failed.insert(id, Instant::now());
                Err(self.unavailable(id))
            }
        }
    }

    /// The lease of a loaded model, which is now the most recently used one.
    fn leased(&self, id: ModelId) -> Option<Lease> {
        let mut state = self.state();
        let at = state.loaded.iter().position(|model| model.id == id)?;
        let model = state.loaded.remove(at);
        state.loaded.push(model.clone());
        model.lease()
    }

    /// Releases models until there is room for another one.
    async fn make_room(&self, id: ModelId) {
        while let Some(model) = self.taken_out(id) {
            // The semaphore is never closed.
            let _all = model.leases.clone().acquire_many_owned(LEASES).await;
            {
                let mut state = self.state();
                state.leaving = None;
                state.released.add(&model.writer.statistics());
            }
            let name = self.entry(model.id).name();
            // This waits for a thread.
            let _ = tokio::task::spawn_blocking(move || drop(model)).await;
            tracing::info!(model = name, "released the model {name:?}");
        }
    }

    /// Takes out a loaded model if another one would not fit: the least recently used one without a lease, or else the
    /// least recently used one.
    fn taken_out(&self, id: ModelId) -> Option<Arc<Running>> {
        let mut state = self.state();
        let bytes = |id: ModelId| self.entry(id).bytes();
        let all = state.loaded.iter().map(|model| bytes(model.id)).fold(bytes(id), u64::saturating_add);
        if state.loaded.is_empty() || state.loaded.len() < self.limits.models && all <= self.limits.bytes {
            return None;
        }
        let idle = state.loaded.iter().position(|model| model.is_idle());
        let model = state.loaded.remove(idle.unwrap_or(0));
        state.leaving = Some(model.clone());
        Some(model)
    }

    /// Loads a model, and blocks until then.
    fn load(&self, id: ModelId) -> Result<Lease, Refusal> {
        let name = self.entry(id).name();
        let begun = Instant::now();
        let load = self.entry(id).source.load.as_ref().expect("only this kind of model is released");
        let model = load().and_then(|model| {
            self.check(id, &model.engine)?;
            self.start(id, model).map_err(|error| error.to_string())
        });
        let model = model.map_err(|error| {
            tracing::error!(model = name, %error, "cannot load the model {name:?}");
            self.state().failed.insert(id, Instant::now());
            self.unavailable(id)
        })?;
        tracing::info!(model = name, seconds = begun.elapsed().as_secs_f64(), "loaded the model {name:?}");
        Ok(model)
    }

    /// Refuses a model whose files have another tokenizer than at the start: its keys would not fit.
    fn check(&self, id: ModelId, engine: &Engine) -> Result<(), String> {
        let (now, then) = (engine.reader().vocabulary(), self.entry(id).reader().vocabulary());
        let is_same = now.fingerprint() == then.fingerprint();
        let message = "its tokenizer is not the one that it had when the server was started: restart the server";
        if is_same { Ok(()) } else { Err(message.into()) }
    }

    fn unavailable(&self, id: ModelId) -> Refusal {
        let message = format!("the model {:?} cannot be loaded: contact the operator", self.entry(id).name());
        Refusal {
            param: Some("model".into()),
            ..Refusal::new(503, "model_unavailable", message).retry_after(RETRY.as_secs())
        }
    }

    /// Starts the loop of a loaded model.
    fn start(&self, id: ModelId, model: LoadedModel) -> Result<Lease, Error> {
        let LoadedModel { engine, drafts, rows } = model;
        let prefixes = self.prefix_store.clone().map(|PrefixStoreOptions { folder, bytes }| {
            PrefixFolder::open(&engine, folder, bytes, Box::new(|fault| tracing::warn!("{fault}")))
        });
        let prefixes = prefixes.transpose()?;
        let pending = prefixes.as_ref().map(PrefixFolder::pending);
        let _ = self.entries[id.0].context.set(engine.context_length());
        let engine = Arc::new(engine);
        let writer = Arc::new(Writer::new(engine.clone(), drafts, &self.writing, rows, prefixes)?);
        let leases = Arc::new(Semaphore::new(LEASES as usize));
        let model = Arc::new(Running { id, engine, writer, pending, leases });
        let lease = model.lease().expect("it has no leases yet");
        self.state().loaded.push(model);
        self.metrics.loaded(self.entry(id).name());
        Ok(lease)
    }

    /// Whether the loops of all loaded models work.
    pub(crate) fn are_alive(&self) -> bool {
        self.state().all().all(|model| model.writer.is_alive())
    }

    /// The number of loaded models, and the statistics of all loops so far.
    pub(crate) fn statistics(&self) -> (usize, Statistics) {
        let state = self.state();
        let now: Vec<Statistics> = state.all().map(|model| model.writer.statistics()).collect();
        let mut totals = state.released;
        now.iter().for_each(|statistics| totals.add(statistics));
        (now.len(), totals.with_current(now.into_iter()))
    }

    /// The states of prompts that wait to be stored, for each loaded model.
    pub(crate) fn pending(&self) -> Vec<PendingStates> {
        self.state().all().filter_map(|model| model.pending.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
