//! A decoder described as data.
//!
//! One decoder runs every architecture; what differs between families is listed here as choices. A family
//! that needs something new adds a variant, and the compiler shows each place that has to know it.

pub use verdigris_kernels::{Activation, Pairs};

/// The shape and the choices of a decoder-only transformer. The default has no shape, and the choices of Llama.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Rows of the embedding: one more than the highest token.
    #[doc(alias = "vocab_size")]
    pub vocabulary: usize,
    /// The width of the residual stream.
    #[doc(alias = "hidden_size", alias = "n_embd", alias = "d_model")]
    pub width: usize,
    /// Layers.
    #[doc(alias = "num_hidden_layers", alias = "n_layer")]
    pub layers: usize,
    /// Query heads.
    #[doc(alias = "num_attention_heads", alias = "n_head")]
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    #[doc(alias = "num_key_value_heads")]
    pub kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
    /// The most tokens in one text.
    #[doc(alias = "max_position_embeddings", alias = "n_positions")]
    pub context: usize,
    /// How activations are normalised.
    #[doc(alias = "rms_norm_eps", alias = "layer_norm_eps")]
    pub norm: Norm,
    /// Where in a layer that is done.
    pub norm_placement: NormPlacement,
    /// How a token knows its position.
    pub positions: Positions,
    /// What is particular to each layer; the default for those that are not listed.
    #[doc(alias = "layer_types")]
    pub kinds: Vec<LayerKind>,
    /// What follows attention in each layer.
    #[doc(alias = "mlp", alias = "intermediate_size")]
    pub feed_forward: FeedForward,
    /// Whether attention and what follows it read the same activations, each with a norm of its own or both with one.
    #[doc(alias = "use_parallel_residual", alias = "parallel_attn")]
    pub parallel: Option<Parallel>,
    /// Whether the projections to queries, keys and values have biases.
    pub attention_bias: bool,
    /// Whether the projection back from attention has one.
    pub output_bias: bool,
    /// How queries and keys are normalised before they are rotated.
    #[doc(alias = "qk_norm")]
    pub query_key_norm: Option<QueryKeyNorm>,
    /// What scores are multiplied by, if not by `1 / sqrt(head_dim)`.
    #[doc(alias = "query_pre_attn_scalar", alias = "softmax_scale")]
    pub attention_scale: Option<f64>,
    /// Scores `s` become `cap * tanh(s / cap)` (Gemma 2).
    #[doc(alias = "attn_logit_softcapping")]
    pub attention_cap: Option<f64>,
    /// What embeddings are multiplied by (Gemma).
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

/// How activations are normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Norm {
    /// Division by the root of the mean square (Zhang and Sennrich 2019).
    Rms {
        /// Added to the mean square.
        epsilon: f64,
    },
    /// Less the mean, divided by the root of the variance (Ba, Kiros and Hinton 2016).
    Layer {
        /// Added to the variance.
        epsilon: f64,
    },
}

/// Where in a layer activations are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormPlacement {
    /// Before attention and before the feed-forward part.
    Before,
    /// After each of them, before what they give is added.
    After,
    /// Both.
    Around,
}

/// How a token knows its position.
#[derive(Clone, Debug, PartialEq)]
pub enum Positions {
    /// Rotary embeddings (Su et al. 2021), of which layers choose one each.
    Rotary(Vec<Rotary>),
    /// An embedding for each position, added to that of the token.
    Learned {
        /// The row of the first position.
        offset: usize,
    },
    /// Scores fall with the distance (ALiBi: Press, Smith and Lewis 2022).
    Alibi {
        /// The slopes are powers of `2^(-max_bias / heads)` where the number of heads is a power of two; where it is
        /// not, those of the power below, and then every other one of the power above.
        #[doc(alias = "alibi_bias_max")]
        max_bias: f64,
        /// Whether they are multiplied by the scale of scores (Falcon).
        by_scale: bool,
    },
}

