//! The models of a server.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clap::Args;
use verdigris::text::ChatTemplate;
use verdigris::{ModelFolder, Reader, Request};
use verdigris_server::{Drafts, LoadModel, LoadedModel, ModelLimits, ModelSource, ServedModels};

use crate::engine::{DraftSource, EngineSettings};
use crate::error::Failure;
use crate::generate::drafts::DraftOptions;
use crate::model::ModelOption;
use crate::number::some;

/// The most characters of a model's name.
const LONGEST_NAME: usize = 256;

#[derive(Args)]
pub(crate) struct ServedModelOptions {
    /// A model folder, a GGUF file, a model on the Hugging Face hub such as Qwen/Qwen2.5-0.5B or owner/name:file.gguf,
    /// or a built-in model: tale, tale-small, tale-expert [default: tale, a small storyteller]. May be given several
    /// times, also as NAME=PATH with the name of the model in requests: the first is loaded at once and answers
    /// requests that name none, the others when a request names them
    #[arg(short, long, value_name = "PATH|NAME")]
    model: Vec<String>,
    /// The name of the model in requests, if there is only one [default: the name of its file or folder]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// The most models in memory at the same time. Before another one is loaded, the one that was not used for longest
    /// is released, once its answers have ended
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = some::<usize>)]
    models_loaded: usize,
    /// The most bytes of the weights of models in memory, as they are stored; a single model may have more [default: no
    /// limit]
    #[arg(long, value_name = "BYTES", value_parser = some::<u64>)]
    models_memory: Option<u64>,
}

/// A model with its name in requests.
struct Named {
    name: String,
    model: ModelOption,
    /// The most tokens of a pass, once they are measured.
    rows: OnceLock<usize>,
}

/// The options that all models are loaded with.
struct Loading {
    /// Used by one thread at a time.
    settings: Mutex<EngineSettings>,
    drafts: Arc<DraftOptions>,
    /// The most tokens of a pass, if they are not measured.
    rows: Option<usize>,
}

/// The drafter of all texts.
struct Drafting {
    options: Arc<DraftOptions>,
    drafter: Option<DraftSource>,
}

impl Drafts for Drafting {
    fn onto<'r>(&'r self, request: Request<'r>, seed: Option<u64>) -> Request<'r> {
        self.options.apply(request, self.drafter.as_ref(), seed)
    }
}

impl ServedModelOptions {
    /// Finds all models, and loads the first.
    pub(super) fn load(
        &self,
        settings: EngineSettings,
        drafts: DraftOptions,
        rows: Option<usize>,
    ) -> Result<ServedModels, Failure> {
        let mut models = self.named(settings.has_adapter())?;
        let is_steered = settings.is_steered();
        let loading = Arc::new(Loading { settings: Mutex::new(settings), drafts: Arc::new(drafts), rows });
        let rest = models.split_off(1);
        let one = models.pop().expect("there is one");
        let first = loading.load(&one)?;
        let mut source = ModelSource::loaded(&one.name, &first.engine);
        if rest.is_empty() {
            return Ok(ServedModels::one(one.name, first));
        }
        source.bytes = loading.folder(&one.model)?.weight_bytes()?;
        source.load = Some(loading.loader(one));
        let mut sources = vec![source];
        for one in rest {
            let folder = loading.folder(&one.model)?;
            sources.push(ModelSource {
                name: one.name.clone(),
                reader: Reader::new(folder.tokenizer()?),
                template: template(&folder)?,
                // Models that only another library computes have a description of their own, and experts may have a
                // smaller context.
                context: folder.config().ok().filter(|_| !is_steered).map(|config| config.context),
                bytes: folder.weight_bytes()?,
                load: Some(loading.loader(one)),
            });
        }
        let limits = ModelLimits { models: self.models_loaded, bytes: self.models_memory.unwrap_or(u64::MAX) };
        Ok(ServedModels { sources, first, limits })
    }

    /// The tokenizers of the models that are built in or at a path, with the models' names.
    pub(crate) fn readers(&self) -> Result<Vec<(String, Reader)>, Failure> {
        let here = self.named(false)?.into_iter().filter(|Named { model, .. }| model.is_here());
        here.map(|Named { name, model, .. }| Ok((name, model.reader()?))).collect()
    }

