//! Models of random weights in the shapes of real ones: what they write means nothing, their speed does.

use std::io::{self, BufWriter, Write};

use tempfile::TempDir;
use verdigris::ModelFolder;
use verdigris::logits::{Purpose, Random};

/// The shape of a Llama.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Tokens.
    pub vocabulary: usize,
    /// Of the residual stream.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Heads of keys and values.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Between the matrices of the feed-forward part.
    pub inner: usize,
    /// Whether the output matrix is the embedding.
    pub tied: bool,
}

impl Shape {
    /// That of Llama 3.2 1B.
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

    /// That of Llama 3.1 8B.
    pub const LLAMA_8B: Self = Self {
        vocabulary: 128_256,
        width: 4096,
        layers: 32,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        inner: 14_336,
        tied: false,
    };

    /// Its weights by name, with their shapes.
    fn weights(&self) -> Vec<(String, Vec<usize>)> {
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

    fn config(&self) -> serde_json::Value {
        serde_json::json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
            "vocab_size": self.vocabulary, "hidden_size": self.width, "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
            "intermediate_size": self.inner, "max_position_embeddings": 8192, "rope_theta": 500_000.0,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": self.tied, "torch_dtype": "bfloat16",
        })
    }
}

/// A folder with such a model, which goes with it.
pub struct RandomModel {
    folder: TempDir,
    bytes: u64,
}

impl RandomModel {
    /// Writes one, in bf16.
    pub fn write(shape: Shape) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("config.json"), shape.config().to_string())?;
        let (mut header, mut bytes) = (serde_json::Map::new(), 0u64);
        for (name, shape) in shape.weights() {
            let end = bytes + 2 * shape.iter().product::<usize>() as u64;
            header.insert(name, serde_json::json!({"dtype": "BF16", "shape": shape, "data_offsets": [bytes, end]}));
            bytes = end;
        }
        let header = serde_json::Value::Object(header).to_string();
        let mut file = BufWriter::new(std::fs::File::create(folder.path().join("model.safetensors"))?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        // The same million of numbers again and again: their values do not matter to speed.
        let random = Random::new(1);
        let number = |i| (random.uniform(i, Purpose::Weight) as f32 - 0.5) * 0.07;
        let noise: Vec<u8> =
            (0..1 << 20).flat_map(|i| (number(i).to_bits() >> 16).to_le_bytes()[..2].to_vec()).collect();
        let mut left = bytes as usize;
        while left > 0 {
            let count = left.min(noise.len());
            file.write_all(&noise[..count])?;
            left -= count;
        }
        file.flush()?;
        Ok(Self { folder, bytes })
    }

    /// Where it lies.
    pub fn folder(&self) -> ModelFolder {
        ModelFolder::at(self.folder.path())
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
