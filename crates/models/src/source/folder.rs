//! Models on disk: Hugging Face folders with `config.json`, `tokenizer.json` and `model.safetensors`, and GGUF files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use verdigris_kernels::{Bytes, Format};
use verdigris_logits::TokenId;
use verdigris_text::{Tokenizer, shown};

use super::chat::{ChatSource, ids};
use super::file_names::{ADAPTER, CONFIG, TOKENIZER};
use super::files::Files;
use crate::backend::ModelFiles;
use crate::cache::CacheLayout;
use crate::cpu::CpuDecoder;
use crate::description::adapter::{Adapter, AdapterConfig};
use crate::description::checkpoint::Checkpoint;
use crate::description::config::DecoderConfig;
use crate::description::families::{BadModelType, Family, Fields, family, model_types};
use crate::description::gguf::convert::{Converted, Model, convert, convert_again, neighbours};
use crate::description::gguf::{self, Gguf};
use crate::description::parts::Parts;
use crate::device::Device;
use crate::error::ModelError;
#[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
use crate::gpu::GpuDecoder;
use crate::language_model::LanguageModel;
use crate::parallel::SharedModel;
use crate::reward::RewardModel;

/// A model folder, on disk or embedded in a program.
#[derive(Clone, Debug)]
pub struct ModelFolder {
    files: Files,
    cached_as: Option<Format>,
    layout: CacheLayout,
    adapter: Option<Files>,
}

/// A model with its tokenizer and its chat template.
pub struct LoadedModel {
    /// The model.
    pub model: Arc<dyn LanguageModel>,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The tokens that end a text.
    pub end: Vec<TokenId>,
    /// The token that begins a text without a prompt.
    pub begin: Option<TokenId>,
    /// The chat template.
    pub chat: Option<ChatSource>,
}

/// A model's configuration and its weights by name.
pub(crate) struct Opened {
    pub(crate) config: DecoderConfig,
    pub(crate) fields: Fields,
    /// Reads the weights.
    pub(crate) family: Family,
    pub(crate) checkpoint: Checkpoint,
}

/// A draft head whose weights are not read yet.
pub(crate) struct OpenedHead<'a> {
    /// The fields of its `config.json`, or those that a GGUF file has instead.
    pub(crate) fields: Fields,
    files: &'a Files,
    gguf: Option<Gguf>,
}

impl ModelFolder {
    const fn new(files: Files) -> Self {
        Self { files, cached_as: None, layout: CacheLayout::DEFAULT, adapter: None }
    }

