//! The heads of a layer.

/// The heads of an attention layer. `heads / kv_heads` query heads share one head of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The number of query heads.
    pub heads: usize,
    /// The number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// The number of elements of a head.
    pub head_dim: usize,
}
