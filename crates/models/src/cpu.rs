//! The decoder on a CPU: weights as they are stored, kernels on slices, and memory that is used again.

use std::sync::Arc;

use verdigris_kernels::{
    Cached, Format, Heads, Sight, Weights, activate, attend, layer_norm, linear, linear_each, rms_norm, rotate,
};

use crate::config::{DecoderConfig, FeedForward, Norm, NormPlaces, Parallel, Positions};
use crate::error::ModelError;
use crate::language_model::{Batch, LanguageModel, Rows, Sequence, Wanted};
use crate::matrix::Matrix;
use crate::rotary::Angles;

/// A decoder-only transformer on a CPU: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct CpuDecoder {
    config: DecoderConfig,
    parts: Parts,
    angles: Vec<Angles>,
    slopes: Option<Vec<f32>>,
    /// How keys and values are stored.
    cached_as: Format,
}

/// The weights of a decoder.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) embedding: Matrix,
    /// Learned positions.
    pub(crate) positions: Option<Matrix>,
    pub(crate) embedding_norm: Option<Scales>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Scales,
    pub(crate) output: Matrix,
}

/// What a norm multiplies by, and adds.
#[derive(Clone, Debug)]
pub(crate) struct Scales {
    pub(crate) weight: Vec<f32>,
    /// For [`Norm::Layer`].
    pub(crate) bias: Vec<f32>,
}

/// A matrix (`out x in`) and, in some families, a bias.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Option<Scales>,
    pub(crate) query: Projection,
    pub(crate) key: Projection,
    pub(crate) value: Projection,
    pub(crate) query_norm: Option<Vec<f32>>,
    pub(crate) key_norm: Option<Vec<f32>>,
    pub(crate) output: Projection,
    pub(crate) after_attention: Option<Scales>,
    pub(crate) feed_forward_norm: Option<Scales>,
    pub(crate) gate: Option<Projection>,
    pub(crate) up: Projection,
    pub(crate) down: Projection,
    pub(crate) after_feed_forward: Option<Scales>,
}

impl CpuDecoder {
    /// Keys and values are kept as is said, else as exactly as the weights are, but in no less than half precision.
    pub(crate) fn new(config: DecoderConfig, parts: Parts, cached_as: Option<Format>) -> Result<Self, ModelError> {
        let exact = parts.layers[0].key.matrix.format() == Format::F32;
        let cached_as = cached_as.unwrap_or(if exact { Format::F32 } else { Format::F16 });
        let is_possible = matches!(cached_as, Format::F32 | Format::F16 | Format::Bf16 | Format::Q8_0);
        if !is_possible || !config.head_dim.is_multiple_of(cached_as.block()) {
            return Err(ModelError::Cache { format: cached_as, head_dim: config.head_dim });
        }
        let rotary = if let Positions::Rotary(all) = &config.positions { &all[..] } else { &[] };
        let angles = rotary.iter().map(|rotary| Angles::new(rotary, config.head_dim)).collect();
        let slopes = match config.positions {
            Positions::Alibi { most, odd_first, by_scale } => {
                let mut slopes = slopes(config.heads, most, odd_first);
                if by_scale {
                    slopes.iter_mut().for_each(|slope| *slope *= config.scale());
                }
                Some(slopes)
            }
            _ => None,
        };
        Ok(Self { config, parts, angles, slopes, cached_as })
    }

    /// The description of it.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    fn normalize(&self, x: &[f32], scales: &Scales, out: &mut Vec<f32>) {
        out.resize(x.len(), 0.0);
        match self.config.norm {
            Norm::Rms { epsilon } => rms_norm(x, &scales.weight, epsilon as f32, out),
            Norm::Layer { epsilon } => layer_norm(x, &scales.weight, &scales.bias, epsilon as f32, out),
        }
    }
}

/// The slopes of ALiBi: a geometric series from the number of heads, if that is a power of two. Else that of the power below, and
/// every other one of twice that (the paper's own code); or of the power above every other one first (MPT's).
fn slopes(heads: usize, most: f64, odd_first: bool) -> Vec<f32> {
    let series = |of: usize| (1..=of).map(move |i| 2f64.powf(-most * i as f64 / of as f64) as f32);
    let below = 1 << heads.ilog2();
    if below == heads {
        return series(heads).collect();
    }
    let above = 2 * below;
    match odd_first {
        true => series(above).skip(1).step_by(2).chain(series(above).step_by(2)).take(heads).collect(),
        false => series(below).chain(series(above).step_by(2)).take(heads).collect(),
    }
}

impl LanguageModel for CpuDecoder {
    fn vocabulary_size(&self) -> usize {
        self.config.vocabulary
    }

    fn context_length(&self) -> usize {
        self.config.context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let DecoderConfig { layers, kv_heads, head_dim, context, .. } = self.config;
        if capacity > context {
            return Err(ModelError::ContextFull { tokens: capacity, capacity: context });
        }
        let cache = || Cache::new(self.cached_as, capacity, kv_heads * head_dim);
        let caches = (0..layers).map(|_| (cache(), cache())).collect();
        Ok(Box::new(CpuSequence { decoder: self, caches, length: 0, capacity, work: Work::default() }))
    }
}

