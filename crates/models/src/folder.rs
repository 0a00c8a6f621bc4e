//! Models on disk: Hugging Face folders with `config.json`, `tokenizer.json` and `model.safetensors`, and GGUF files.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use verdigris_kernels::Format;
use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;

use crate::chat::{ChatSource, ids};
use crate::checkpoint::Checkpoint;
use crate::config::{DecoderConfig, Positions, Scaling};
use crate::cpu::{CacheLayout, CpuDecoder};
use crate::device::Device;
use crate::error::ModelError;
use crate::families::{Family, Fields, family};
use crate::files;
use crate::gguf::convert::{Converted, Model, convert};
use crate::gguf::{self, Gguf};
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
use crate::gpu::GpuDecoder;
use crate::hub::{Fetched, HubName};
use crate::language_model::LanguageModel;
use crate::matrix::Bytes;

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// A model folder, on disk or inside a program.
#[derive(Clone, Debug)]
pub struct ModelFolder {
    place: Place,
    cached_as: Option<Format>,
    layout: CacheLayout,
}

#[derive(Clone, Debug)]
enum Place {
    Disk(PathBuf),
    /// One file with everything.
    Gguf(PathBuf),
    /// Such a file in memory.
    Memory(Arc<Vec<u8>>),
    Embedded {
        name: &'static str,
        config: &'static [u8],
        tokenizer: &'static [u8],
        weights: &'static [u8],
    },
}

/// A model with what belongs to it.
pub struct LoadedModel {
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// Its description.
    pub config: DecoderConfig,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The tokens that end a text.
    pub end: Vec<TokenId>,
    /// The token that begins a text without a prompt.
    pub begin: Option<TokenId>,
    /// How it wants conversations.
    pub chat: Option<ChatSource>,
}

impl ModelFolder {
    const fn new(place: Place) -> Self {
        Self { place, cached_as: None, layout: CacheLayout::DEFAULT }
    }

