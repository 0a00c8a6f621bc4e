//! A decoder described as data.
//!
//! One decoder runs every architecture; the differences between families are listed here as choices. A family that
//! needs something new adds a variant, and the compiler shows all code that has to handle it.

pub use verdigris_kernels::Pairs;

pub use super::blocks::{
    Activation, Alternating, Attention, Block, Both, Convolution, DeltaNet, Dense, FeedForward, Groups,
    LatentAttention, Mamba, Mixer, Mixture, PerLayer, QueryGrowth, QueryKeyNorm, RecurrentHeads, Router, Score, Shared,
    Sparse,
};

/// The shape and the choices of a decoder. The default has no layers, and Llama's choices.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// The number of rows of the embedding: one more than the highest token.
    #[doc(alias = "vocab_size")]
    pub vocabulary: usize,
    /// The width of the residual stream.
    #[doc(alias = "hidden_size", alias = "n_embd", alias = "d_model")]
    pub width: usize,
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
    /// The layers.
    #[doc(alias = "layer_types", alias = "num_hidden_layers", alias = "n_layer")]
    pub blocks: Vec<Block>,
    /// Whether attention and the feed-forward part read the same residual stream, with one norm or two.
    #[doc(alias = "use_parallel_residual", alias = "parallel_attn")]
    pub parallel: Option<Parallel>,
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
    /// The factor of the output of each part of a layer before it is added to the residual stream (Granite).
    #[doc(alias = "residual_multiplier")]
    pub residual_scale: Option<f64>,
    /// The factor of logits, before they are capped (Granite, Cohere).
    #[doc(alias = "logits_scaling")]
    pub logit_scale: Option<f64>,
    /// A second embedding, of which each layer reads a part.
    pub per_layer: Option<PerLayer>,
    /// Whether the residual stream is multiplied by a learned number after each layer (Gemma 4).
    #[doc(alias = "layer_scalar")]
    pub layer_scales: bool,
    /// Several residual streams (Gemma 3n).
    pub alternating: Option<Alternating>,
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
    /// Only the pairs of the shortest wavelengths rotate, which are those of a whole head (Gemma 4).
    Proportional {
        /// The number of pairs that rotate.
        pairs: usize,
        /// All wavelengths grow by a factor.
        factor: f64,
    },
}

/// Attention and the feed-forward part in parallel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// With one norm for both.
    OneNorm,
    /// With a norm for each.
    TwoNorms,
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self {
            vocabulary: 0,
            width: 0,
            context: 0,
            norm: Norm::Rms { epsilon: 1e-5 },
            norm_placement: NormPlacement::Before,
            positions: Positions::Rotary(vec![Rotary::new(10_000.0)]),
            blocks: Vec::new(),
            parallel: None,
            embedding_scale: None,
            embedding_norm: false,
            logit_cap: None,
            tied: false,
            residual_scale: None,
            logit_scale: None,
            per_layer: None,
            layer_scales: false,
            alternating: None,
        }
    }
}

impl DecoderConfig {
    /// The most layers of a decoder.
    pub const MAX_LAYERS: usize = 1 << 16;

    /// Equal layers.
    pub fn with_layers(self, layers: usize, attention: Attention, network: Dense) -> Self {
        let block = Block { mixer: Mixer::Attention(attention), feed_forward: FeedForward::Dense(network) };
        Self { blocks: vec![block; layers], ..self }
    }

    /// The attention of all layers and their feed-forward network, if they differ in windows and positions only. These
    /// two are those of the first layer.
    pub fn alike(&self) -> Option<(&Attention, &Dense)> {
        let of = |block: &Block| {
            let attention = block.mixer.attention()?;
            Some((Attention { window: None, rotary: None, ..attention.clone() }, *block.feed_forward.dense()?))
        };
        let first = of(self.blocks.first()?)?;
        let first = self.blocks.iter().all(|block| of(block).as_ref() == Some(&first)).then(|| &self.blocks[0])?;
        first.mixer.attention().zip(first.feed_forward.dense())
    }

    /// The attention of a layer, if it has one.
    pub fn attention(&self, layer: usize) -> Option<&Attention> {
        self.blocks.get(layer)?.mixer.attention()
    }

    /// The attention of each layer that has one.
    pub fn attentions(&self) -> impl Iterator<Item = &Attention> {
        self.blocks.iter().filter_map(|block| block.mixer.attention())
    }

    /// The first of the last layers that all read the keys and values of earlier ones, if there are any.
    pub(crate) fn first_reader(&self) -> Option<usize> {
        let reads = |block: &Block| block.mixer.attention().is_some_and(|attention| attention.reads.is_some());
        let first = self.blocks.iter().rposition(|block| !reads(block)).map_or(0, |last| last + 1);
        (first < self.blocks.len() && !self.is_recurrent()).then_some(first)
    }

    /// The number of elements of a head of the layers that use a rotary embedding.
    pub(crate) fn rotated_head(&self, which: usize) -> usize {
        let heads = |uses: &dyn Fn(&Mixer) -> bool| {
            self.blocks.iter().filter(|block| uses(&block.mixer)).find_map(|block| block.mixer.rotated_head())
        };
        heads(&|mixer| mixer.rotary() == Some(which)).or_else(|| heads(&|_| true)).unwrap_or(0)
    }

    /// Whether some layers have a state of fixed size.
    pub fn is_recurrent(&self) -> bool {
        self.blocks.iter().any(|block| block.mixer.is_recurrent())
    }

    /// Whether the computation of a text depends on how long it may become.
    pub(crate) fn depends_on_length(&self) -> bool {
        let Positions::Rotary(all) = &self.positions else { return false };
        all.iter().any(|rotary| matches!(rotary.scaling, Scaling::Dynamic { .. } | Scaling::LongRope { .. }))
    }
}
