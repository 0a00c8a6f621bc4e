//! The files of a model, wherever they are stored.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use verdigris_kernels::Bytes;
use verdigris_text::shown;

use super::file_names::{ADAPTER, ADAPTER_WEIGHTS, CONFIG, INDEX, MEDUSA_WEIGHTS, TOKENIZER, WEIGHTS};
use super::{open, other_formats};
use crate::description::gguf::Gguf;
use crate::description::gguf::shards::{self, Shard};
use crate::error::ModelError;

/// The location of a model's files.
#[derive(Clone, Debug)]
pub(crate) enum Files {
    Disk(PathBuf),
    /// One GGUF file with everything.
    Gguf(PathBuf),
    /// A GGUF file in memory.
    Memory(Arc<Vec<u8>>),
    Embedded {
        name: &'static str,
        config: &'static [u8],
        tokenizer: &'static [u8],
        weights: &'static [u8],
    },
}

impl Files {
    /// The folder at a path, or the GGUF file, which is recognised by its first bytes or by its name.
    pub(crate) fn at(path: PathBuf) -> Self {
        let is_called_so = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        // A folder may have any name, and so may a GGUF file.
        let is_gguf = is_called_so && !path.is_dir() || open::is_gguf(&path);
        if is_gguf { Self::Gguf(path) } else { Self::Disk(path) }
    }

