//! Which model a command uses.

use std::path::PathBuf;

use clap::Args;
use verdigris::{Device, Engine, ModelFolder, Reader};

use crate::error::Failure;

/// The model that is part of the program, so that it runs from any folder.
const TALE: ModelFolder = ModelFolder::embedded(
    "tale (built in)",
    include_bytes!("../../fixtures/models/tale/config.json"),
    include_bytes!("../../fixtures/models/tale/tokenizer.json"),
    include_bytes!("../../fixtures/models/tale/model.safetensors"),
);

#[derive(Args)]
pub(crate) struct ModelOption {
    /// A Hugging Face model folder [default: the small storyteller that is built in]
    #[arg(long, value_name = "PATH")]
    pub(crate) model: Option<PathBuf>,
}

impl ModelOption {
    pub(crate) fn folder(&self) -> ModelFolder {
        self.model.clone().map_or(TALE, ModelFolder::at)
    }

    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        let started = std::time::Instant::now();
        let engine = Engine::from_folder(&self.folder(), &Device::Cpu)?;
        tracing::debug!(seconds = started.elapsed().as_secs_f64(), "model loaded");
        Ok(engine)
    }

    pub(crate) fn reader(&self) -> Result<Reader, Failure> {
        Ok(Reader::from_folder(&self.folder())?)
    }
}