    /// The models with their names, at least one.
    fn named(&self, has_adapter: bool) -> Result<Vec<Named>, Failure> {
        let all: Result<Vec<Named>, Failure> = self.model.iter().map(|given| Named::parse(given)).collect();
        let mut all = all?;
        if all.is_empty() {
            all.push(Named::of(None));
        }
        if all.len() > 1 && has_adapter {
            let message = "--adapter is for one --model: with several, give the folder of an adapter as a --model";
            return Err(Failure::Usage(message.into()));
        }
        match (&self.served_model_name, &mut all[..]) {
            (Some(name), [one]) => one.name.clone_from(name),
            (Some(_), _) => {
                let message = "--served-model-name is for one --model: with several, give --model NAME=PATH";
                return Err(Failure::Usage(message.into()));
            }
            (None, _) => (),
        }
        let twice = all.iter().enumerate().find(|(at, one)| all[..*at].iter().any(|other| other.name == one.name));
        if let Some((_, Named { name, .. })) = twice {
            let message = format!("two models have the name {name:?}: give each another with --model NAME=PATH");
            return Err(Failure::Usage(message));
        }
        Ok(all)
    }
}

impl Named {
    fn of(path: Option<PathBuf>) -> Self {
        let model = ModelOption { model: path };
        Self { name: model.name(), model, rows: OnceLock::new() }
    }

    /// Reads `NAME=PATH` or a path. Something that exists is a path, whatever its name.
    fn parse(given: &str) -> Result<Self, Failure> {
        match given.split_once('=') {
            Some((name, path)) if !PathBuf::from(given).exists() => {
                let is_plain = |c: char| !c.is_control() && !c.is_whitespace();
                if name.is_empty() || path.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_plain) {
                    let message = format!(
                        "--model {given:?} is not NAME=PATH: the name must have 1 to {LONGEST_NAME} characters without \
                         spaces, and there must be a path"
                    );
                    return Err(Failure::Usage(message));
                }
                Ok(Self { name: name.into(), ..Self::of(Some(path.into())) })
            }
            _ => Ok(Self::of(Some(given.into()))),
        }
    }
}

impl Loading {
    fn folder(&self, model: &ModelOption) -> Result<ModelFolder, Failure> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).folder(model)
    }

    fn load(&self, Named { model, rows, .. }: &Named) -> Result<LoadedModel, Failure> {
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = settings.engine(model)?;
        let drafter = self.drafts.drafter_from(|path| settings.drafter(model, path))?;
        let rows = match self.rows.or(rows.get().copied()) {
            Some(known) => known,
            None => {
                let measured = verdigris::schedule::rows::measured(engine.model()).map_err(verdigris::Error::Model)?;
                *rows.get_or_init(|| measured)
            }
        };
        let drafts = Box::new(Drafting { options: self.drafts.clone(), drafter });
        Ok(LoadedModel { engine, drafts, rows: Some(rows) })
    }

    fn loader(self: &Arc<Self>, model: Named) -> LoadModel {
        let this = self.clone();
        Box::new(move || this.load(&model).map_err(|failure| failure.to_string()))
    }
}

/// The source of a model's chat template, if it has a valid one.
fn template(folder: &ModelFolder) -> Result<Option<String>, Failure> {
    let Some(chat) = folder.chat()? else { return Ok(None) };
    let valid = ChatTemplate::new(&chat.template, chat.begin.as_deref(), chat.end.as_deref());
    Ok(valid.is_ok().then_some(chat.template))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_before_the_first_sign_of_equality() {
        let parsed = |given: &str| {
            let Named { name, model, .. } = Named::parse(given).map_err(|failure| failure.to_string())?;
            Ok::<_, String>((name, model.model.unwrap().display().to_string()))
        };
        assert_eq!(parsed("a=b/c=d").unwrap(), ("a".into(), "b/c=d".into()));
        assert_eq!(parsed("owner/name").unwrap(), ("owner/name".into(), "owner/name".into()));
        for bad in ["=b", "a=", "a b=c", "a\n=c"] {
            assert!(parsed(bad).unwrap_err().contains("is not NAME=PATH"), "{bad:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("x=y");
        std::fs::create_dir(&odd).unwrap();
        assert_eq!(parsed(odd.to_str().unwrap()).unwrap().0, "x=y");
    }
}
