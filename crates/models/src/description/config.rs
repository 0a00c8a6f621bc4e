//! A decoder described as data.
//!
//! One decoder runs every architecture; the differences between families are listed here as choices. A family that
//! needs something new adds a variant, and the compiler shows all code that has to handle it.

pub use verdigris_kernels::{Activation, Pairs};

/// The shape and the choices of a decoder-only transformer. The default has no shape, and Llama's choices.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// The number of rows of the embedding: one more than the highest token.
    #[doc(alias = "vocab_size")]
    pub vocabulary: usize,
    /// The width of the residual stream.
    #[doc(alias = "hidden_size", alias = "n_embd", alias = "d_model")]
    pub width: usize,
    /// The number of layers.
    #[doc(alias = "num_hidden_layers", alias = "n_layer")]
    pub layers: usize,
    /// The number of query heads.
    #[doc(alias = "num_attention_heads", alias = "n_head")]
    pub heads: usize,
    /// The number of key and value heads; divides `heads`.
    #[doc(alias = "num_key_value_heads")]
    pub kv_heads: usize,
    /// The number of elements of one head.
    pub head_dim: usize,
    /// The most tokens in one text.
    #[doc(alias = "max_position_embeddings", alias = "n_positions")]
    pub context: usize,
    /// The normalisation of activations.
    #[doc(alias = "rms_norm_eps", alias = "layer_norm_eps")]
    pub norm: Norm,
    /// The position of norms in a layer.
    pub norm_placement: NormPlacement,
    /// The position encoding.
    pub positions: Positions,
    /// The particulars of each layer; layers that are not listed have the default.
    #[doc(alias = "layer_types")]
    pub kinds: Vec<LayerKind>,
    /// The feed-forward part, which follows attention in each layer.
    #[doc(alias = "mlp", alias = "intermediate_size")]
    pub feed_forward: FeedForward,
    /// Whether attention and the feed-forward part read the same residual stream, with one norm or two.
    #[doc(alias = "use_parallel_residual", alias = "parallel_attn")]
    pub parallel: Option<Parallel>,
    /// Whether the projections to queries, keys and values have biases.
    pub attention_bias: bool,
    /// Whether the projection back from attention has a bias.
    pub output_bias: bool,
    /// The normalisation of queries and keys before they are rotated.
    #[doc(alias = "qk_norm")]
    pub query_key_norm: Option<QueryKeyNorm>,
    /// The factor of attention scores, if it is not `1 / sqrt(head_dim)`.
    #[doc(alias = "query_pre_attn_scalar", alias = "softmax_scale")]
    pub attention_scale: Option<f64>,
    /// Scores `s` become `cap * tanh(s / cap)` (Gemma 2).
    #[doc(alias = "attn_logit_softcapping")]
    pub attention_cap: Option<f64>,
    /// The factor of embeddings (Gemma).
    pub embedding_scale: Option<f64>,
    /// Whether embeddings are normalised (BLOOM).
    pub embedding_norm: bool,
    /// Logits `z` become `cap * tanh(z / cap)` (Gemma 2).
    #[doc(alias = "final_logit_softcapping")]
    pub logit_cap: Option<f64>,
    /// Whether the output matrix is the embedding.
    #[doc(alias = "tie_word_embeddings")]
    pub tied: bool,
}

/// The normalisation of activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// Division by the root of the mean square (Zhang and Sennrich 2019).
    Rms {
        /// Added to the mean square.
        epsilon: f64,
    },
    /// Subtraction of the mean, and division by the root of the variance (Ba, Kiros and Hinton 2016).
    Layer {
        /// Added to the variance.
        epsilon: f64,
    },
}

/// The position of norms in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before attention and before the feed-forward part.
    Before,
    /// After each of them, before their output is added.
    After,
    /// Both.
    Around,
}

/// The position encoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Positions {
    /// Rotary embeddings (Su et al. 2021); each layer uses one of them.
    Rotary(Vec<Rotary>),
    /// A learned embedding of each position, added to that of the token.
    Learned {
        /// The row of the first position.
        offset: usize,
    },
    /// A penalty on scores that grows with the distance (ALiBi: Press, Smith and Lewis 2022).
    Alibi {
        /// The slopes are powers of `2^(-max_bias / heads)` if the number of heads is a power of two; otherwise those
        /// of the next lower power of two, and then every other one of the next higher power.
        #[doc(alias = "alibi_bias_max")]
        max_bias: f64,
        /// Whether the slopes are multiplied by the scale of attention scores (Falcon).
        by_scale: bool,
    },
}

/// A rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the wavelengths.
    #[doc(alias = "rope_theta")]
    pub theta: f64,
    /// The number of elements of a head that are rotated; all by default.
    #[doc(alias = "rotary_dim", alias = "partial_rotary_factor")]
    pub elements: Option<usize>,
    /// The elements that are rotated together.
    pub pairs: Pairs,
    /// The change of wavelengths for longer texts.
    #[doc(alias = "rope_scaling", alias = "rope_parameters")]
    pub scaling: Scaling,
}

