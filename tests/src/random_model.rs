//! Models with random weights: in the shapes of real ones, for speed, and of a few tokens, for distributions that can
//! be enumerated.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use tempfile::TempDir;
use verdigris::ModelFolder;
use verdigris::logits::{Purpose, Random};
use verdigris::models::{DraftTarget, Format, ModelError};

/// The shape of a Llama.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of tokens.
    pub vocabulary: usize,
    /// The width of the residual stream.
    pub width: usize,
    /// The number of layers.
    pub layers: usize,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key and value heads.
    pub kv_heads: usize,
    /// The number of elements of a head.
    pub head_dim: usize,
    /// The inner width of the feed-forward part.
    pub inner: usize,
    /// Whether the output matrix is the embedding.
    pub tied: bool,
}

impl Shape {
    /// The shape of Llama 3.2 1B.
    pub const LLAMA_1B: Self = Self {
        vocabulary: 128_256,
        width: 2048,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        inner: 8192,
        tied: true,
    };

    /// The shape of a model with four tokens.
    pub const TINY: Self =
        Self { vocabulary: 4, width: 8, layers: 1, heads: 2, kv_heads: 1, head_dim: 4, inner: 8, tied: false };

    /// The shape of Llama 3.1 8B.
    pub const LLAMA_8B: Self =
        Self { width: 4096, layers: 32, head_dim: 128, inner: 14_336, tied: false, ..Self::LLAMA_1B };

    /// Its weights by name, with their shapes.
    pub(crate) fn weights(&self) -> Vec<(String, Vec<usize>)> {
        let Self { vocabulary, width, layers, heads, kv_heads, head_dim, inner, tied } = *self;
        let mut all = vec![("model.embed_tokens.weight".to_owned(), vec![vocabulary, width])];
        for layer in 0..layers {
            let parts = [
                ("input_layernorm", vec![width]),
                ("post_attention_layernorm", vec![width]),
                ("self_attn.q_proj", vec![heads * head_dim, width]),
                ("self_attn.k_proj", vec![kv_heads * head_dim, width]),
                ("self_attn.v_proj", vec![kv_heads * head_dim, width]),
                ("self_attn.o_proj", vec![width, heads * head_dim]),
                ("mlp.gate_proj", vec![inner, width]),
                ("mlp.up_proj", vec![inner, width]),
                ("mlp.down_proj", vec![width, inner]),
            ];
            all.extend(parts.map(|(name, shape)| (format!("model.layers.{layer}.{name}.weight"), shape)));
        }
        all.push(("model.norm.weight".to_owned(), vec![width]));
        if !tied {
            all.push(("lm_head.weight".to_owned(), vec![vocabulary, width]));
        }
        all
    }

    /// The contents of `config.json`.
    pub(crate) fn config(&self) -> serde_json::Value {
        serde_json::json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
            "vocab_size": self.vocabulary, "hidden_size": self.width, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "intermediate_size": self.inner, "max_position_embeddings": 8192, "rope_theta": 500_000.0,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": self.tied, "torch_dtype": "bfloat16",
        })
    }
}

/// A temporary folder with such a model, removed on drop.
pub struct RandomModel {
    folder: TempDir,
    shape: Shape,
    bytes: u64,
}

