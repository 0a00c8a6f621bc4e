//! Options for an engine.

use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::models::DraftHead;
use verdigris::{Device, Engine, ModelFolder, Request};

use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption, find_drafter};
use crate::ranks::RankOptions;
use crate::steering::SteerOptions;

/// The drafter that is in the files of the model itself.
const OWN: &str = "mtp";

/// Options for an engine: a model on a device, steered or not.
#[derive(Args)]
pub(crate) struct EngineOptions {
    #[command(flatten)]
    model: ModelOption,
    #[command(flatten)]
    with: EngineSettings,
}

/// Options for an engine in addition to its model.
#[derive(Args)]
pub(crate) struct EngineSettings {
    /// Write with this adapter of the model: a folder saved by peft (LoRA, DoRA). As --model, --expert or --anti, such
    /// a folder means its base model with the adapter
    #[arg(long, value_name = "PATH|NAME")]
    adapter: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceOption,
    #[command(flatten, next_help_heading = "Steering")]
    steer: SteerOptions,
}

impl EngineSettings {
    /// A model with these settings.
    pub(crate) fn engine(&self, model: &ModelOption) -> Result<Engine, Failure> {
        self.steered(self.unsteered(model)?)
    }

    fn unsteered(&self, model: &ModelOption) -> Result<Engine, Failure> {
        model.engine(self.adapter.as_deref(), &self.device.device()?)
    }

    /// The files of a model, with the adapter if one is given.
    pub(crate) fn folder(&self, model: &ModelOption) -> Result<ModelFolder, Failure> {
        model.adapted(self.adapter.as_deref())
    }

    /// Warns of options of the device that have no effect.
    pub(crate) fn warn(&self) {
        self.device.warn();
    }

    pub(crate) fn is_steered(&self) -> bool {
        !self.steer.is_none()
    }

    /// Whether an adapter is given.
    #[cfg(feature = "serve")]
    pub(crate) fn has_adapter(&self) -> bool {
        self.adapter.is_some()
    }

    fn steered(&self, engine: Engine) -> Result<Engine, Failure> {
        let device = match self.steer.backend() {
            Some(backend) if backend != self.device.backend => backend.device(self.device.name())?,
            _ => self.device.device()?,
        };
        self.steer.steer(engine, &device)
    }

    /// A drafter for a model: another model on the same device, a draft head, or the model's own layer for later
    /// tokens.
    pub(crate) fn drafter(&self, model: &ModelOption, source: &Path) -> Result<DraftSource, Failure> {
        if source == Path::new(OWN) {
            return Ok(DraftSource::Head(DraftHead::own(&self.folder(model)?)?));
        }
        let folder = find_drafter(source)?;
        if DraftHead::is_in(&folder) {
            return Ok(DraftSource::Head(DraftHead::load(&folder, &self.folder(model)?)?));
        }
        Ok(DraftSource::Model(Engine::from_folder(&folder, &self.device.device()?)?))
    }
}

impl EngineOptions {
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        self.with.engine(&self.model)
    }

    /// The display name of the model.
    pub(crate) fn model_name(&self) -> String {
        self.model.name()
    }

    /// The engine on ranks, if there are any. The models that steer it are not split.
    pub(crate) fn engine_on(&self, ranks: &RankOptions) -> Result<Engine, Failure> {
        match ranks.device(self.with.device.is_chosen())? {
            Some(ranks) => self.with.steered(self.model.engine(self.with.adapter.as_deref(), &ranks)?),
            None => self.engine(),
        }
    }

    pub(crate) fn unsteered(&self) -> Result<Engine, Failure> {
        self.with.unsteered(&self.model)
    }

    /// Warns of options of the device that have no effect.
    pub(crate) fn warn(&self) {
        self.with.warn();
    }

    /// The device that it computes on.
    pub(crate) fn device(&self) -> Result<Device, Failure> {
        self.with.device.device()
    }

    pub(crate) fn is_steered(&self) -> bool {
        self.with.is_steered()
    }

    /// A drafter for this model.
    pub(crate) fn drafter(&self, source: &Path) -> Result<DraftSource, Failure> {
        self.with.drafter(&self.model, source)
    }
}

/// A drafter.
pub(crate) enum DraftSource {
    Model(Engine),
    Head(DraftHead),
}

impl DraftSource {
    /// The same request, with drafts.
    pub(crate) fn draft<'a>(&'a self, request: Request<'a>) -> Request<'a> {
        match self {
            Self::Model(engine) => request.draft(engine),
            Self::Head(head) => request.draft_head(head),
        }
    }
}
