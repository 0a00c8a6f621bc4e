//! A feature drafter with gradients: [`verdigris_models::draft_head::feature`].
//!
//! It is trained for what it will meet at each position of a text: the target's own state and, as the second to the
//! fourth token of a draft, its own states (Li et al., *EAGLE-3: Scaling up Inference Acceleration of Large Language
//! Models via Training-Time Test*, arXiv:2503.01840, section 3). In step `s` all positions of all texts are read at
//! once: position `i` as token `s` of a draft that begins at `i - s`. It sees the text before that draft as the first
//! step has read it, and the tokens of the draft as later steps have.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops::{rms_norm_slow, silu, softmax};
use candle_nn::rotary_emb::rope_slow;
use serde_json::{Map, Value, json};
use verdigris_logits::{Random, TokenId};
use verdigris_models::config::{Attention, DecoderConfig, Mixer, Norm, Positions, Rotary};
use verdigris_models::{DraftTarget, rotary::Angles};

use super::examples::Batch;
use super::head::{Guess, Guesses, Head};
use crate::error::TrainError;
use crate::model::{DEVIATION, normal};

/// The number of draft tokens in training.
const STEPS: usize = 4;

/// Embeddings of tokens: `tokens x width`.
pub(super) type Embed = Arc<dyn Fn(&[TokenId]) -> Result<Tensor>>;

/// One decoder layer.
pub(super) struct Feature {
    shape: Shape,
    embed: Embed,
    variables: BTreeMap<String, Var>,
}

/// Its size. The number and the size of heads are the target's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) inner: usize,
    pub(super) epsilon: f64,
    pub(super) theta: f64,
}

impl Shape {
    pub(super) fn of(target: &DecoderConfig, inner: Option<usize>) -> Self {
        let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = target.norm;
        let theta = match &target.positions {
            Positions::Rotary(rotary) => rotary.first().map_or(10_000.0, |rotary| rotary.theta),
            Positions::Learned { .. } | Positions::Alibi { .. } => 10_000.0,
        };
        let width = target.width;
        let (heads, kv_heads, head_dim) = match target.blocks.first().map(|block| &block.mixer) {
            // The layer itself has keys and values, of the size of the target's queries.
            Some(Mixer::Latent(latent)) => (latent.heads, latent.heads, latent.unrotated + latent.rotated),
            _ => match target.attentions().next() {
                Some(&Attention { heads, kv_heads, head_dim, .. }) => (heads, kv_heads, head_dim),
                // A target without attention says nothing about heads.
                None => {
                    let head_dim = (1..=128usize)
                        .rev()
                        .find(|size| size.is_multiple_of(2) && width.is_multiple_of(*size))
                        .unwrap_or(2);
                    ((width / head_dim).max(1), (width / head_dim).max(1), head_dim)
                }
            },
        };
        let network = target.blocks.iter().find_map(|block| block.feed_forward.dense());
        let inner = inner.unwrap_or_else(|| network.map_or(4 * width, |network| network.width));
        Self { width, heads, kv_heads, head_dim, inner, epsilon, theta }
    }

