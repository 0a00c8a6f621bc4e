//! The blocks of a decoder as data: how a layer mixes tokens, and its feed-forward part.

pub use verdigris_kernels::{Activation, RecurrentHeads};

/// A layer: a part that mixes tokens, then a feed-forward part.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The part in which a token takes from those before it.
    pub mixer: Mixer,
    /// The feed-forward part, which computes each token alone.
    #[doc(alias = "mlp")]
    pub feed_forward: FeedForward,
}

/// The part of a layer in which a token takes from those before it.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Softmax attention over keys and values (Vaswani et al. 2017).
    Attention(Attention),
    /// A gated convolution over a few tokens (LFM2).
    Convolution(Convolution),
    /// A gated delta net (Yang, Kautz and Hatamizadeh 2024).
    DeltaNet(DeltaNet),
    /// A state-space model (Mamba-2: Dao and Gu 2024).
    Mamba(Mamba),
    /// Softmax attention over latent vectors.
    Latent(LatentAttention),
}

impl Mixer {
    /// The attention, if it is one.
    pub fn attention(&self) -> Option<&Attention> {
        if let Self::Attention(attention) = self { Some(attention) } else { None }
    }

    /// The attention to latent vectors, if it is one.
    pub fn latent(&self) -> Option<&LatentAttention> {
        if let Self::Latent(latent) = self { Some(latent) } else { None }
    }

    /// The index of its rotary embedding, if it has one.
    pub(crate) fn rotary(&self) -> Option<usize> {
        match self {
            Self::Attention(attention) => attention.rotary,
            Self::Latent(latent) => latent.rotary,
            Self::Convolution(_) | Self::DeltaNet(_) | Self::Mamba(_) => None,
        }
    }

    /// The number of elements of a head that may be rotated, if it has positions.
    pub(crate) fn rotated_head(&self) -> Option<usize> {
        match self {
            Self::Attention(attention) => Some(attention.head_dim),
            Self::Latent(latent) => Some(latent.rotated),
            Self::Convolution(_) | Self::DeltaNet(_) | Self::Mamba(_) => None,
        }
    }

    /// Whether it has a state of fixed size instead of keys and values.
    pub fn is_recurrent(&self) -> bool {
        !matches!(self, Self::Attention(_) | Self::Latent(_))
    }
}

/// A gated convolution: `out(c * conv(b * u))` with `b`, `c` and `u` projected from the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convolution {
    /// The number of tokens that it mixes.
    #[doc(alias = "conv_L_cache")]
    pub taps: usize,
    /// Whether the convolution and both projections have biases.
    pub bias: bool,
}

/// A gated delta net: a convolution over queries, keys and values, and a state that learns values by their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaNet {
    /// The heads of queries, keys, values and states.
    pub heads: RecurrentHeads,
    /// The number of tokens that the convolution mixes.
    #[doc(alias = "linear_conv_kernel_dim")]
    pub taps: usize,
}

impl DeltaNet {
    /// The elements of a token's queries, keys and values.
    pub(crate) fn columns(&self) -> usize {
        let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = self.heads;
        2 * key_heads * key_dim + heads * value_dim
    }
}

/// A state-space model of the second kind: a convolution over inputs and the matrices B and C, and a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mamba {
    /// The heads of states: inputs are values, B and C are keys and queries, shared by groups of heads.
    pub heads: RecurrentHeads,
    /// The number of tokens that the convolution mixes.
    #[doc(alias = "mamba_d_conv", alias = "conv_kernel")]
    pub taps: usize,
    /// Whether the convolution has a bias.
    pub taps_bias: bool,
    /// Whether the projections have biases.
    pub bias: bool,
}

impl Mamba {
    /// The elements of a token's inputs, B and C.
    pub(crate) fn columns(&self) -> usize {
        let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = self.heads;
        heads * value_dim + 2 * key_heads * key_dim
    }
}