/// Writes random weights in bf16 with the given names and shapes, uniform between `-spread / 2` and `spread / 2`.
/// Returns their size in bytes.
fn write_weights(path: &Path, weights: Vec<(String, Vec<usize>)>, spread: f32, seed: u64) -> io::Result<u64> {
    let (mut header, mut bytes) = (serde_json::Map::new(), 0u64);
    for (name, shape) in weights {
        let end = bytes + 2 * shape.iter().product::<usize>() as u64;
        header.insert(name, serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [bytes, end]}));
        bytes = end;
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    // The same million numbers are repeated, since their values do not matter for speed.
    let random = Random::new(seed);
    let number = |i| (random.uniform(i, Purpose::Weight) as f32 - 0.5) * spread;
    let numbers = (bytes / 2).min(1 << 20);
    let noise: Vec<u8> = (0..numbers).flat_map(|i| (number(i).to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect();
    let mut left = bytes as usize;
    while left > 0 {
        let count = left.min(noise.len());
        file.write_all(&noise[..count])?;
        left -= count;
    }
    file.flush()?;
    Ok(bytes)
}

/// A value of a GGUF file's metadata.
enum Value<'a> {
    Count(usize),
    Number(f32),
    Text(&'a str),
}

/// Writes random weights in a block format as a GGUF file: matrices in the format, vectors in f32. Returns their size
/// in bytes.
fn write_gguf(path: &Path, shape: Shape, format: Format, number: u32) -> io::Result<u64> {
    let Shape { vocabulary, width, layers, heads, kv_heads, head_dim, inner, .. } = shape;
    let metadata = [
        ("general.architecture", Value::Text("llama")),
        ("llama.context_length", Value::Count(8192)),
        ("llama.embedding_length", Value::Count(width)),
        ("llama.block_count", Value::Count(layers)),
        ("llama.feed_forward_length", Value::Count(inner)),
        ("llama.attention.head_count", Value::Count(heads)),
        ("llama.attention.head_count_kv", Value::Count(kv_heads)),
        ("llama.attention.key_length", Value::Count(head_dim)),
        ("llama.attention.value_length", Value::Count(head_dim)),
        ("llama.rope.dimension_count", Value::Count(head_dim)),
        ("llama.rope.freq_base", Value::Number(500_000.0)),
        ("llama.attention.layer_norm_rms_epsilon", Value::Number(1e-5)),
        ("llama.vocab_size", Value::Count(vocabulary)),
    ];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.bytes());
    };
    let weights = shape.weights();
    let mut header = b"GGUF\x03\0\0\0".to_vec();
    header.extend((weights.len() as u64).to_le_bytes());
    header.extend((metadata.len() as u64).to_le_bytes());
    for (name, value) in metadata {
        text(&mut header, name);
        match value {
            Value::Count(count) => header.extend([4, count as u32].into_iter().flat_map(u32::to_le_bytes)),
            Value::Number(number) => header.extend([6, number.to_bits()].into_iter().flat_map(u32::to_le_bytes)),
            Value::Text(value) => {
                header.extend(8u32.to_le_bytes());
                text(&mut header, value);
            }
        }
    }
    let (mut bytes, mut tensors) = (0u64, Vec::new());
    for (name, shape) in weights {
        let names = [
            ("model.layers.", "blk."),
            ("input_layernorm", "attn_norm"),
            ("post_attention_layernorm", "ffn_norm"),
            ("self_attn.q_proj", "attn_q"),
            ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"),
            ("self_attn.o_proj", "attn_output"),
            ("mlp.gate_proj", "ffn_gate"),
            ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"),
            ("model.embed_tokens", "token_embd"),
            ("model.norm", "output_norm"),
            ("lm_head", "output"),
        ];
        let name = names.iter().fold(name, |name, (from, to)| name.replace(from, to));
        let (format, number) = if shape.len() == 1 { (Format::F32, 0) } else { (format, number) };
        text(&mut header, &name);
        header.extend((shape.len() as u32).to_le_bytes());
        shape.iter().rev().for_each(|&length| header.extend((length as u64).to_le_bytes()));
        header.extend(number.to_le_bytes());
        header.extend(bytes.to_le_bytes());
        let length = format.bytes(shape.iter().product());
        tensors.push((format, length));
        bytes += length.next_multiple_of(32) as u64;
    }
    header.resize(header.len().next_multiple_of(32), 0);
    let random = Random::new(1);
    let numbers: Vec<f32> = (0..1 << 20).map(|i| (random.uniform(i, Purpose::Weight) as f32 - 0.5) * 0.07).collect();
    let encoded = [Format::F32, format].map(|format| {
        let mut bytes = vec![0; format.bytes(numbers.len())];
        format.encode(&numbers, &mut bytes);
        (format, bytes)
    });
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&header)?;
    for (format, length) in tensors {
        let of_format = &encoded.iter().find(|(of, _)| *of == format).expect("both are encoded").1;
        for from in (0..length).step_by(of_format.len()) {
            file.write_all(&of_format[..of_format.len().min(length - from)])?;
        }
        file.write_all(&[0; 32][..length.next_multiple_of(32) - length])?;
    }
    file.flush()?;
    Ok(bytes)
}

