//! The model that a command uses.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use verdigris::models::{Fetched, ModelError};
use verdigris::{Device, Engine, ModelFolder, Reader, device};

use crate::built_in::{self, named, storyteller};
use crate::error::Failure;
use crate::number::or_all;
use crate::progress;
use crate::terminal::headed;

#[derive(Args)]
pub(crate) struct ModelOption {
    /// A model folder, a GGUF file, a model on the Hugging Face hub such as Qwen/Qwen2.5-0.5B or owner/name:file.gguf,
    /// or a built-in model: tale, tale-small, tale-expert [default: tale, a small storyteller]
    #[arg(short, long, value_name = "PATH|NAME")]
    pub(crate) model: Option<PathBuf>,
}

/// The device and the library that models compute with.
#[derive(Args)]
pub(crate) struct DeviceOption {
    /// Compute on cpu, cuda or cuda:1, or with candle also on metal
    #[arg(long = "device", value_name = "DEVICE", default_value = "cpu")]
    name: String,
    /// Compute all layers on a GPU, or for 0 on the CPU: another way to say --device, which is -ngl in other programs
    #[arg(long, alias = "gpu-layers", value_name = "N", value_parser = layers, conflicts_with = "name",
          hide = true)]
    n_gpu_layers: Option<Layers>,
    /// Compute with our own decoders, and models that they lack with candle (auto), or all models with candle
    #[arg(long, value_name = "LIBRARY", default_value = "auto")]
    pub(crate) backend: Backend,
    /// Created on first use, and shared by all models.
    #[arg(skip)]
    device: OnceCell<Device>,
}

/// The layers that are computed on a GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layers {
    None,
    All,
}

/// The GPU that this program computes on by default, if it can compute on any.
const GPU: Option<&str> = if cfg!(any(feature = "cuda", feature = "candle-cuda", feature = "emulated-cuda")) {
    Some("cuda")
} else if cfg!(feature = "candle-metal") {
    Some("metal")
} else {
    None
};

/// Parses a number of layers as llama.cpp does: -1, `auto` and `all` are all of them. A model is never divided, so any
/// other number above 0 is all of them too.
fn layers(text: &str) -> Result<Layers, String> {
    match text {
        "0" => Ok(Layers::None),
        "auto" | "all" => Ok(Layers::All),
        _ => or_all(text).map(|_| Layers::All),
    }
}

/// The library that computes.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    Auto,
    Candle,
}

impl Backend {
    pub(crate) fn device(self, name: &str) -> Result<Device, Failure> {
        match self {
            Self::Auto => Ok(device(name)?),
            #[cfg(feature = "candle")]
            Self::Candle => Ok(Device::Backend(std::sync::Arc::new(verdigris::Candle::new(name)?))),
            #[cfg(not(feature = "candle"))]
            Self::Candle => {
                Err(Failure::Usage("candle is not part of this program: build it with `--features candle`".into()))
            }
        }
    }
}

impl DeviceOption {
    /// The name of the device.
    pub(crate) fn name(&self) -> &str {
        match self.n_gpu_layers {
            None => &self.name,
            Some(Layers::None) => "cpu",
            Some(Layers::All) => GPU.unwrap_or("cpu"),
        }
    }

    /// Warns if a GPU is asked for by its layers, and this program cannot compute on any.
    pub(crate) fn warn(&self) {
        if self.n_gpu_layers == Some(Layers::All) && GPU.is_none() {
            let why = "-ngl has no effect, since this program computes on CPUs only: build it with --features cuda";
            headed("warning", why);
        }
    }

    /// Whether it is another than the default.
    pub(crate) fn is_chosen(&self) -> bool {
        self.name() != "cpu" || self.backend != Backend::Auto
    }

    pub(crate) fn device(&self) -> Result<Device, Failure> {
        if let Some(device) = self.device.get() {
            return Ok(device.clone());
        }
        let device = self.backend.device(self.name())?;
        Ok(self.device.get_or_init(|| device).clone())
    }
}

