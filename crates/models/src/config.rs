//! A decoder described as data.
//!
//! One decoder runs every architecture; what differs between families is listed here as choices. A family
//! that needs something new adds a variant, and the compiler shows each place that has to know it.

/// The shape and the choices of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderConfig {
    /// Rows of the embedding: one more than the highest token.
    pub vocabulary: usize,
    /// The width of the residual stream.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Elements of one head.
    pub head_dim: usize,
    /// The most tokens in one text.
    pub context: usize,
    /// How activations are normalised.
    pub norm: Norm,
    /// How a token knows its place.
    pub positions: Positions,
    /// What follows attention in each layer.
    pub feed_forward: FeedForward,
    /// Whether the attention projections have biases.
    pub attention_bias: bool,
    /// Whether the output matrix is the embedding.
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
}

/// How a token knows its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Positions {
    /// Rotary embeddings (Su et al. 2021) of the two halves of each head, as Llama pairs them.
    Rotary {
        /// The base of the wavelengths.
        theta: f64,
    },
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
}

/// A non-linearity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
}

/// No dimension of a model is larger than this; a larger number in a file is damage.
const MAX_DIMENSION: usize = 1 << 24;

impl DecoderConfig {
    /// Checks that the numbers describe a decoder. The error names the numbers.
    pub fn check(&self) -> Result<(), String> {
        let FeedForward::Gated { width: feed_forward, .. } = self.feed_forward;
        for (name, value) in [
            ("vocabulary size", self.vocabulary),
            ("hidden size", self.width),
            ("number of layers", self.layers),
            ("number of attention heads", self.heads),
            ("number of key-value heads", self.kv_heads),
            ("head dimension", self.head_dim),
            ("context length", self.context),
            ("intermediate size", feed_forward),
        ] {
            if !(1..=MAX_DIMENSION).contains(&value) {
                return Err(format!("the {name} is {value}, but must be 1 to {MAX_DIMENSION}"));
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(format!("{} attention heads cannot share {} key-value heads", self.heads, self.kv_heads));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(format!("rotary positions need an even head dimension, not {}", self.head_dim));
        }
        Ok(())
    }
}