    /// The folder at a path, or the GGUF file, which is recognised by its first bytes or by its name.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self::new(Files::at(path.into()))
    }

    /// A GGUF file in memory.
    pub fn gguf_in_memory(bytes: Vec<u8>) -> Self {
        Self::new(Files::Memory(Arc::new(bytes)))
    }

    /// A folder whose files are embedded in the program.
    pub const fn embedded(
        name: &'static str,
        config: &'static [u8],
        tokenizer: &'static [u8],
        weights: &'static [u8],
    ) -> Self {
        Self::new(Files::Embedded { name, config, tokenizer, weights })
    }

    /// Sets the format of keys and values: F32, F16, Bf16, or Q8_0 if heads are whole blocks. The default is F32 for
    /// F32 weights, and F16 for all others.
    #[must_use]
    pub fn cached_as(mut self, format: Format) -> Self {
        self.cached_as = Some(format);
        self
    }

    /// Sets the memory layout of keys and values on a CPU; in pages by default.
    pub fn cache_layout(mut self, layout: CacheLayout) -> Self {
        self.layout = layout;
        self
    }

    /// The same model with an adapter, which replaces an earlier one: a folder with `adapter_config.json` and
    /// `adapter_model.safetensors`, as the library `peft` saves LoRA, rsLoRA and DoRA. It is kept separate from the
    /// weights, so several adapters share those of their base; on a GPU, and by [`ModelFolder::convert`], it is merged.
    /// A tokenizer and a chat template in its folder replace the model's.
    #[must_use]
    #[doc(alias = "lora")]
    #[doc(alias = "peft")]
    pub fn with_adapter(mut self, folder: impl Into<PathBuf>) -> Self {
        self.adapter = Some(Files::Disk(folder.into()));
        self
    }

    /// The path of one of its files, for messages.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.files.path(name)
    }

    /// Its path, if it is a folder on disk.
    pub(super) fn folder(&self) -> Option<&Path> {
        match &self.files {
            Files::Disk(folder) => Some(folder),
            _ => None,
        }
    }

    /// Whether the model has an adapter.
    pub fn has_adapter(&self) -> bool {
        self.adapter.is_some()
    }

    /// The configuration of an adapter, which names its base, if this is only an adapter's folder.
    pub(super) fn base_of_adapter(&self) -> Result<Option<AdapterConfig>, ModelError> {
        if self.files.has(CONFIG) || !self.files.has(ADAPTER) {
            return Ok(None);
        }
        adapter_config(&self.files).map(Some)
    }

    /// Loads the model, its tokenizer and its chat template.
    ///
    /// # Errors
    /// If a file is missing, cannot be read, is damaged, or does not fit the others; if there is not enough memory on
    /// the device; and [`ModelError::Config`] for something that is not supported, by its name.
    pub fn load(&self, device: &Device) -> Result<LoadedModel, ModelError> {
        let gguf = self.files.gguf()?;
        let fields = self.fields(gguf.as_ref())?;
        let tokenizer = self.tokenizer_of(gguf.as_ref())?;
        if !matches!(device, Device::Backend(_)) {
            // Weights of another model do not fit either, but that error explains less.
            self.fits(&tokenizer, self.config_of(&fields)?.vocabulary)?;
        }
        let model = self.model_of(gguf.as_ref(), &fields, device)?;
        self.fits(&tokenizer, model.vocabulary_size())?;
        let (end, begin) = self.ends(&fields, model.vocabulary_size())?;
        let chat = self.chat_of(gguf.as_ref())?;
        let begin = begin.or(end.first().copied());
        Ok(LoadedModel { model, tokenizer: Arc::new(tokenizer), end, begin, chat })
    }

    /// Checks that a tokenizer has no more tokens than the model has rows.
    fn fits(&self, tokenizer: &Tokenizer, rows: usize) -> Result<(), ModelError> {
        let tokens = tokenizer.vocabulary().size();
        if tokens <= rows {
            return Ok(());
        }
        let fault =
            format!("the tokenizer has {tokens} tokens, but the model only {rows}: they do not belong together");
        Err(ModelError::Tokenizer { path: self.files.path(TOKENIZER), fault })
    }

    /// The model's chat template, if it has one.
    ///
    /// # Errors
    /// If its file cannot be read, or is damaged.
    pub fn chat(&self) -> Result<Option<ChatSource>, ModelError> {
        self.chat_of(self.files.gguf()?.as_ref())
    }

    fn chat_of(&self, gguf: Option<&Gguf>) -> Result<Option<ChatSource>, ModelError> {
        let own = self.adapter.as_ref().map(|adapter| adapter.chat(None)).transpose()?.flatten();
        own.map_or_else(|| self.files.chat(gguf), |own| Ok(Some(own)))
    }

    /// The tokens that end a text, without duplicates, and the token that begins it, for a model with `rows` rows.
    fn ends(&self, fields: &Fields, rows: usize) -> Result<(Vec<TokenId>, Option<TokenId>), ModelError> {
        let of = |name: &str| {
            let wrong = |fault: String| ModelError::Config { path: self.files.path(CONFIG), fault };
            ids(name, fields.get(name), rows).map_err(wrong)
        };
        let (mut all, begin) = (of("eos_token_id")?, of("bos_token_id")?);
        all.extend(self.files.more_ends(rows)?);
        let mut ends = Vec::new();
        all.into_iter().for_each(|id| {
            if !ends.contains(&id) {
                ends.push(id)
            }
        });
        Ok((ends, begin.first().copied()))
    }

    /// Loads the model without its tokenizer.
    ///
    /// # Errors
    /// The same as [`ModelFolder::load`].
    pub fn model(&self, device: &Device) -> Result<Arc<dyn LanguageModel>, ModelError> {
        let gguf = self.files.gguf()?;
        let fields = self.fields(gguf.as_ref())?;
        self.model_of(gguf.as_ref(), &fields, device)
    }

    /// Loads a reward model: a folder of `transformers`' `*ForSequenceClassification` with one label, or an adapter
    /// that turns a model into one (`SEQ_CLS`). It computes on the CPU.
    ///
    /// # Errors
    /// [`ModelError::Reward`] for a model that does not return exactly one score, and those of [`ModelFolder::load`].
    pub fn reward(&self) -> Result<RewardModel, ModelError> {
        let fields = self.fields(None)?;
        let wrong = |fault: String| ModelError::Reward { path: self.files.path(""), fault };
        let mut config = self.config_of(&fields)?;
        let (checkpoint, scores) = self.checkpoint_of(None, &fields, &config)?.with_scores();
        match scores {
            Some(1) => {}
            None => return Err(wrong("it gives no score (score.weight): give a model that was trained to".into())),
            Some(count) => {
                return Err(wrong(format!("its head has {count} labels; a reward model has one, which is the score")));
            }
        }
        // The cap and the scale of logits do not apply to scores.
        (config.logit_cap, config.logit_scale) = (None, None);
        let parts = (self.family(&fields)?.parts)(&checkpoint, &config, &fields)?;
        let pad = ids("pad_token_id", fields.get("pad_token_id"), config.vocabulary)
            .map_err(|fault| ModelError::Config { path: self.files.path(CONFIG), fault })?;
        let decoder = CpuDecoder::new(config, parts, self.cached_as, self.layout)?;
        Ok(RewardModel::new(Arc::new(decoder), pad.first().copied()))
    }

    /// Writes the model as a GGUF file. Matrices are stored in `format` if their rows are whole blocks of it, otherwise
    /// in a format with smaller blocks or in F16; with 4 bits or fewer, the embedding and the output matrix have 6.
    /// `each` is called with the number of weights written and their total. The file appears only when it is complete;
    /// an existing file is an error unless `may_replace`. For a GGUF file only the format of its matrices changes.
    ///
    /// # Errors
    /// [`ModelError::Convert`] if a GGUF file cannot describe the model, [`ModelError::Write`] if the file cannot be
    /// written, and those of [`ModelFolder::load`].
    pub fn convert(
        &self,
        to: &Path,
        format: Format,
        may_replace: bool,
        mut each: impl FnMut(u64, u64),
    ) -> Result<Converted, ModelError> {
        if let Some(gguf) = self.files.gguf()? {
            if self.has_adapter() {
                let fault = "an adapter is merged with a model folder, not with a GGUF file".into();
                return Err(ModelError::Convert { fault });
            }
            // A file that cannot be read must not be written.
            self.described(Some(&gguf), &self.fields(Some(&gguf))?)?;
            return convert_again(&gguf, to, format, may_replace, &mut each);
        }
        let fields = self.fields(None)?;
        let (config, parts) = self.described(None, &fields)?;
        let (_, tokenizer) = self.tokenizer_files().tokenizer()?;
        let chat_template = self.chat_of(None)?.map(|chat| chat.template);
        let (ends, begin) = self.ends(&fields, config.vocabulary)?;
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
        let path = self.files.path(CONFIG);
        family(fields).map_err(|bad| match bad {
            BadModelType::Fault(fault) => ModelError::Config { path, fault },
            BadModelType::Unknown(model_type) => ModelError::Architecture { path, model_type, known: model_types() },
        })
    }

    fn model_of(
        &self,
        gguf: Option<&Gguf>,
        fields: &Fields,
        device: &Device,
    ) -> Result<Arc<dyn LanguageModel>, ModelError> {
        match device {
            Device::Cpu => Ok(Arc::new(self.on_cpu(gguf, fields)?)),
            Device::Ranks(ranks) => Ok(SharedModel::new(self.on_cpu(gguf, fields)?).connect(ranks)?),
            #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
            Device::Gpu(gpu) => {
                let (config, parts) = self.described(gguf, fields)?;
                Ok(Arc::new(GpuDecoder::new(gpu.clone(), config, &parts, self.cached_as, self.layout)?))
            }
            Device::Backend(backend) => {
                if gguf.is_some_and(|gguf| gguf.shard().is_ok_and(|shard| shard.is_some())) {
                    let fault = "its weights are in several GGUF files, which our own decoder reads alone".into();
                    return Err(ModelError::Config { path: self.files.path(CONFIG), fault });
                }
                if let Some(adapter) = &self.adapter {
                    return Err(ModelError::Adapter {
                        path: adapter.path(""),
                        fault: format!("{backend} computes no adapters; our own decoders do, on cpu and cuda"),
                    });
                }
                backend.model(ModelFiles(&self.files))
            }
        }
    }

    fn on_cpu(&self, gguf: Option<&Gguf>, fields: &Fields) -> Result<CpuDecoder, ModelError> {
        let (config, parts) = self.described(gguf, fields)?;
        CpuDecoder::new(config, parts, self.cached_as, self.layout)
    }

    /// The model, for ranks that compute it together on CPUs, each a part.
    ///
    /// # Errors
    /// The same as [`ModelFolder::load`].
    pub fn shared(&self) -> Result<SharedModel, ModelError> {
        let gguf = self.files.gguf()?;
        let fields = self.fields(gguf.as_ref())?;
        Ok(SharedModel::new(self.on_cpu(gguf.as_ref(), &fields)?))
    }

    /// A decoder as data: its shape, and its weights.
    fn described(&self, gguf: Option<&Gguf>, fields: &Fields) -> Result<(DecoderConfig, Parts), ModelError> {
        let (mut config, family, checkpoint) = self.opened_with(gguf, fields)?;
        let parts = (family.parts)(&checkpoint, &config, fields)?;
        // An adapter may have changed only one of the two.
        config.tied &= parts.output.is_same(&parts.embedding);
        Ok((config, parts))
    }

    /// The configuration and the named weights.
    pub(crate) fn opened(&self) -> Result<Opened, ModelError> {
        let gguf = self.files.gguf()?;
        let fields = self.fields(gguf.as_ref())?;
        let (config, family, checkpoint) = self.opened_with(gguf.as_ref(), &fields)?;
        Ok(Opened { config, fields, family, checkpoint })
    }

    fn opened_with(
        &self,
        gguf: Option<&Gguf>,
        fields: &Fields,
    ) -> Result<(DecoderConfig, Family, Checkpoint), ModelError> {
        let mut config = self.config_of(fields)?;
        let family = self.family(fields)?;
        if self.gives_scores(fields)? {
            let fault = "it is a reward model, which writes no text: give it as what judges texts (--reward, --guide)";
            return Err(ModelError::Reward { path: self.files.path(""), fault: fault.into() });
        }
        let checkpoint = self.checkpoint_of(gguf, fields, &config)?;
        if gguf.is_some() {
            gguf::model::add_factors(&mut config, &checkpoint)?;
        }
        Ok((config, family, checkpoint))
    }

    /// The decoder as data.
    pub(crate) fn describe(&self) -> Result<(DecoderConfig, Parts), ModelError> {
        let gguf = self.files.gguf()?;
        self.described(gguf.as_ref(), &self.fields(gguf.as_ref())?)
    }

    /// Whether the files are those of a reward model.
    fn gives_scores(&self, fields: &Fields) -> Result<bool, ModelError> {
        if let Some(adapter) = &self.adapter {
            return Ok(adapter_config(adapter)?.gives_scores());
        }
        let is_one = |name: &Value| name.as_str().is_some_and(|name| name.ends_with("ForSequenceClassification"));
        Ok(fields.list("architectures").ok().flatten().is_some_and(|names| names.iter().any(is_one)))
    }

    /// The weights, with an adapter's changes.
    fn checkpoint_of(
        &self,
        gguf: Option<&Gguf>,
        fields: &Fields,
        config: &DecoderConfig,
    ) -> Result<Checkpoint, ModelError> {
        let mut checkpoint = match gguf {
            Some(gguf) => gguf::model::checkpoint(gguf),
            None => self.weights()?,
        };
        if let Some(files) = &self.adapter {
            let config_of_adapter = adapter_config(files)?;
            let (path, bytes) = files.adapter_weights()?;
            let mut adapter = Adapter::new(config_of_adapter, path, &bytes)?;
            if gguf.is_some() {
                let is = |name: &str| fields.flag(name, false).unwrap_or_default();
                let attention = config.attentions().next().cloned().unwrap_or_default();
                let order = |heads: usize| neighbours(heads, attention.head_dim);
                let order = is("rope_neighbours").then_some(order);
                let is_strided = is("value_heads_are_strided");
                adapter.for_gguf([attention.heads, attention.kv_heads], order, is("norms_are_whole"), is_strided)?;
            }
            checkpoint = checkpoint.adapted(adapter)?;
        }
        Ok(checkpoint)
    }

    /// Loads only the tokenizer, which is all that a detector needs. The path may also be that of `tokenizer.json`.
    ///
    /// # Errors
    /// If its file is missing, cannot be read, or is damaged.
    pub fn tokenizer(&self) -> Result<Tokenizer, ModelError> {
        self.tokenizer_of(self.files.gguf()?.as_ref())
    }

    /// The files with the tokenizer: an adapter may have its own.
    fn tokenizer_files(&self) -> &Files {
        self.adapter.as_ref().filter(|adapter| adapter.has(TOKENIZER)).unwrap_or(&self.files)
    }

    fn tokenizer_of(&self, gguf: Option<&Gguf>) -> Result<Tokenizer, ModelError> {
        let own = self.adapter.as_ref().filter(|adapter| adapter.has(TOKENIZER));
        if let (Some(gguf), None) = (gguf, own) {
            let wrong = |fault: String| ModelError::Tokenizer {
                path: self.files.path(""),
                fault: format!("its tokenizer: {fault}"),
            };
            return gguf::tokenizer::read(gguf).map_err(wrong);
        }
        let (path, json) = self.tokenizer_files().tokenizer()?;
        Tokenizer::from_json(&json).map_err(|error| ModelError::Tokenizer { path, fault: error.to_string() })
    }

    /// The model's configuration.
    ///
    /// # Errors
    /// If the file is missing or cannot be read, and [`ModelError::Config`] for something that is not supported, by its
    /// name.
    pub fn config(&self) -> Result<DecoderConfig, ModelError> {
        self.config_of(&self.fields(self.files.gguf()?.as_ref())?)
    }

    fn config_of(&self, fields: &Fields) -> Result<DecoderConfig, ModelError> {
        let family = self.family(fields)?;
        let described = || {
            let quantized = fields.inner("quantization_config")?;
            let is_read = |quantized: &Fields| {
                Ok::<_, String>(quantized.text("quant_method")? == Some("mxfp4") && fields.model_type()? == "gpt_oss")
            };
            if let Some(quantized) = quantized
                && !is_read(&quantized)?
            {
                let method = quantized.text("quant_method")?.unwrap_or("something");
                return Err(format!(
                    "its weights are in fewer bits by {} (quantization_config), which is not supported; take the model \
                     in 16 bits, or a GGUF file of it",
                    shown(method)
                ));
            }
            let config = (family.config)(fields)?;
            config.check().map_err(|fault| fault.to_string())?;
            Ok(config)
        };
        described().map_err(|fault| ModelError::Config { path: self.files.path(CONFIG), fault })
    }

    fn fields(&self, gguf: Option<&Gguf>) -> Result<Fields, ModelError> {
        let path = self.files.path(CONFIG);
        if let Some(gguf) = gguf {
            let fields = gguf.check_kinds().and_then(|()| gguf::model::fields(gguf));
            return fields.map_err(|fault| ModelError::Config { path, fault });
        }
        Fields::parse(&self.files.read(CONFIG)?).map_err(|fault| ModelError::Config { path, fault })
    }

    /// The number of bytes of its weights as they are stored, about the memory that a loaded model takes. They are not
    /// read.
    ///
    /// # Errors
    /// If a file is missing or cannot be read.
    pub fn weight_bytes(&self) -> Result<u64, ModelError> {
        let of = |files: &Files| files.weight_bytes();
        Ok(of(&self.files)? + self.adapter.as_ref().map_or(0, |adapter| of(adapter).unwrap_or(0)))
    }

    /// A file of the folder, unchanged, such as `config.json`.
    ///
    /// # Errors
    /// If it is missing or cannot be read.
    pub fn file(&self, name: &str) -> Result<Cow<'static, [u8]>, ModelError> {
        self.files.read(name)
    }

    /// The safetensors files: one, or the shards that an index lists; empty for a GGUF file. They are memory-mapped,
    /// and read on use.
    ///
    /// # Errors
    /// If a file is missing or cannot be read, or the index is damaged; [`ModelError::Adapter`] for a model with an
    /// adapter, because no file has its weights.
    pub fn safetensors(&self) -> Result<Vec<(PathBuf, Bytes)>, ModelError> {
        if let Some(adapter) = &self.adapter {
            let fault = "a model with an adapter cannot be trained or read as files; merge the two first".into();
            return Err(ModelError::Adapter { path: adapter.path(""), fault });
        }
        self.files.safetensors()
    }

    /// All weights as they are stored.
    pub(crate) fn weights(&self) -> Result<Checkpoint, ModelError> {
        checkpoint(self.files.safetensors()?)
    }

    /// Opens a draft head, or a model that is taken for one.
    pub(crate) fn opened_head(&self) -> Result<OpenedHead<'_>, ModelError> {
        let gguf = self.files.gguf()?;
        let fields = match &gguf {
            None => self.fields(None)?,
            Some(gguf) => {
                let fields = gguf.check_kinds().and_then(|()| gguf::model::fields_of_head(gguf));
                let wrong = |fault: String| ModelError::DraftHead { path: self.files.path(CONFIG), fault };
                fields.map_err(wrong)?.map_or_else(|| self.fields(Some(gguf)), Ok)?
            }
        };
        Ok(OpenedHead { fields, files: &self.files, gguf })
    }
}

