//! The models that a server can load.

use std::fmt;

use verdigris::{Engine, Reader};

use crate::options::Drafts;

/// Loads a model. The error is the reason in one line, for the log.
pub type LoadModel = Box<dyn Fn() -> Result<LoadedModel, String> + Send + Sync>;

/// A model that a server can load, and its description while it is not loaded.
pub struct ModelSource {
    /// Its name in requests and answers.
    pub name: String,
    /// Its tokenizer.
    pub reader: Reader,
    /// The source of its chat template, if it has a valid one.
    pub template: Option<String>,
    /// The maximum number of tokens of prompt and output together, if that is known before it is loaded.
    pub context: Option<usize>,
    /// The number of bytes of memory that it takes, about; 0 if that is not known.
    pub bytes: u64,
    /// Loads it; `None` if it is loaded at the start and never released.
    pub load: Option<LoadModel>,
}

/// A loaded model.
pub struct LoadedModel {
    /// The model.
    pub engine: Engine,
    /// The drafting of its texts.
    pub drafts: Box<dyn Drafts>,
    /// The most tokens of a pass while prompts wait; `None` for those of [`Options::capacity`](crate::Options).
    pub rows: Option<usize>,
}

/// The models of a server.
pub struct ServedModels {
    /// All models. The first is the one of requests that name none.
    pub sources: Vec<ModelSource>,
    /// The first model.
    pub first: LoadedModel,
    /// The limits of loaded models.
    pub limits: ModelLimits,
}

/// The limits of loaded models. Before another one is loaded, models are released until it fits; one always does.
#[derive(Clone, Copy, Debug)]
pub struct ModelLimits {
    /// The maximum number of loaded models, at least one.
    pub models: usize,
    /// The maximum number of their bytes.
    pub bytes: u64,
}

impl ServedModels {
    /// One model, which is never released.
    pub fn one(name: impl Into<String>, model: LoadedModel) -> Self {
        let limits = ModelLimits { models: 1, bytes: u64::MAX };
        Self { sources: vec![ModelSource::loaded(name, &model.engine)], first: model, limits }
    }
}

impl ModelSource {
    /// The description of a loaded model, which is never released.
    pub fn loaded(name: impl Into<String>, engine: &Engine) -> Self {
        Self {
            name: name.into(),
            reader: engine.reader().clone(),
            template: engine.chat_template().ok().map(|template| template.source().to_owned()),
            context: Some(engine.context_length()),
            bytes: 0,
            load: None,
        }
    }
}

impl fmt::Debug for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelSource").field("name", &self.name).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