impl ModelOption {
    pub(crate) fn folder(&self) -> Result<ModelFolder, Failure> {
        self.model.as_deref().map_or_else(|| Ok(storyteller()), find)
    }

    /// The display name: the last part of the path, or the name on the hub.
    pub(crate) fn name(&self) -> String {
        let Some(source) = &self.model else { return "tale".into() };
        let last = source.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        last.unwrap_or_else(|| source.display().to_string())
    }

    /// The model, with the adapter if one is given.
    pub(crate) fn adapted(&self, adapter: Option<&Path>) -> Result<ModelFolder, Failure> {
        let folder = self.folder()?;
        let Some(adapter) = adapter else { return Ok(folder) };
        if folder.has_adapter() {
            return Err(Failure::Usage("--model is an adapter already: give its base, or leave out --adapter".into()));
        }
        fetching(|each| folder.with_found_adapter(adapter, each))
    }

    pub(crate) fn engine(&self, adapter: Option<&Path>, device: &Device) -> Result<Engine, Failure> {
        let folder = self.adapted(adapter)?;
        let started = std::time::Instant::now();
        let engine = Engine::from_folder(&folder, device)?;
        tracing::debug!(seconds = started.elapsed().as_secs_f64(), "model loaded");
        Ok(engine)
    }

    /// Whether it is built in or at a path, so that nothing is fetched.
    #[cfg(feature = "serve")]
    pub(crate) fn is_here(&self) -> bool {
        self.model.as_deref().is_none_or(|source| named(source).is_some() || source.exists())
    }

    pub(crate) fn reader(&self) -> Result<Reader, Failure> {
        let find = |source: &Path| match named(source) {
            Some(folder) => Ok(folder),
            None => found(source, |source, each| ModelFolder::find_tokenizer(source, each)),
        };
        let folder = self.model.as_deref().map_or_else(|| Ok(storyteller()), find)?;
        Ok(Reader::new(folder.tokenizer()?))
    }
}

/// Finds a model that is built in, at a path, or on the hub.
pub(crate) fn find(source: &Path) -> Result<ModelFolder, Failure> {
    match named(source) {
        Some(folder) => Ok(folder),
        None => found(source, |source, each| ModelFolder::find(source, each)),
    }
}

/// Finds what drafts, a model or a draft head, in the same way.
pub(crate) fn find_drafter(source: &Path) -> Result<ModelFolder, Failure> {
    match named(source) {
        Some(folder) => Ok(folder),
        None => found(source, |source, each| ModelFolder::find_drafter(source, each)),
    }
}

/// Fetches a model, with a progress bar.
fn fetching(
    fetch: impl FnOnce(&mut dyn FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError>,
) -> Result<ModelFolder, Failure> {
    let template = "{msg} {bar:32.green/dim} {bytes} of {total_bytes}, {eta} left";
    let mut bar: Option<ProgressBar> = None;
    let found = fetch(&mut |fetched| {
        let bar = bar.get_or_insert_with(|| progress::bar(0, template, false));
        bar.set_length(fetched.of);
        bar.set_message(fetched.file.to_owned());
        bar.set_position(fetched.bytes);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(found?)
}

/// Looks for a model at a path or on the hub. A single name that is not a path is not a name on the hub either: the
/// error then names the built-in models.
fn found(
    source: &Path,
    find: impl FnOnce(&Path, &mut dyn FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError>,
) -> Result<ModelFolder, Failure> {
    if source.components().count() == 1 && !source.exists() {
        let error = ModelError::NotAModel { path: source.into(), fault: "there is nothing at that path".into() };
        return Err(Failure::Usage(format!("{error}; {}", built_in::names(source))));
    }
    fetching(|each| find(source, each))
}

/// Loads a model.
pub(crate) fn load(source: &Path, device: &Device) -> Result<Engine, Failure> {
    Ok(Engine::from_folder(&find(source)?, device)?)
}