impl OpenedHead<'_> {
    /// All weights as they are stored.
    pub(crate) fn weights(&self) -> Result<Checkpoint, ModelError> {
        match &self.gguf {
            Some(gguf) => Ok(gguf::model::checkpoint(gguf)),
            None => checkpoint(self.files.safetensors_of_head()?),
        }
    }
}

fn checkpoint(files: Vec<(PathBuf, Bytes)>) -> Result<Checkpoint, ModelError> {
    let mut checkpoint = Checkpoint::default();
    for (path, bytes) in files {
        checkpoint.add_safetensors(&path, &bytes)?;
    }
    Ok(checkpoint)
}

fn adapter_config(files: &Files) -> Result<AdapterConfig, ModelError> {
    let json = files.adapter_config()?;
    AdapterConfig::parse(&json).map_err(|fault| ModelError::Adapter { path: files.path(ADAPTER), fault })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::parts::Layer;
    use crate::description::weight::Weight;

    #[test]
    #[cfg(unix)]
    fn adapters_of_a_base_share_its_weights() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden");
        let parts = |folder: ModelFolder| folder.described(None, &folder.fields(None).unwrap()).unwrap().1;
        let base = parts(ModelFolder::at(golden.join("architectures/qwen2")));
        let adapted = |name: &str| parts(ModelFolder::find(golden.join("adapters").join(name), |_| ()).unwrap());
        let (first, second) = (adapted("patterns"), adapted("tied"));
        let all = |parts: &Parts| -> Vec<Weight> {
            parts.layers.iter().flat_map(Layer::matrices).chain([&parts.output]).cloned().collect()
        };
        let (base, first, second) = (all(&base), all(&first), all(&second));
        let bytes = |weight: &Weight| weight.matrix().bytes().as_ptr_range();
        let shared = |other: &[Weight]| base.iter().zip(other).filter(|(a, b)| bytes(a) == bytes(b)).count();
        let changed = |all: &[Weight]| all.iter().filter(|weight| weight.update().is_some()).count();
        assert_eq!((base.len(), shared(&first), changed(&first)), (15, 15, 14));
        // The embedding, and so the tied output matrix, came with the adapter.
        assert_eq!((shared(&second), changed(&second)), (14, 2));
    }
}