    /// The GGUF file, memory-mapped.
    pub(crate) fn gguf_bytes(&self) -> Result<Option<Bytes>, ModelError> {
        let path = match self {
            Self::Gguf(path) => path,
            Self::Memory(bytes) => return Ok(Some(Bytes::new(bytes.clone()))),
            _ => return Ok(None),
        };
        let read = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => self.not_a_model("there is nothing at that path".into()),
            _ => ModelError::Read { path: path.clone(), source },
        };
        Ok(Some(Bytes::new(open::map(path).map_err(read)?)))
    }

    /// The contents of the GGUF file, including the other files of the model.
    pub(crate) fn gguf(&self) -> Result<Option<Gguf>, ModelError> {
        let damaged = |fault: String| ModelError::Damaged { path: self.path(""), fault };
        let Some(bytes) = self.gguf_bytes()? else { return Ok(None) };
        let mut gguf = Gguf::parse(&bytes).map_err(damaged)?;
        if let Some(shard) = gguf.shard().map_err(damaged)? {
            self.add_shards(&mut gguf, shard)?;
        }
        Ok(Some(gguf))
    }

    /// Adds the tensors in the other files of a model, which are in the folder of its first.
    fn add_shards(&self, first: &mut Gguf, Shard { number, count }: Shard) -> Result<(), ModelError> {
        let path = self.path("");
        let named = path.file_name().and_then(|name| shards::names(name.to_str()?));
        let Some(names) = named.filter(|names| names.len() == count && matches!(self, Self::Gguf(_))) else {
            let fault = format!(
                "it is one of the {count} files of a model, which are found by names like NAME-00001-of-{count:05}.gguf"
            );
            return Err(self.not_a_model(fault));
        };
        if number != 0 || path.file_name() != Some(names[0].as_ref()) {
            return Err(self.not_a_model(format!(
                "it is file {} of {count} of a model; give the first, {}",
                number + 1,
                names[0]
            )));
        }
        for (number, name) in names.into_iter().enumerate().skip(1) {
            let path = path.with_file_name(name);
            let mapped = open::map(&path).map_err(|source| self.unreadable(path.clone(), source))?;
            let damaged = |fault: String| ModelError::Damaged { path: path.clone(), fault };
            let other = Gguf::parse(&Bytes::new(mapped)).map_err(damaged)?;
            first.add(other, Shard { number, count }).map_err(damaged)?;
        }
        first.check_whole().map_err(|fault| ModelError::Damaged { path, fault })
    }

    /// The safetensors files: one, or the shards that an index lists; empty for a GGUF file. They are memory-mapped,
    /// and read on use.
    ///
    /// # Errors
    /// If a file is missing or cannot be read, or the index is damaged.
    pub(crate) fn safetensors(&self) -> Result<Vec<(PathBuf, Bytes)>, ModelError> {
        match self {
            Self::Embedded { weights, .. } => Ok(vec![(self.path(WEIGHTS), Bytes::new(Arc::new(*weights)))]),
            Self::Gguf(_) | Self::Memory(_) => Ok(Vec::new()),
            Self::Disk(_) => {
                let map = |path: PathBuf| match open::map(&path) {
                    Ok(mapped) => Ok((path, Bytes::new(mapped))),
                    Err(source) => Err(self.unreadable(path, source)),
                };
                self.weight_files()?.into_iter().map(map).collect()
            }
        }
    }

    /// The safetensors files of a draft head: those of a model, or the one that Medusa writes.
    pub(crate) fn safetensors_of_head(&self) -> Result<Vec<(PathBuf, Bytes)>, ModelError> {
        if self.has(INDEX) || self.has(WEIGHTS) {
            return self.safetensors();
        }
        if self.has(MEDUSA_WEIGHTS) {
            let path = self.path(MEDUSA_WEIGHTS);
            return match open::map(&path) {
                Ok(mapped) => Ok(vec![(path, Bytes::new(mapped))]),
                Err(source) => Err(self.unreadable(path, source)),
            };
        }
        other_formats::head_in_pickle(|file| self.has(file))
            .map_or_else(|| self.safetensors(), |fault| Err(self.not_a_model(fault)))
    }

    /// The number of bytes of the weights.
    pub(crate) fn weight_bytes(&self) -> Result<u64, ModelError> {
        let files = match self {
            Self::Embedded { weights, .. } => return Ok(weights.len() as u64),
            Self::Memory(bytes) => return Ok(bytes.len() as u64),
            Self::Disk(_) => self.weight_files()?,
            Self::Gguf(path) => {
                let shards = path.file_name().and_then(|name| shards::names(name.to_str()?));
                shards.map_or_else(
                    || vec![path.clone()],
                    |names| names.into_iter().map(|name| path.with_file_name(name)).collect(),
                )
            }
        };
        let size = |path: PathBuf| match std::fs::metadata(&path) {
            Ok(about) => Ok(about.len()),
            Err(source) => Err(self.unreadable(path, source)),
        };
        files.into_iter().map(size).sum()
    }

    fn weight_files(&self) -> Result<Vec<PathBuf>, ModelError> {
        if self.has(INDEX) { self.shards() } else { Ok(vec![self.path(WEIGHTS)]) }
    }

    fn unreadable(&self, path: PathBuf, source: std::io::Error) -> ModelError {
        match source.kind() {
            std::io::ErrorKind::NotFound => self.without(&file_name(&path)),
            _ => ModelError::Read { path, source },
        }
    }

    pub(crate) fn shards(&self) -> Result<Vec<PathBuf>, ModelError> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        let path = self.path(INDEX);
        let config = |fault: String| ModelError::Config { path: path.clone(), fault };
        let index: Index = serde_json::from_slice(&self.read(INDEX)?)
            .map_err(|error| config(shown(&error.to_string()).into_owned()))?;
        let names: BTreeSet<String> = index.weight_map.into_values().collect();
        // A shard must be a file in this folder.
        if let Some(name) = names.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
            return Err(config(format!("the shard {:?} is not a file name", shown(name))));
        }
        Ok(names.into_iter().map(|name| self.path(&name)).collect())
    }

    /// An adapter's weights, memory-mapped.
    pub(crate) fn adapter_weights(&self) -> Result<(PathBuf, Bytes), ModelError> {
        let path = self.path(ADAPTER_WEIGHTS);
        if !self.has(ADAPTER_WEIGHTS) && self.has("adapter_model.bin") {
            let fault = "its weights are in adapter_model.bin, which may hold any program; save them as safetensors";
            return Err(ModelError::Adapter { path: self.path(""), fault: fault.into() });
        }
        match open::map(&path) {
            Ok(mapped) => Ok((path, Bytes::new(mapped))),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Err(self.not_an_adapter(ADAPTER_WEIGHTS)),
            Err(source) => Err(ModelError::Read { path, source }),
        }
    }

    /// An adapter's configuration: the strength of its changes, and its base.
    pub(crate) fn adapter_config(&self) -> Result<Cow<'static, [u8]>, ModelError> {
        if !self.has(ADAPTER) {
            return Err(self.not_an_adapter(ADAPTER));
        }
        self.read(ADAPTER)
    }

    fn not_an_adapter(&self, missing: &str) -> ModelError {
        let fault =
            format!("it has no {missing}; an adapter's folder has {ADAPTER} and {ADAPTER_WEIGHTS}, as peft saves them");
        ModelError::Adapter { path: self.path("").components().collect(), fault }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        match self {
            Self::Disk(folder) => folder.join(file),
            Self::Gguf(path) => path.clone(),
            Self::Memory(_) => PathBuf::from("a GGUF file in memory"),
            Self::Embedded { name, .. } => Path::new(name).join(file),
        }
    }

    /// Whether the folder has a file of this name; only folders on disk have other files.
    pub(crate) fn has(&self, file: &str) -> bool {
        matches!(self, Self::Disk(folder) if folder.join(file).is_file())
    }

    fn not_a_model(&self, fault: String) -> ModelError {
        ModelError::NotAModel { path: self.path("").components().collect(), fault }
    }

    /// The first GGUF file in a folder.
    fn gguf_inside(&self) -> Option<PathBuf> {
        let Self::Disk(folder) = self else { return None };
        let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        files.filter(|path| path.extension().is_some_and(|extension| extension == "gguf")).min()
    }

    /// The error of a missing file, with what there is instead.
    fn without(&self, file: &str) -> ModelError {
        let place = self.path("").components().collect::<PathBuf>().display().to_string();
        let fault = other_formats::missing(file, |file| self.has(file), &place, &place);
        self.not_a_model(match self.gguf_inside() {
            Some(gguf) => format!("it has no {file}, but a GGUF file: give {}", gguf.display()),
            None => fault,
        })
    }

    fn read_at(&self, file: &str, path: &Path) -> Result<Cow<'static, [u8]>, ModelError> {
        match self {
            Self::Embedded { config, tokenizer, .. } => match file {
                CONFIG => Ok(Cow::Borrowed(config)),
                TOKENIZER => Ok(Cow::Borrowed(tokenizer)),
                _ => Err(self.not_a_model(format!("it has no {file}"))),
            },
            Self::Gguf(_) | Self::Memory(_) => Err(self.not_a_model(format!("it has no {file}"))),
            Self::Disk(folder) => {
                if !folder.exists() {
                    return Err(self.not_a_model("there is nothing at that path".into()));
                }
                if !folder.is_dir() && folder != path {
                    return Err(self.not_a_model("it is neither a folder nor a GGUF file".into()));
                }
                let read = open::read(path).map_err(|source| match source.kind() {
                    std::io::ErrorKind::NotFound => self.without(file),
                    _ => ModelError::Read { path: path.into(), source },
                });
                Ok(Cow::Owned(read?))
            }
        }
    }
    /// The tokenizer's file and its path, which may be the model's path itself.
    pub(crate) fn tokenizer(&self) -> Result<(PathBuf, Cow<'static, [u8]>), ModelError> {
        let path = match self {
            Self::Disk(path) if path.is_file() => path.clone(),
            _ => self.path(TOKENIZER),
        };
        let json = self.read_at(TOKENIZER, &path)?;
        Ok((path, json))
    }

    /// Reads the file of this name.
    pub(crate) fn read(&self, name: &str) -> Result<Cow<'static, [u8]>, ModelError> {
        self.read_at(name, &self.path(name))
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