impl RandomModel {
    /// Writes a model as a GGUF file, whose matrices are in a block format with this number in such files.
    pub fn write_in_blocks(shape: Shape, format: Format, number: u32) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let bytes = write_gguf(&folder.path().join("model.gguf"), shape, format, number)?;
        Ok(Self { folder, shape, bytes })
    }

    /// Writes a model in bf16, with weights as small as those of real models.
    pub fn write(shape: Shape) -> io::Result<Self> {
        Self::write_with(shape, 0.07, 1)
    }

    /// Writes a model with weights from `-spread / 2` to `spread / 2` made from a seed.
    pub fn write_with(shape: Shape, spread: f32, seed: u64) -> io::Result<Self> {
        Self::write_described(shape, &shape.config(), shape.weights(), spread, seed)
    }

    /// The same for a model with another configuration and other weights, of the same width and vocabulary.
    pub(crate) fn write_described(
        shape: Shape,
        config: &serde_json::Value,
        weights: Vec<(String, Vec<usize>)>,
        spread: f32,
        seed: u64,
    ) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("config.json"), config.to_string())?;
        let bytes = write_weights(&folder.path().join("model.safetensors"), weights, spread, seed)?;
        Ok(Self { folder, shape, bytes })
    }

    /// Writes `heads` Medusa heads for it, with weights of the same kind, and returns their folder, which is removed
    /// with the model.
    ///
    /// # Errors
    /// If the model cannot be read.
    pub fn write_medusa(&self, heads: usize, spread: f32, seed: u64) -> Result<ModelFolder, ModelError> {
        let Shape { vocabulary, width, .. } = self.shape;
        let fingerprint = DraftTarget::of(&self.folder())?.fingerprint();
        let weights = (0..heads).flat_map(|i| {
            let parts = [
                ("0.linear.weight", vec![width, width]),
                ("0.linear.bias", vec![width]),
                ("1.weight", vec![vocabulary, width]),
            ];
            parts.map(|(name, shape)| (format!("medusa_head.{i}.{name}"), shape))
        });
        let config = serde_json::json!({
            "model_type": "verdigris_medusa", "medusa_num_heads": heads, "medusa_num_layers": 1,
            "draft_vocab_size": vocabulary, "hidden_size": width, "vocab_size": vocabulary, "target": "random",
            "target_fingerprint": fingerprint,
        });
        Ok(self.write_head("medusa", &config, weights.collect(), spread, seed))
    }

    /// Writes a draft head for it into a folder that is removed with the model.
    pub(crate) fn write_head(
        &self,
        name: &str,
        config: &serde_json::Value,
        weights: Vec<(String, Vec<usize>)>,
        spread: f32,
        seed: u64,
    ) -> ModelFolder {
        let path = self.folder.path().join(name);
        let written = std::fs::create_dir(&path)
            .and_then(|()| std::fs::write(path.join("config.json"), config.to_string()))
            .and_then(|()| write_weights(&path.join("model.safetensors"), weights, spread, seed));
        written.expect("a folder of temporary files");
        ModelFolder::at(path)
    }

    /// Writes a head of DSpark for it, which reads its embeddings and guesses two tokens at once, with weights of the
    /// same kind. Returns its folder, which is removed with the model.
    pub fn write_dspark(&self, spread: f32, seed: u64) -> ModelFolder {
        let Shape { vocabulary, width, .. } = self.shape;
        let shape = Shape { layers: 1, heads: 2, kv_heads: 1, head_dim: 4, inner: 8, tied: true, ..self.shape };
        let of_layers = shape.weights().into_iter().filter(|(name, _)| !name.contains("embed_tokens"));
        let of_layers = of_layers.map(|(name, shape)| (name.trim_start_matches("model.").to_owned(), shape));
        let more = [
            ("layers.0.self_attn.q_norm", vec![4]),
            ("layers.0.self_attn.k_norm", vec![4]),
            ("fc", vec![width, width]),
            ("hidden_norm", vec![width]),
            ("markov_head.markov_w1", vec![vocabulary, 2]),
            ("markov_head.markov_w2", vec![vocabulary, 2]),
        ];
        let weights = of_layers.chain(more.map(|(name, shape)| (format!("{name}.weight"), shape))).collect();
        let mut config = shape.config();
        let of_head = serde_json::json!({
            "model_type": "qwen3", "architectures": ["Qwen3DSparkModel"], "block_size": 2, "mask_token_id": 0,
            "target_layer_ids": [-1], "markov_rank": 2, "markov_head_type": "vanilla",
        });
        let fields = config.as_object_mut().expect("an object");
        fields.extend(of_head.as_object().expect("an object").clone());
        self.write_head("dspark", &config, weights, spread, seed)
    }

    /// Its folder.
    pub fn folder(&self) -> ModelFolder {
        let file = self.folder.path().join("model.gguf");
        if file.exists() { ModelFolder::at(file) } else { ModelFolder::at(self.folder.path()) }
    }

    /// The size of its weights in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
