//! Hugging Face model folders: `config.json`, `tokenizer.json`, `model.safetensors`.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::Device;
use serde::Deserialize;
use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;

use crate::config::{Activation, DecoderConfig, FeedForward, Norm, Positions};
use crate::decoder::Decoder;
use crate::error::ModelError;
use crate::weights::Weights;

const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// No `config.json`, `tokenizer.json` or index is longer than this.
const MAX_JSON: u64 = 256 << 20;

/// A model folder, on disk or inside a program.
#[derive(Clone, Debug)]
pub struct ModelFolder {
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Disk(PathBuf),
    Embedded { name: &'static str, config: &'static [u8], tokenizer: &'static [u8], weights: &'static [u8] },
}

/// A model with what belongs to it.
pub struct LoadedModel {
    /// The model.
    pub decoder: Arc<Decoder>,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// The tokens that end a text.
    pub end: Vec<TokenId>,
    /// The first of them, which also begins a text without a prompt.
    pub begin: Option<TokenId>,
}

impl ModelFolder {
    /// The folder at a path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { place: Place::Disk(path.into()) }
    }

    /// A folder whose files are part of the program.
    pub const fn embedded(
        name: &'static str,
        config: &'static [u8],
        tokenizer: &'static [u8],
        weights: &'static [u8],
    ) -> Self {
        Self { place: Place::Embedded { name, config, tokenizer, weights } }
    }

    /// Loads everything.
    pub fn load(&self, device: &Device) -> Result<LoadedModel, ModelError> {
        let hugging_face = self.hugging_face_config()?;
        let config = hugging_face.decoder().map_err(|fault| ModelError::Config { path: self.path(CONFIG), fault })?;
        let tokenizer = self.tokenizer()?;
        let (tokens, rows) = (tokenizer.vocabulary().size(), config.vocabulary);
        if tokens > rows {
            let fault =
                format!("the tokenizer has {tokens} tokens, but the model only {rows}: they do not belong together");
            return Err(ModelError::Tokenizer { path: self.path(TOKENIZER), fault });
        }
        let decoder = Arc::new(Decoder::new(config, &self.weights(device)?, device)?);
        let end = hugging_face.eos_token_id.map(Ids::all).unwrap_or_default();
        let begin = hugging_face.bos_token_id.or(end.first().copied());
        Ok(LoadedModel { decoder, tokenizer: Arc::new(tokenizer), end, begin })
    }

    /// The tokenizer alone, which is all that a detector needs. The path may also be the `tokenizer.json`.
    pub fn tokenizer(&self) -> Result<Tokenizer, ModelError> {
        let path = match &self.place {
            Place::Disk(path) if path.is_file() => path.clone(),
            _ => self.path(TOKENIZER),
        };
        let json = self.json(TOKENIZER, &path)?;
        Tokenizer::from_json(&json).map_err(|error| ModelError::Tokenizer { path, fault: error.to_string() })
    }

    /// The shape of the model.
    pub fn config(&self) -> Result<DecoderConfig, ModelError> {
        let path = self.path(CONFIG);
        self.hugging_face_config()?.decoder().map_err(|fault| ModelError::Config { path, fault })
    }

    /// A file of the folder as it is, such as `config.json`.
    pub fn file(&self, name: &str) -> Result<Cow<'static, [u8]>, ModelError> {
        self.json(name, &self.path(name))
    }

    /// All weights, from one file or from the shards that an index lists.
    pub fn weights(&self, device: &Device) -> Result<Weights, ModelError> {
        match &self.place {
            Place::Embedded { weights, .. } => {
                Weights::read([Ok((self.path(WEIGHTS), Cow::Borrowed(*weights)))], device)
            }
            Place::Disk(_) => {
                let files = if self.path(INDEX).is_file() { self.shards()? } else { vec![self.path(WEIGHTS)] };
                let read = |path: PathBuf| match std::fs::read(&path) {
                    Ok(bytes) => Ok((path, Cow::Owned(bytes))),
                    Err(source) if source.kind() == std::io::ErrorKind::NotFound => {
                        Err(self.not_a_model(format!("it has no {}", file_name(&path))))
                    }
                    Err(source) => Err(ModelError::Read { path, source }),
                };
                Weights::read(files.into_iter().map(read), device)
            }
        }
    }

    fn shards(&self) -> Result<Vec<PathBuf>, ModelError> {
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

    fn path(&self, file: &str) -> PathBuf {
        match &self.place {
            Place::Disk(folder) => folder.join(file),
            Place::Embedded { name, .. } => Path::new(name).join(file),
        }
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
            Place::Disk(folder) => {
                if !folder.exists() {
                    return Err(self.not_a_model("there is nothing at that path".into()));
                }
                let metadata = match path.metadata() {
                    Ok(metadata) => metadata,
                    Err(_) => return Err(self.not_a_model(format!("it has no {file}"))),
                };
                if metadata.len() > MAX_JSON {
                    let fault = format!("{} bytes are too many for a JSON file of a model", metadata.len());
                    return Err(ModelError::Config { path: path.into(), fault });
                }
                let read = std::fs::read(path).map_err(|source| ModelError::Read { path: path.into(), source })?;
                Ok(Cow::Owned(read))
            }
        }
    }

    fn hugging_face_config(&self) -> Result<HuggingFaceConfig, ModelError> {
        let path = self.path(CONFIG);
        serde_json::from_slice(&self.json(CONFIG, &path)?)
            .map_err(|error| ModelError::Config { path, fault: format!("not a model's configuration: {error}") })
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The keys of a `config.json` that matter, under their names there.
#[derive(Deserialize)]
struct HuggingFaceConfig {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    hidden_act: String,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    rope_scaling: Option<RopeParameters>,
    /// Where transformers 5 keeps both of the above.
    #[serde(default)]
    rope_parameters: Option<RopeParameters>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    tie_word_embeddings: bool,
    bos_token_id: Option<TokenId>,
    eos_token_id: Option<Ids>,
}

#[derive(Deserialize)]
struct RopeParameters {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    One(TokenId),
    Many(Vec<TokenId>),
}

impl Ids {
    fn all(self) -> Vec<TokenId> {
        match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        }
    }
}