/// Keys or values of one layer, token after token. What lies past the length in use is left over and never read.
#[derive(Clone, Debug)]
struct Cache {
    format: Format,
    /// Numbers a token.
    width: usize,
    bytes: Vec<u8>,
}

impl Cache {
    fn new(format: Format, capacity: usize, width: usize) -> Self {
        // Untouched memory of zeros costs nothing.
        Self { format, width, bytes: vec![0; capacity * format.bytes(width)] }
    }

    fn write(&mut self, at: usize, numbers: &[f32]) {
        let token = self.format.bytes(self.width);
        let count = numbers.len() / self.width;
        self.format.encode(numbers, &mut self.bytes[at * token..(at + count) * token]);
    }

    fn first(&self, tokens: usize) -> Cached<'_> {
        Cached { format: self.format, bytes: &self.bytes[..tokens * self.format.bytes(self.width)] }
    }
}

/// What a forward pass works in, used again by the next.
#[derive(Clone, Debug, Default)]
struct Work {
    positions: Vec<u32>,
    visible: Vec<bool>,
    cos: Vec<f32>,
    sin: Vec<f32>,
    /// The residual stream.
    h: Vec<f32>,
    x: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    mixed: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    y: Vec<f32>,
    normed: Vec<f32>,
}

struct CpuSequence {
    decoder: Arc<CpuDecoder>,
    caches: Vec<(Cache, Cache)>,
    length: usize,
    capacity: usize,
    work: Work,
}

impl Sequence for CpuSequence {
    fn len(&self) -> usize {
        self.length
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let size = self.decoder.config.vocabulary;
        let length = batch.admitted(size, self.length, self.capacity)?;
        if batch.tokens.is_empty() {
            rows.prepare(0, size);
            return Ok(());
        }
        self.compute(batch, rows);
        self.length = length;
        Ok(())
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.length, "truncating {} tokens to {length}", self.length);
        self.length = length;
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let (length, capacity) = (self.length, self.capacity);
        let caches = self.caches.clone();
        Ok(Box::new(Self { decoder: self.decoder.clone(), caches, length, capacity, work: Work::default() }))
    }
}

impl CpuSequence {
    fn compute(&mut self, batch: &Batch<'_>, rows: &mut Rows) {
        let Self { decoder, caches, length: held, work, .. } = self;
        let CpuDecoder { config, parts, angles, slopes, .. } = &**decoder;
        let (m, width, held) = (batch.tokens.len(), config.width, *held);
        batch.positions_into(held, &mut work.positions);
        let has_tree = batch.visibility_into(&mut work.visible);
        embed(config, parts, batch, work, decoder);
        let shape = Heads { heads: config.heads, kv_heads: config.kv_heads, head_dim: config.head_dim };
        let scale = config.scale();
        let mut turned_by = None;
        for (i, (layer, (keys, values))) in parts.layers.iter().zip(caches).enumerate() {
            let kind = config.kind(i);
            match &layer.attention_norm {
                Some(scales) => decoder.normalize(&work.h, scales, &mut work.x),
                None => work.x.clone_from(&work.h),
            }
            let heads = [(&layer.query, &mut work.query), (&layer.key, &mut work.key), (&layer.value, &mut work.value)];
            project_each(&work.x, width, heads);
            if config.query_key_norm.is_some() {
                for (x, weight) in [(&mut work.query, &layer.query_norm), (&mut work.key, &layer.key_norm)] {
                    let weight = weight.as_deref().unwrap_or_default();
                    let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
                    work.normed.resize(x.len(), 0.0);
                    rms_norm(x, weight, epsilon as f32, &mut work.normed);
                    std::mem::swap(x, &mut work.normed);
                }
            }
            if let (Positions::Rotary(all), Some(which)) = (&config.positions, kind.rotary) {
                if turned_by != Some(which) {
                    turned_by = Some(which);
                    work.cos.clear();
                    work.sin.clear();
                    for &position in &work.positions {
                        angles[which].extend(position, &mut work.cos, &mut work.sin);
                    }
                }
                rotate(&mut work.query, shape.heads, shape.head_dim, &work.cos, &work.sin, all[which].pairs);
                rotate(&mut work.key, shape.kv_heads, shape.head_dim, &work.cos, &work.sin, all[which].pairs);
            }
            keys.write(held, &work.key);
            values.write(held, &work.value);
            let sight = Sight {
                visible: has_tree.then_some(&work.visible[..]),
                positions: &work.positions,
                window: kind.window,
                slopes: slopes.as_deref(),
                cap: config.attention_cap.map(|cap| cap as f32),
            };
            work.mixed.resize(work.query.len(), 0.0);
            let (keys, values) = (keys.first(held + m), values.first(held + m));
            attend(&work.query, keys, values, shape, sight, scale, &mut work.mixed);
            project(&work.mixed, &layer.output, &mut work.y);
            if config.parallel.is_none() {
                add(decoder, &mut work.h, &work.y, layer.after_attention.as_ref(), &mut work.normed);
            }
            match (&layer.feed_forward_norm, config.parallel) {
                (_, Some(Parallel::OneNorm)) => {}
                (Some(scales), _) => decoder.normalize(&work.h, scales, &mut work.x),
                (None, _) => work.x.clone_from(&work.h),
            }
            if config.parallel.is_some() {
                add(decoder, &mut work.h, &work.y, None, &mut work.normed);
            }
            feed_forward(config, layer, &work.x, &mut work.gate, &mut work.up);
            project(&work.gate, &layer.down, &mut work.y);
            add(decoder, &mut work.h, &work.y, layer.after_feed_forward.as_ref(), &mut work.normed);
        }
        let wanted = if batch.wanted == Wanted::Last { &work.h[(m - 1) * width..] } else { &work.h[..] };
        decoder.normalize(wanted, &parts.norm, &mut work.x);
        let logits = rows.prepare(wanted.len() / width, config.vocabulary);
        linear(&work.x, parts.output.weights(), logits);
        if let Some(cap) = config.logit_cap {
            let cap = cap as f32;
            logits.iter_mut().for_each(|logit| *logit = cap * (*logit / cap).tanh());
        }
    }
}