/// Rotary embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// The base of the wavelengths.
    #[doc(alias = "rope_theta")]
    pub theta: f64,
    /// How many elements of a head are rotated; all, if that is not said.
    #[doc(alias = "rotary_dim", alias = "partial_rotary_factor")]
    pub elements: Option<usize>,
    /// Which elements are rotated together.
    pub pairs: Pairs,
    /// How wavelengths are changed for longer texts.
    #[doc(alias = "rope_scaling", alias = "rope_parameters")]
    pub scaling: Scaling,
}

impl Rotary {
    /// That of all elements, by halves.
    pub fn new(theta: f64) -> Self {
        Self { theta, elements: None, pairs: Pairs::Halves, scaling: Scaling::None }
    }
}

/// How the wavelengths of rotary embeddings are changed for longer texts.
#[derive(Clone, Debug, PartialEq)]
pub enum Scaling {
    /// They are not.
    None,
    /// All are longer by a factor (Chen et al. 2023).
    Linear(f64),
    /// Those longer than the first texts are longer by a factor, short ones are not, and there is a slope in between
    /// (Llama 3.1).
    Llama3 {
        /// How much longer.
        factor: f64,
        /// The context divided by this is the shortest wavelength that is changed in full.
        low_freq_factor: f64,
        /// The context divided by this is the longest that is not changed.
        high_freq_factor: f64,
        /// The context of the first training.
        context: f64,
    },
    /// Each wavelength is longer by a factor of its own, by the number of the pair (Llama 3.1's in files of llama.cpp).
    Each(Vec<f64>),
    /// Wavelengths that come around often in the first texts stay, long ones are longer by a factor, and there is a
    /// slope in between (YaRN: Peng et al. 2023, section 3).
    Yarn {
        /// How much longer.
        factor: f64,
        /// What comes around more often than so is not changed.
        beta_fast: f64,
        /// What comes around less often than so is changed in full.
        beta_slow: f64,
        /// The context of the first training.
        context: f64,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
        /// Whether the slope begins and ends at whole pairs.
        truncate: bool,
    },
    /// Each wavelength has a factor of its own, other ones in texts past the context of the first training (LongRoPE:
    /// Ding et al. 2024).
    LongRope {
        /// The factors within that context.
        short: Vec<f64>,
        /// And past it.
        long: Vec<f64>,
        /// The context of the first training.
        context: usize,
        /// What cosines and sines are multiplied by.
        magnitude: f64,
    },
    /// The base grows with the length of the text past the context of the first training ("dynamic NTK").
    Dynamic {
        /// How fast.
        factor: f64,
        /// The context of the first training.
        context: usize,
    },
}

/// What is particular to a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerKind {
    /// Only tokens less than so far back are seen.
    #[doc(alias = "sliding_window")]
    pub window: Option<usize>,
    /// Which rotary embedding it has, by number.
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
        /// What the gate goes through.
        activation: Activation,
        /// Whether the three matrices have biases.
        bias: bool,
    },
    /// `down(activation(up(x)))`.
    Plain {
        /// Rows of the up matrix.
        width: usize,
        /// What lies between the two.
        activation: Activation,
        /// Whether the two matrices have biases.
        bias: bool,
    },
}

impl FeedForward {
    /// Elements between the matrices.
    pub fn width(self) -> usize {
        let (Self::Gated { width, .. } | Self::Plain { width, .. }) = self;
        width
    }
}

/// Attention and the feed-forward part beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// With one norm for both.
    OneNorm,
    /// With a norm for each.
    TwoNorms,
}

/// How queries and keys are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyNorm {
    /// Each head by itself.
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
    /// What is particular to a layer.
    pub fn kind(&self, layer: usize) -> LayerKind {
        self.kinds.get(layer).copied().unwrap_or_default()
    }

    /// Whether what is computed of a text depends on how long it may become.
    pub(crate) fn depends_on_length(&self) -> bool {
        let Positions::Rotary(all) = &self.positions else { return false };
        all.iter().any(|rotary| matches!(rotary.scaling, Scaling::Dynamic { .. } | Scaling::LongRope { .. }))
    }

    /// What scores are multiplied by.
    pub(crate) fn scale(&self) -> f32 {
        self.attention_scale.unwrap_or(1.0 / (self.head_dim as f64).sqrt()) as f32
    }
}