impl HuggingFaceConfig {
    fn decoder(&self) -> Result<DecoderConfig, String> {
        if self.model_type != "llama" {
            return Err(format!("model_type {:?} is not supported yet; llama is", self.model_type));
        }
        if self.hidden_act != "silu" {
            return Err(format!("hidden_act {:?} is not supported yet; silu is", self.hidden_act));
        }
        for rope in [&self.rope_scaling, &self.rope_parameters].into_iter().flatten() {
            if let Some(kind) = rope.rope_type.as_deref().filter(|kind| *kind != "default") {
                return Err(format!("rotary positions of type {kind:?} are not supported yet; default is"));
            }
        }
        let theta = self.rope_parameters.as_ref().and_then(|rope| rope.rope_theta).or(self.rope_theta);
        let heads = self.num_attention_heads;
        let config = DecoderConfig {
            vocabulary: self.vocab_size,
            width: self.hidden_size,
            layers: self.num_hidden_layers,
            heads,
            kv_heads: self.num_key_value_heads.unwrap_or(heads),
            head_dim: self.head_dim.or(self.hidden_size.checked_div(heads)).unwrap_or(0),
            context: self.max_position_embeddings,
            norm: Norm::Rms { epsilon: self.rms_norm_eps },
            positions: Positions::Rotary { theta: theta.unwrap_or(10_000.0) },
            feed_forward: FeedForward::Gated {
                width: self.intermediate_size,
                activation: Activation::Silu,
                bias: self.mlp_bias,
            },
            attention_bias: self.attention_bias,
            tied: self.tie_word_embeddings,
        };
        config.check()?;
        Ok(config)
    }
}