    /// All matrices, `out x in`.
    pub(super) fn matrices(&self) -> [(&'static str, [usize; 2]); 8] {
        let &Self { width, inner, .. } = self;
        let (of_query, of_key) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        [
            (FUSION, [width, 2 * width]),
            (QUERY, [of_query, width]),
            (KEY, [of_key, width]),
            (VALUE, [of_key, width]),
            (OUTPUT, [width, of_query]),
            (GATE, [inner, width]),
            (UP, [inner, width]),
            (DOWN, [width, inner]),
        ]
    }
}

const FUSION: &str = "fusion.weight";
const QUERY: &str = "model.layers.0.self_attn.q_proj.weight";
const KEY: &str = "model.layers.0.self_attn.k_proj.weight";
const VALUE: &str = "model.layers.0.self_attn.v_proj.weight";
const OUTPUT: &str = "model.layers.0.self_attn.o_proj.weight";
const GATE: &str = "model.layers.0.mlp.gate_proj.weight";
const UP: &str = "model.layers.0.mlp.up_proj.weight";
const DOWN: &str = "model.layers.0.mlp.down_proj.weight";

const EMBEDDING_NORM: &str = "fusion.embedding_norm.weight";
const HIDDEN_NORM: &str = "fusion.hidden_norm.weight";
const ATTENTION_NORM: &str = "model.layers.0.input_layernorm.weight";
const FEED_FORWARD_NORM: &str = "model.layers.0.post_attention_layernorm.weight";
const NORM: &str = "model.norm.weight";

/// All norms, of the model's width.
pub(super) const NORMS: [&str; 5] = [EMBEDDING_NORM, HIDDEN_NORM, ATTENTION_NORM, FEED_FORWARD_NORM, NORM];

/// The keys and values of all positions as a step has read them: `texts x heads x positions x head_dim`.
type Cached = (Tensor, Tensor);

impl Feature {
    /// A layer that begins near the target's last state: fresh weights plus an identity, and the target's last norm.
    pub(super) fn fresh(target: &Arc<DraftTarget>, inner: Option<usize>, seed: u64) -> Result<Self> {
        let shape = Shape::of(target.config(), inner);
        let width = shape.width;
        let (random, mut draw) = (Random::new(seed), 0);
        let mut weights = BTreeMap::new();
        for (name, [out, into]) in shape.matrices() {
            // Additions to the residual stream are smaller, as in a decoder of one layer: see `TrainedModel::fresh`.
            let deviation = if matches!(name, OUTPUT | DOWN) { DEVIATION / 2f64.sqrt() } else { DEVIATION };
            let mut values: Vec<f32> = (0..out * into)
                .map(|_| {
                    draw += 2;
                    (deviation * normal(&random, draw)) as f32
                })
                .collect();
            if name == FUSION {
                (0..width).for_each(|i| values[i * into + width + i] += 1.0);
            }
            weights.insert(name.to_owned(), Tensor::from_vec(values, (out, into), &Device::Cpu)?);
        }
        for name in NORMS {
            let values = if name == NORM { target.norm().to_vec() } else { vec![1.0; width] };
            weights.insert(name.to_owned(), Tensor::from_vec(values, width, &Device::Cpu)?);
        }
        let target = target.clone();
        let embed =
            move |tokens: &[TokenId]| Tensor::from_vec(target.embeddings(tokens), (tokens.len(), width), &Device::Cpu);
        Self::new(shape, Arc::new(embed), weights)
    }

    pub(super) fn new(shape: Shape, embed: Embed, weights: BTreeMap<String, Tensor>) -> Result<Self> {
        let variables = weights.iter().map(|(name, weight)| Ok((name.clone(), Var::from_tensor(weight)?)));
        Ok(Self { shape, embed, variables: variables.collect::<Result<_>>()? })
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        rms_norm_slow(x, &self.variables[name], self.shape.epsilon as f32)
    }

    fn project(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        x.matmul(&self.variables[name].t()?)
    }

    /// Reads all positions of all texts, `texts x positions x width`, as tokens of drafts whose earlier tokens were
    /// read by the steps in `before`. Returns their states.
    fn step(&self, embedded: &Tensor, features: &Tensor, before: &mut Vec<Cached>, angles: &Cached) -> Result<Tensor> {
        let &Shape { width, heads, kv_heads, head_dim, .. } = &self.shape;
        let (b, t, _) = features.dims3()?;
        let (group, shift) = (heads / kv_heads, before.len());
        let x = Tensor::cat(&[embedded, &self.norm(features, HIDDEN_NORM)?], 2)?.reshape((b * t, 2 * width))?;
        let x = self.project(&x, FUSION)?;
        let y = self.norm(&x, ATTENTION_NORM)?;
        let split = |z: Tensor, heads: usize| z.reshape((b, t, heads, head_dim))?.transpose(1, 2)?.contiguous();
        let rotated = |z: Tensor| rope_slow(&z, &angles.0, &angles.1);
        let query = rotated(split(self.project(&y, QUERY)?, heads)?)?;
        let key = rotated(split(self.project(&y, KEY)?, kv_heads)?)?;
        before.push((key, split(self.project(&y, VALUE)?, kv_heads)?));
        // Query heads that share keys are grouped, so no key is copied.
        let query = (query / (head_dim as f64).sqrt())?;
        let together = query.reshape((b, kv_heads, group * t, head_dim))?;
        let apart = query.reshape((b, kv_heads, group, t, head_dim))?;
        let (first_keys, first_values) = &before[0];
        let scores = together.matmul(&first_keys.transpose(2, 3)?.contiguous()?)?;
        let unseen = |i: usize| if i % t + shift <= i / t { 0.0 } else { f32::NEG_INFINITY };
        let unseen = Tensor::from_vec((0..t * t).map(unseen).collect(), (t, t), &Device::Cpu)?;
        let scores = scores.reshape((b, kv_heads, group, t, t))?.broadcast_add(&unseen.to_dtype(scores.dtype())?)?;
        // What step `j` has read for a position as a token of its draft is `shift - j` positions earlier.
        let of_draft =
            |all: &Tensor, j: usize| all.pad_with_zeros(2, shift - j, 0)?.narrow(2, 0, t)?.unsqueeze(2)?.contiguous();
        let mut all_scores = vec![scores];
        for (j, (keys, _)) in before.iter().enumerate().skip(1) {
            all_scores.push(apart.broadcast_mul(&of_draft(keys, j)?)?.sum_keepdim(D::Minus1)?);
        }
        let shares = softmax(&Tensor::cat(&all_scores, D::Minus1)?, D::Minus1)?;
        let of_first = shares.narrow(4, 0, t)?.contiguous()?.reshape((b, kv_heads, group * t, t))?;
        let mut mixed = of_first.matmul(first_values)?.reshape((b, kv_heads, group, t, head_dim))?;
        for (j, (_, values)) in before.iter().enumerate().skip(1) {
            let share = shares.narrow(4, t + j - 1, 1)?;
            mixed = (mixed + share.broadcast_mul(&of_draft(values, j)?)?)?;
        }
        let mixed = mixed.reshape((b, heads, t, head_dim))?.transpose(1, 2)?.contiguous()?;
        let x = (x + self.project(&mixed.reshape((b * t, heads * head_dim))?, OUTPUT)?)?;
        let y = self.norm(&x, FEED_FORWARD_NORM)?;
        let inner = (silu(&self.project(&y, GATE)?)? * self.project(&y, UP)?)?;
        let x = (x + self.project(&inner, DOWN)?)?;
        self.norm(&x, NORM)?.reshape((b, t, width))
    }
}

impl Head for Feature {
    fn name(&self) -> &'static str {
        "feature"
    }