/// The residual stream begins as the embeddings.
fn embed(config: &DecoderConfig, parts: &Parts, batch: &Batch<'_>, work: &mut Work, decoder: &CpuDecoder) {
    let width = config.width;
    work.h.resize(batch.tokens.len() * width, 0.0);
    let embedding = parts.embedding.weights();
    for (row, &token) in work.h.chunks_mut(width).zip(batch.tokens) {
        embedding.decode(token as usize, row);
    }
    if let Some(scale) = config.embedding_scale {
        work.h.iter_mut().for_each(|x| *x *= scale as f32);
    }
    if let (Some(learned), Positions::Learned { offset }) = (&parts.positions, &config.positions) {
        work.x.resize(width, 0.0);
        for (row, &position) in work.h.chunks_mut(width).zip(&work.positions) {
            learned.weights().decode(position as usize + offset, &mut work.x);
            row.iter_mut().zip(&work.x).for_each(|(x, position)| *x += position);
        }
    }
    if let Some(scales) = &parts.embedding_norm {
        decoder.normalize(&work.h, scales, &mut work.x);
        std::mem::swap(&mut work.h, &mut work.x);
    }
}

/// Into `gate`: what the last matrix of the feed-forward part reads.
fn feed_forward(config: &DecoderConfig, layer: &Layer, x: &[f32], gate: &mut Vec<f32>, up: &mut Vec<f32>) {
    match (config.feed_forward, &layer.gate) {
        (FeedForward::Gated { activation, .. }, Some(of_gate)) => {
            project_each(x, config.width, [(of_gate, &mut *gate), (&layer.up, &mut *up)]);
            activate(activation, gate, Some(up));
        }
        (FeedForward::Gated { activation, .. } | FeedForward::Plain { activation, .. }, _) => {
            project(x, &layer.up, gate);
            activate(activation, gate, None);
        }
    }
}

fn project(x: &[f32], projection: &Projection, out: &mut Vec<f32>) {
    project_each(x, projection.matrix.weights().columns(), [(projection, out)]);
}

fn project_each<const N: usize>(x: &[f32], width: usize, parts: [(&Projection, &mut Vec<f32>); N]) {
    let m = x.len() / width;
    let mut parts = parts.map(|(projection, out)| {
        let weights = projection.matrix.weights();
        out.resize(m * weights.rows(), 0.0);
        (weights, &mut out[..], projection.bias.as_deref())
    });
    let mut products: [(Weights<'_>, &mut [f32]); N] = parts.each_mut().map(|(weights, out, _)| (*weights, &mut **out));
    linear_each(x, width, &mut products);
    for (_, out, bias) in parts {
        if let Some(bias) = bias {
            out.chunks_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias));
        }
    }
}

/// Adds what a part of a layer gives to the residual stream.
fn add(decoder: &CpuDecoder, h: &mut [f32], y: &[f32], norm: Option<&Scales>, normed: &mut Vec<f32>) {
    let y = match norm {
        Some(scales) => {
            decoder.normalize(y, scales, normed);
            &normed[..]
        }
        None => y,
    };
    h.iter_mut().zip(y).for_each(|(h, y)| *h += y);
}

/// Whether a layer has a norm before its parts, and after them.
pub(crate) fn norms(places: NormPlaces) -> (bool, bool) {
    match places {
        NormPlaces::Before => (true, false),
        NormPlaces::After => (false, true),
        NormPlaces::Around => (true, true),
    }
}