    /// The folder at a path, or the GGUF file, which is known by how it begins or by its name.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_called_so = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
        // A folder may have any name, and so may such a file.
        let is_gguf = is_called_so && !path.is_dir() || files::is_gguf(&path);
        Self::new(if is_gguf { Place::Gguf(path) } else { Place::Disk(path) })
    }

    /// The folder or file at a path; where there is nothing, the model of that name on the [`hub`](crate::hub), which is fetched.
    pub fn find(place: impl AsRef<Path>, each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        match Self::hub_name(place.as_ref()) {
            Some(name) => name.fetch(each),
            None => Ok(Self::at(place.as_ref())),
        }
    }

    /// As [`ModelFolder::find`], but of a model on the hub its tokenizer alone.
    pub fn find_tokenizer(place: impl AsRef<Path>, each: impl FnMut(Fetched<'_>)) -> Result<Self, ModelError> {
        match Self::hub_name(place.as_ref()) {
            Some(name) => name.fetch_tokenizer(each),
            None => Ok(Self::at(place.as_ref())),
        }
    }

    fn hub_name(place: &Path) -> Option<HubName> {
        // What begins with a folder that is there is a path, perhaps with a slip.
        let is_path = place.exists() || place.parent().is_some_and(Path::exists);
        if is_path {
            return None;
        }
        HubName::parse(place.to_str()?)
    }

    /// A GGUF file that is in memory.
    pub fn gguf_in_memory(bytes: Vec<u8>) -> Self {
        Self::new(Place::Memory(Arc::new(bytes)))
    }

    /// A folder whose files are part of the program.
    pub const fn embedded(
        name: &'static str,
        config: &'static [u8],
        tokenizer: &'static [u8],
        weights: &'static [u8],
    ) -> Self {
        Self::new(Place::Embedded { name, config, tokenizer, weights })
    }

    /// The same model, whose keys and values are kept in a format, on a CPU: F32, F16, Bf16, or Q8_0 where heads are whole blocks.
    /// Without this they are F16, or F32 where the weights are.
    #[must_use]
    pub fn cached_as(mut self, format: Format) -> Self {
        self.cached_as = Some(format);
        self
    }

    /// How the memory of keys and values is laid out on a CPU; in pages unless told otherwise.
    pub fn cache_layout(mut self, layout: CacheLayout) -> Self {
        self.layout = layout;
        self
    }

    /// Loads everything.
    pub fn load(&self, device: &Device) -> Result<LoadedModel, ModelError> {
        let gguf = self.gguf()?;
        let fields = self.fields(gguf.as_ref())?;
        let config = self.config_of(&fields)?;
        let (end, begin) = self.ends(&fields, &config)?;
        let tokenizer = self.tokenizer_of(gguf.as_ref())?;
        let (tokens, rows) = (tokenizer.vocabulary().size(), config.vocabulary);
        if tokens > rows {
            let fault =
                format!("the tokenizer has {tokens} tokens, but the model only {rows}: they do not belong together");
            return Err(ModelError::Tokenizer { path: self.path(TOKENIZER), fault });
        }
        let mut config = config;
        let model = self.model_of(gguf.as_ref(), &fields, &mut config, device)?;
        let chat = self.chat_of(gguf.as_ref())?;
        let begin = begin.or(end.first().copied());
        Ok(LoadedModel { model, config, tokenizer: Arc::new(tokenizer), end, begin, chat })
    }

    /// The tokens that end a text, each once, and the one that begins it.
    fn ends(&self, fields: &Fields, config: &DecoderConfig) -> Result<(Vec<TokenId>, Option<TokenId>), ModelError> {
        let of = |name: &str| {
            let wrong = |fault: String| ModelError::Config { path: self.path(CONFIG), fault };
            ids(name, fields.get(name), config.vocabulary).map_err(wrong)
        };
        let (mut all, begin) = (of("eos_token_id")?, of("bos_token_id")?);
        all.extend(self.more_ends(config.vocabulary)?);
        let mut ends = Vec::new();
        all.into_iter().for_each(|id| {
            if !ends.contains(&id) {
                ends.push(id)
            }
        });
        Ok((ends, begin.first().copied()))
    }

    /// The model alone, for those who have the tokens.
    pub fn model(&self, device: &Device) -> Result<Arc<dyn LanguageModel>, ModelError> {
        let gguf = self.gguf()?;
        let fields = self.fields(gguf.as_ref())?;
        self.model_of(gguf.as_ref(), &fields, &mut self.config_of(&fields)?, device)
    }

    /// Writes the model as a GGUF file, whose matrices are stored in a format as far as their rows are whole blocks of it, in Q8_0
    /// or F16 where not; with 4 bits, the embedding and the output matrix have 6. `each` hears how many of how many weights are
    /// written. The file is there when it is whole and not before; one that is there already is an error, unless it may be replaced.
    pub fn convert(
        &self,
        to: &Path,
        format: Format,
        may_replace: bool,
        mut each: impl FnMut(u64, u64),
    ) -> Result<Converted, ModelError> {
        if self.gguf()?.is_some() {
            return Err(ModelError::Convert {
                fault: "it is a GGUF file already; convert the folder that it was made of".into(),
            });
        }
        let fields = self.fields(None)?;
        let config = self.config_of(&fields)?;
        let family = self.family(&fields)?;
        let parts = (family.parts)(&self.checkpoint()?, &config, &fields)?;
        let tokenizer = self.file(TOKENIZER)?;
        let chat_template = self.chat_of(None)?.map(|chat| chat.template);
        let (ends, begin) = self.ends(&fields, &config)?;
        let model = Model {
            config: &config,
            fields: &fields,
            parts: &parts,
            tokenizer: &tokenizer,
            ends: &ends,
            begin,
            chat_template,
        };
        convert(&model, to, format, may_replace, &mut each)
    }

    fn family(&self, fields: &Fields) -> Result<Family, ModelError> {
        let family = fields.model_type().and_then(family);
        family.map_err(|fault| ModelError::Config { path: self.path(CONFIG), fault })
    }

    fn model_of(
        &self,
        gguf: Option<&Gguf>,
        fields: &Fields,
        config: &mut DecoderConfig,
        device: &Device,
    ) -> Result<Arc<dyn LanguageModel>, ModelError> {
        let family = self.family(fields)?;
        let checkpoint = match gguf {
            Some(gguf) => gguf::model::checkpoint(gguf),
            None => self.checkpoint()?,
        };
        if gguf.is_some_and(gguf::model::has_factors)
            && let Positions::Rotary(all) = &mut config.positions
        {
            let pairs = all[0].elements.unwrap_or(config.head_dim) / 2;
            let factors = checkpoint.vector("rope_freqs", pairs)?.into_iter().map(f64::from).collect();
            all[0].scaling = Scaling::Each(factors);
        }
        let parts = (family.parts)(&checkpoint, config, fields)?;
        Ok(match device {
            Device::Cpu => Arc::new(CpuDecoder::new(config.clone(), parts, self.cached_as, self.layout)?),
            #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
            Device::Gpu(gpu) => {
                Arc::new(GpuDecoder::new(gpu.clone(), config.clone(), &parts, self.cached_as, self.layout)?)
            }
        })
    }

    /// The tokenizer alone, which is all that a detector needs. The path may also be the `tokenizer.json`.
    pub fn tokenizer(&self) -> Result<Tokenizer, ModelError> {
        self.tokenizer_of(self.gguf()?.as_ref())
    }

    fn tokenizer_of(&self, gguf: Option<&Gguf>) -> Result<Tokenizer, ModelError> {
        if let Some(gguf) = gguf {
            let wrong =
                |fault: String| ModelError::Tokenizer { path: self.path(""), fault: format!("its tokenizer: {fault}") };
            let json = gguf::tokenizer::json(gguf).map_err(wrong)?;
            return Tokenizer::from_json(&json).map_err(|error| wrong(error.to_string()));
        }
        let path = match &self.place {
            Place::Disk(path) if path.is_file() => path.clone(),
            _ => self.path(TOKENIZER),
        };
        let json = self.json(TOKENIZER, &path)?;
        Tokenizer::from_json(&json).map_err(|error| ModelError::Tokenizer { path, fault: error.to_string() })
    }

    /// The shape of the model.
    pub fn config(&self) -> Result<DecoderConfig, ModelError> {
        self.config_of(&self.fields(self.gguf()?.as_ref())?)
    }

    fn config_of(&self, fields: &Fields) -> Result<DecoderConfig, ModelError> {
        let described = || {
            let family = family(fields.model_type()?)?;
            if let Some(quantized) = fields.inner("quantization_config")? {
                let method = quantized.text("quant_method")?.unwrap_or("something").to_owned();
                return Err(format!(
                    "its weights are in fewer bits by {method} (quantization_config), which is not supported; take the model in 16 bits, or a GGUF file of it"
                ));
            }
            let config = (family.config)(fields)?;
            config.check()?;
            Ok(config)
        };
        described().map_err(|fault| ModelError::Config { path: self.path(CONFIG), fault })
    }

    /// The file of one with everything, mapped.
    pub(crate) fn gguf(&self) -> Result<Option<Gguf>, ModelError> {
        let damaged = |fault: String| ModelError::Damaged { path: self.path(""), fault };
        let path = match &self.place {
            Place::Gguf(path) => path,
            Place::Memory(bytes) => return Gguf::parse(&Bytes::new(bytes.clone())).map(Some).map_err(damaged),
            _ => return Ok(None),
        };
        let read = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::NotFound => self.not_a_model("there is nothing at that path".into()),
            _ => ModelError::Read { path: path.clone(), source },
        };
        let bytes = Bytes::new(Arc::new(files::map(path).map_err(read)?));
        Gguf::parse(&bytes).map(Some).map_err(damaged)
    }

    fn fields(&self, gguf: Option<&Gguf>) -> Result<Fields, ModelError> {
        let path = self.path(CONFIG);
        if let Some(gguf) = gguf {
            let fields = gguf.check_kinds().and_then(|()| gguf::model::fields(gguf));
            return fields.map_err(|fault| ModelError::Config { path, fault });
        }
        Fields::parse(&self.json(CONFIG, &path)?).map_err(|fault| ModelError::Config { path, fault })
    }

    /// A file of the folder as it is, such as `config.json`.
    pub fn file(&self, name: &str) -> Result<Cow<'static, [u8]>, ModelError> {
        self.json(name, &self.path(name))
    }

    /// The safetensors files: one, or the shards that an index lists; none where the model is a GGUF file. They are mapped, and
    /// read when they are used.
    ///
    /// # Errors
    /// Where one is missing or cannot be read, or the index is damaged.
    pub fn safetensors(&self) -> Result<Vec<(PathBuf, Bytes)>, ModelError> {
        match &self.place {
            Place::Embedded { weights, .. } => Ok(vec![(self.path(WEIGHTS), Bytes::new(Arc::new(*weights)))]),
            Place::Gguf(_) | Place::Memory(_) => Ok(Vec::new()),
            Place::Disk(_) => {
                let map = |path: PathBuf| match files::map(&path) {
                    Ok(mapped) => Ok((path, Bytes::new(Arc::new(mapped)))),
                    Err(source) => Err(self.unreadable(path, source)),
                };
                self.weight_files()?.into_iter().map(map).collect()
            }
        }
    }

    /// All weights as they are stored.
    fn checkpoint(&self) -> Result<Checkpoint, ModelError> {
        let mut checkpoint = Checkpoint::default();
        for (path, bytes) in self.safetensors()? {
            checkpoint.add_safetensors(&path, bytes)?;
        }
        Ok(checkpoint)
    }

    fn weight_files(&self) -> Result<Vec<PathBuf>, ModelError> {
        if self.has(INDEX) { self.shards() } else { Ok(vec![self.path(WEIGHTS)]) }
    }

    fn unreadable(&self, path: PathBuf, source: std::io::Error) -> ModelError {
        match source.kind() {
            std::io::ErrorKind::NotFound => self.not_a_model(format!("it has no {}", file_name(&path))),
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
        let index: Index =
            serde_json::from_slice(&self.json(INDEX, &path)?).map_err(|error| config(error.to_string()))?;
        let names: BTreeSet<String> = index.weight_map.into_values().collect();
        // A shard is a file of this folder and of no other.
        if let Some(name) = names.iter().find(|name| Path::new(name).file_name() != Some(name.as_ref())) {
            return Err(config(format!("the shard {name:?} is not a file name")));
        }
        Ok(names.into_iter().map(|name| self.path(&name)).collect())
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        match &self.place {
            Place::Disk(folder) => folder.join(file),
            Place::Gguf(path) => path.clone(),
            Place::Memory(_) => PathBuf::from("a GGUF file in memory"),
            Place::Embedded { name, .. } => Path::new(name).join(file),
        }
    }

    /// Whether there is a file of that name beside the others: in a folder on disk alone, for a GGUF file is one file.
    pub(crate) fn has(&self, file: &str) -> bool {
        matches!(&self.place, Place::Disk(folder) if folder.join(file).is_file())
    }

    fn not_a_model(&self, fault: String) -> ModelError {
        ModelError::NotAModel { path: self.path("").components().collect(), fault }
    }

    fn json(&self, file: &str, path: &Path) -> Result<Cow<'static, [u8]>, ModelError> {
        match &self.place {
            Place::Embedded { config, tokenizer, .. } => match file {
                CONFIG => Ok(Cow::Borrowed(config)),
                TOKENIZER => Ok(Cow::Borrowed(tokenizer)),
                _ => Err(self.not_a_model(format!("it has no {file}"))),
            },
            Place::Gguf(_) | Place::Memory(_) => Err(self.not_a_model(format!("it has no {file}"))),
            Place::Disk(folder) => {
                if !folder.exists() {
                    return Err(self.not_a_model("there is nothing at that path".into()));
                }
                if !folder.is_dir() && folder != path {
                    return Err(self.not_a_model("it is neither a folder nor a GGUF file".into()));
                }
                let read = files::read(path).map_err(|source| match source.kind() {
                    std::io::ErrorKind::NotFound => self.not_a_model(format!("it has no {file}")),
                    _ => ModelError::Read { path: path.into(), source },
                });
                Ok(Cow::Owned(read?))
            }
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