    fn variables(&self) -> &BTreeMap<String, Var> {
        &self.variables
    }

    fn description(&self, target: &DecoderConfig) -> Map<String, Value> {
        let Value::Object(description) = json!({
            "model_type": "verdigris_feature_drafter",
            "num_hidden_layers": 1,
            "intermediate_size": self.shape.inner,
            "num_attention_heads": self.shape.heads,
            "num_key_value_heads": self.shape.kv_heads,
            "head_dim": self.shape.head_dim,
            "rms_norm_eps": self.shape.epsilon,
            "rope_theta": self.shape.theta,
            "max_position_embeddings": target.context,
            "hidden_act": "silu",
        }) else {
            unreachable!("it is an object")
        };
        description
    }

    fn guesses(&self, batch: &Batch) -> std::result::Result<Guesses, TrainError> {
        // A position is a token after the first, with the state before it.
        let (b, t, width) = (batch.texts, batch.length - 1, self.shape.width);
        let tokens: Vec<TokenId> =
            batch.tokens.chunks_exact(batch.length).flat_map(|text| &text[1..]).copied().collect();
        let embedded = self.norm(&(self.embed)(&tokens)?, EMBEDDING_NORM)?.reshape((b, t, width))?;
        let angles = Angles::new(&Rotary::new(self.shape.theta), self.shape.head_dim, t);
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        (0..t as u32).for_each(|position| angles.extend(position, &mut cos, &mut sin));
        let kind: DType = batch.hidden.dtype();
        let table = |values| Tensor::from_vec(values, (t, self.shape.head_dim / 2), &Device::Cpu)?.to_dtype(kind);
        let angles = (table(cos)?, table(sin)?);

        let places: Vec<(usize, usize)> = batch.places(1).collect();
        let flat = |length: usize, back: usize| -> Vec<u32> {
            places.iter().map(|&(text, at)| (text * length + at - back) as u32).collect()
        };
        let target = batch.states(&flat(batch.length, 0))?;
        let of_places = Tensor::new(flat(t, 1), &Device::Cpu)?;
        let (mut features, mut before) = (batch.hidden.narrow(1, 0, t)?.contiguous()?, Vec::new());
        let mut each = Vec::new();
        for shift in 0..STEPS {
            let states = self.step(&embedded, &features, &mut before, &angles)?;
            // Drafts begin at the first position or later.
            let counts = places.iter().map(|&(_, at)| at > shift).collect();
            each.push(Guess { states: states.flatten(0, 1)?.index_select(&of_places, 0)?, output: None, counts });
            features = states.pad_with_zeros(1, 1, 0)?.narrow(1, 0, t)?.contiguous()?;
        }
        Ok(Guesses { target, each, capped: true })
    }
}