/// Attention over keys and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// The number of query heads.
    #[doc(alias = "num_attention_heads", alias = "n_head")]
    pub heads: usize,
    /// The number of key and value heads; divides `heads`.
    #[doc(alias = "num_key_value_heads")]
    pub kv_heads: usize,
    /// The number of elements of one head.
    pub head_dim: usize,
    /// The sliding window: a token sees only tokens less than this far back.
    #[doc(alias = "sliding_window")]
    pub window: Option<usize>,
    /// The index of its rotary embedding, if it has one.
    pub rotary: Option<usize>,
    /// Whether the projections to queries, keys and values have biases.
    #[doc(alias = "attention_bias")]
    pub bias: bool,
    /// Whether the projection back from attention has a bias.
    pub output_bias: bool,
    /// The normalisation of queries and keys, which is before they are rotated unless its kind says otherwise.
    #[doc(alias = "qk_norm")]
    pub query_key_norm: Option<QueryKeyNorm>,
    /// The factor of scores, if it is not `1 / sqrt(head_dim)`.
    #[doc(alias = "query_pre_attn_scalar", alias = "softmax_scale")]
    pub scale: Option<f64>,
    /// Scores `s` become `cap * tanh(s / cap)` (Gemma 2).
    #[doc(alias = "attn_logit_softcapping")]
    pub cap: Option<f64>,
    /// Whether each head has a learned score that takes part in the softmax and has no value (gpt-oss).
    pub sinks: bool,
    /// Whether the result is multiplied by the logistic function of a second half of each query head (Qwen3-Next).
    #[doc(alias = "attn_output_gate")]
    pub gated: bool,
    /// The growth of queries with their position (Ministral 3).
    #[doc(alias = "llama_4_scaling_beta")]
    pub query_growth: Option<QueryGrowth>,
    /// The earlier layer whose keys and values it reads, if it has none of its own (Gemma 3n).
    #[doc(alias = "num_kv_shared_layers")]
    pub reads: Option<usize>,
    /// Whether values are the products for keys, before these are normalised and rotated (Gemma 4).
    #[doc(alias = "attention_k_eq_v")]
    pub values_of_keys: bool,
    /// Whether each head of the values is normalised (Gemma 3n).
    pub value_norm: bool,
}

impl Default for Attention {
    fn default() -> Self {
        Self {
            heads: 0,
            kv_heads: 0,
            head_dim: 0,
            window: None,
            rotary: Some(0),
            bias: false,
            output_bias: false,
            query_key_norm: None,
            scale: None,
            cap: None,
            sinks: false,
            gated: false,
            query_growth: None,
            reads: None,
            values_of_keys: false,
            value_norm: false,
        }
    }
}

impl Attention {
    /// The elements of a token's keys that it stores.
    pub(crate) fn stored(&self) -> usize {
        if self.reads.is_some() { 0 } else { self.kv_heads * self.head_dim }
    }

    /// The factor of scores.
    pub(crate) fn factor(&self) -> f32 {
        self.scale.unwrap_or(1.0 / (self.head_dim as f64).sqrt()) as f32
    }
}

/// Queries at position `p` are multiplied by `1 + rate * ln(1 + floor(p / context))` after they are rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueryGrowth {
    /// The rate of growth.
    pub rate: f64,
    /// The context length of the original training.
    pub context: usize,
}

/// The normalisation of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryKeyNorm {
    /// Each head separately.
    Heads,
    /// All heads of a token together.
    Tokens,
    /// Each head separately, after it is rotated (Hunyuan).
    RotatedHeads,
}

/// The feed-forward part of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeedForward {
    /// The same matrices for every token.
    Dense(Dense),
    /// Matrices that are chosen for each token.
    Mixture(Mixture),
    /// Nothing: a layer only mixes tokens.
    None,
    /// The sum of both.
    Both(Both),
    /// The same matrices for every token, with a sparse gate.
    Sparse(Sparse),
}

impl FeedForward {
    /// The network, if every token uses the same.
    pub fn dense(&self) -> Option<&Dense> {
        if let Self::Dense(dense) = self { Some(dense) } else { None }
    }
}

/// A feed-forward network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dense {
    /// Rows of the up matrix: the number of elements between the matrices.
    #[doc(alias = "intermediate_size")]
    pub width: usize,
    /// The activation.
    pub activation: Activation,
    /// `down(activation(gate(x)) * up(x))` (Shazeer 2020) with a gate, and `down(activation(up(x)))` without.
    pub gated: bool,
    /// Whether the matrices have biases.
    pub bias: bool,
}

/// A network and a mixture of experts that both read the residual stream, each with a norm before it and one after it;
/// their results are added. The router has a norm of its own (Gemma 4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Both {
    /// The network of every token.
    pub dense: Dense,
    /// The experts.
    #[doc(alias = "enable_moe_block")]
    pub mixture: Mixture,
}

/// A network with a gate of which only the highest numbers count (Gemma 3n).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sparse {
    /// The network.
    pub network: Dense,
    /// Subtracted from the products for the gate is their mean plus this number of their standard deviations, and
    /// negative differences become 0.
    #[doc(alias = "activation_sparsity_pattern")]
    pub deviations: f64,
}

/// A mixture of experts: feed-forward networks of which a router chooses some for each token, and weighs their results
/// (Shazeer et al. 2017; Fedus, Zoph and Shazeer 2021).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixture {
    /// The number of experts.
    #[doc(alias = "num_experts", alias = "n_routed_experts")]
    pub experts: usize,
    /// The number of experts that a token uses.
    #[doc(alias = "num_experts_per_tok")]
    pub chosen: usize,
    /// Each expert.
    pub expert: Dense,
    /// The choice of experts and their weights.
    pub router: Router,
    /// A network that every token uses next to its experts.
    #[doc(alias = "n_shared_experts")]
    pub shared: Option<Shared>,
    /// The width of the rows that experts read and write, if it is not that of the residual stream: rows are projected
    /// to it before the experts, and back after their results are added (Nemotron 3).
    #[doc(alias = "moe_latent_size")]
    pub latent: Option<usize>,
}

