//! Options for an engine.

use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::models::DraftHead;
use verdigris::{Device, Engine, Request};

use crate::error::Failure;
use crate::model::{DeviceOption, ModelOption, find_drafter};
use crate::ranks::RankOptions;
use crate::steering::SteerOptions;

/// Options for an engine: a model on a device, steered or not.
#[derive(Args)]
pub(crate) struct EngineOptions {
    #[command(flatten)]
    model: ModelOption,
    /// Write with this adapter of the model: a folder saved by peft (LoRA, DoRA). As --model, --expert or --anti, such
    /// a folder means its base model with the adapter
    #[arg(long, value_name = "PATH|NAME")]
    adapter: Option<PathBuf>,
    #[command(flatten)]
    device: DeviceOption,
    #[command(flatten, next_help_heading = "Steering")]
    steer: SteerOptions,
}

impl EngineOptions {
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        self.steered(self.unsteered()?)
    }

    /// The display name of the model.
    pub(crate) fn model_name(&self) -> String {
        self.model.name()
    }

    /// The engine on ranks, if there are any. The models that steer it are not split.
    pub(crate) fn engine_on(&self, ranks: &RankOptions) -> Result<Engine, Failure> {
        match ranks.device(self.device.is_chosen())? {
            Some(ranks) => self.steered(self.model.engine(self.adapter.as_deref(), &ranks)?),
            None => self.engine(),
        }
    }

    fn steered(&self, engine: Engine) -> Result<Engine, Failure> {
        let device = match self.steer.backend() {
            Some(backend) if backend != self.device.backend => backend.device(&self.device.name)?,
            _ => self.device.device()?,
        };
        self.steer.steer(engine, &device)
    }

    pub(crate) fn unsteered(&self) -> Result<Engine, Failure> {
        self.model.engine(self.adapter.as_deref(), &self.device.device()?)
    }

    /// The device that it computes on.
    pub(crate) fn device(&self) -> Result<Device, Failure> {
        self.device.device()
    }

    pub(crate) fn is_steered(&self) -> bool {
        !self.steer.is_none()
    }

    /// A drafter for this model: another model on the same device, or a draft head.
    pub(crate) fn drafter(&self, source: &Path) -> Result<DraftSource, Failure> {
        let folder = find_drafter(source)?;
        if DraftHead::is_in(&folder) {
            let target = self.model.adapted(self.adapter.as_deref())?;
            return Ok(DraftSource::Head(DraftHead::load(&folder, &target)?));
        }
        Ok(DraftSource::Model(Engine::from_folder(&folder, &self.device.device()?)?))
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