impl Rotary {
    /// A rotary embedding of all elements, paired by halves.
    pub fn new(theta: f64) -> Self {
        Self { theta, elements: None, pairs: Pairs::Halves, scaling: Scaling::None }
    }
}

/// The change of the wavelengths of a rotary embedding for longer texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// No change.
    None,
    /// All wavelengths grow by a factor (Chen et al. 2023).
    Linear(f64),
    /// Long wavelengths grow by a factor, short ones do not change, and those in between are interpolated (Llama 3.1).
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above `context / low_freq_factor` are changed in full.
        low_freq_factor: f64,
        /// Wavelengths below `context / high_freq_factor` are not changed.
        high_freq_factor: f64,
        /// The context length of the original training.
        context: f64,
    },
    /// Each pair of elements has its own factor (Llama 3.1 in files of llama.cpp).
    Each(Vec<f64>),
    /// Pairs that rotate often within the original context do not change, the wavelengths of slow ones grow by a
    /// factor, and those in between are interpolated (YaRN: Peng et al. 2023, section 3).
    Yarn {
        /// The factor.
        factor: f64,
        /// Pairs with more rotations than this are not changed.
        beta_fast: f64,
        /// Pairs with fewer rotations than this are changed in full.
        beta_slow: f64,
        /// The context length of the original training.
        context: f64,
        /// The factor of cosines and sines.
        magnitude: f64,
        /// Whether the interpolation begins and ends at whole pairs.
        truncate: bool,
    },
    /// Each pair of elements has its own factor, and a different one in texts past the original context (LongRoPE: Ding
    /// et al. 2024).
    LongRope {
        /// The factors within that context.
        short: Vec<f64>,
        /// The factors past it.
        long: Vec<f64>,
        /// The context length of the original training.
        context: usize,
        /// The factor of cosines and sines.
        magnitude: f64,
    },
    /// The base grows with the length of the text past the original context ("dynamic NTK").
    Dynamic {
        /// The rate of growth.
        factor: f64,
        /// The context length of the original training.
        context: usize,
    },
}

/// The particulars of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// The sliding window: a token sees only tokens less than this far back.
    #[doc(alias = "sliding_window")]
    pub window: Option<usize>,
    /// The index of its rotary embedding, if it has one.
    pub rotary: Option<usize>,
}

impl Default for LayerKind {
    fn default() -> Self {
        Self { window: None, rotary: Some(0) }
    }
}

/// The feed-forward part of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForward {
    /// `down(activation(gate(x)) * up(x))` (Shazeer 2020).
    Gated {
        /// Rows of the gate and up matrices.
        width: usize,
        /// The activation of the gate.
        activation: Activation,
        /// Whether the three matrices have biases.
        bias: bool,
    },
    /// `down(activation(up(x)))`.
    Plain {
        /// Rows of the up matrix.
        width: usize,
        /// The activation between the two.
        activation: Activation,
        /// Whether the two matrices have biases.
        bias: bool,
    },
}

impl FeedForward {
    /// The number of elements between the matrices.
    pub fn width(self) -> usize {
        let (Self::Gated { width, .. } | Self::Plain { width, .. }) = self;
        width
    }
}

/// Attention and the feed-forward part in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// With one norm for both.
    OneNorm,
    /// With a norm for each.
    TwoNorms,
}

/// The normalisation of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyNorm {
    /// Each head separately.
    Heads,
    /// All heads of a token together.
    Tokens,
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self {
            vocabulary: 0,
            width: 0,
            layers: 0,
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            context: 0,
            norm: Norm::Rms { epsilon: 1e-5 },
            norm_placement: NormPlacement::Before,
            positions: Positions::Rotary(vec![Rotary::new(10_000.0)]),
            kinds: Vec::new(),
            feed_forward: FeedForward::Gated { width: 0, activation: Activation::Silu, bias: false },
            parallel: None,
            attention_bias: false,
            output_bias: false,
            query_key_norm: None,
            attention_scale: None,
            attention_cap: None,
            embedding_scale: None,
            embedding_norm: false,
            logit_cap: None,
            tied: false,
        }
    }
}

impl DecoderConfig {
    /// The particulars of a layer.
    pub fn kind(&self, layer: usize) -> LayerKind {
        self.kinds.get(layer).copied().unwrap_or_default()
    }

    /// Whether the computation of a text depends on how long it may become.
    pub(crate) fn depends_on_length(&self) -> bool {
        let Positions::Rotary(all) = &self.positions else { return false };
        all.iter().any(|rotary| matches!(rotary.scaling, Scaling::Dynamic { .. } | Scaling::LongRope { .. }))
    }

    /// The factor of attention scores.
    pub(crate) fn scale(&self) -> f32 {
        self.attention_scale.unwrap_or(1.0 / (self.head_dim as f64).sqrt()) as f32
    }
}