/// The choice of experts from a token's scores, which are a product with the router's matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Router {
    /// The weights of experts before some are chosen.
    pub score: Score,
    /// Whether the scores have a bias.
    pub bias: bool,
    /// Whether a learned number is added to each expert's weight for the choice, but not for the result (DeepSeek-V3).
    #[doc(alias = "e_score_correction_bias")]
    pub choice_bias: bool,
    /// Experts are chosen from some groups only.
    pub groups: Option<Groups>,
    /// The weights of the chosen experts are divided by their sum plus this number.
    #[doc(alias = "norm_topk_prob")]
    pub normalized: Option<f64>,
    /// The factor of weights.
    #[doc(alias = "routed_scaling_factor")]
    pub scale: f64,
    /// Whether each expert has a learned factor of its weight (Gemma 4).
    #[doc(alias = "per_expert_scale")]
    pub expert_scales: bool,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            score: Score::Softmax,
            bias: false,
            choice_bias: false,
            groups: None,
            normalized: None,
            scale: 1.0,
            expert_scales: false,
        }
    }
}

/// The weights of experts from their scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Softmax over all experts.
    Softmax,
    /// Softmax over the chosen experts; the choice is by the scores themselves.
    SoftmaxOfChosen,
    /// The logistic function of each score.
    Sigmoid,
}

/// Groups of experts, each scored by the sum of its two highest weights (DeepSeek-V3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// The number of groups, all of the same size.
    #[doc(alias = "n_group")]
    pub count: usize,
    /// The number of groups from which experts are chosen.
    #[doc(alias = "topk_group")]
    pub kept: usize,
}

/// Several residual streams, of which each layer computes one and corrects the others by its result (alternating
/// updates: Baykal et al. 2023), and a projection of low rank past attention (learned augmented residual layers:
/// Menghani et al. 2024).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternating {
    /// The number of streams.
    #[doc(alias = "altup_num_inputs")]
    pub streams: usize,
    /// The stream that is computed.
    #[doc(alias = "altup_active_idx")]
    pub active: usize,
    /// Whether a layer's part of the second embedding reads that stream multiplied by learned numbers.
    #[doc(alias = "altup_correct_scale")]
    pub is_scaled: bool,
    /// The rank of the projection.
    #[doc(alias = "laurel_rank")]
    pub rank: usize,
}

/// A second embedding of each token, of which every layer reads a part (Gemma 3n and 4).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerLayer {
    /// The number of rows of the embedding. Later tokens have the first row.
    #[doc(alias = "vocab_size_per_layer_input")]
    pub vocabulary: usize,
    /// The number of elements that a layer reads.
    #[doc(alias = "hidden_size_per_layer_input")]
    pub width: usize,
    /// The activation of the product with which a layer multiplies them.
    pub activation: Activation,
}

/// A network that every token uses next to its experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shared {
    /// The network.
    pub network: Dense,
    /// Whether its result is multiplied by the logistic function of a product with the token (Qwen2).
    #[doc(alias = "shared_expert_gate")]
    pub gated: bool,
}

/// Attention to latent vectors (DeepSeek-AI, *DeepSeek-V2*, 2024, section 2.1): the keys and values of all heads are
/// products with one short vector for each token, which is stored in their stead. All heads share some more elements of
/// their keys, which are rotated.
#[doc(alias = "MLA")]
#[derive(Clone, Debug, PartialEq)]
pub struct LatentAttention {
    /// The number of heads.
    #[doc(alias = "num_attention_heads")]
    pub heads: usize,
    /// The number of elements between the two matrices of queries, if there are two.
    #[doc(alias = "q_lora_rank")]
    pub query_rank: Option<usize>,
    /// The number of elements of a latent vector.
    #[doc(alias = "kv_lora_rank")]
    pub rank: usize,
    /// The number of elements of a head's queries and keys that are not rotated.
    #[doc(alias = "qk_nope_head_dim")]
    pub unrotated: usize,
    /// The number of those that are, which follow.
    #[doc(alias = "qk_rope_head_dim")]
    pub rotated: usize,
    /// The number of elements of a head's values.
    #[doc(alias = "v_head_dim")]
    pub value_dim: usize,
    /// The index of its rotary embedding, if it has one.
    pub rotary: Option<usize>,
    /// The factor of scores.
    #[doc(alias = "mscale_all_dim")]
    pub scale: f64,
    /// Whether the first projections and the last have biases.
    #[doc(alias = "attention_bias")]
    pub bias: bool,
    /// The epsilon of the norms of latent vectors and of the elements between the matrices of queries.
    pub epsilon: f64,
}

impl LatentAttention {
    /// The number of elements that are stored for a token: its latent vector, and the rotated elements of its key.
    pub(crate) fn stored(&self) -> usize {
        self.rank + self.rotated
    }
}
