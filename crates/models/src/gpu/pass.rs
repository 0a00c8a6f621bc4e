//! One pass through the layers, as launches of kernels: the rows are set, and whatever they are the launches are the same.

use verdigris_kernels::cuda::attention::{Attention, Splits, attend};
use verdigris_kernels::cuda::elements::{
    self, activate, add, add_positions, cap, embed, into_pages, normalize, normalize_wanted,
};
use verdigris_kernels::cuda::linear::{Part, linear};
use verdigris_kernels::cuda::rows::Rows;
use verdigris_kernels::cuda::{Buffer, CudaError, Gpu};

use crate::config::{DecoderConfig, FeedForward, Norm, Parallel, Positions};
use crate::gpu::work::Buffers;
use crate::gpu::{GpuDecoder, GpuLayer, GpuProjection, GpuScales};

/// The logits of the first `wanted` rows that are wanted.
pub(super) fn pass(
    decoder: &GpuDecoder,
    rows: &Rows,
    buffers: &Buffers,
    splits: &Splits,
    wanted: usize,
) -> Result<(), CudaError> {
    let GpuDecoder { gpu, config, parts, .. } = decoder;
    let (m, Buffers { h, x, query, key, value, mixed, gate, up, y, logits }) = (rows.most(), buffers);
    let DecoderConfig { width, heads, kv_heads, head_dim, .. } = *config;
    embed_rows(decoder, rows, buffers)?;
    for (i, layer) in parts.layers.iter().enumerate() {
        let read = normed(decoder, h, &layer.attention_norm, x, m)?;
        let projections = [part(&layer.query, query), part(&layer.key, key), part(&layer.value, value)];
        linear(gpu, read, m, &projections, false)?;
        if config.query_key_norm.is_some() {
            for (numbers, heads, scales) in [(query, heads, &layer.query_norm), (key, kv_heads, &layer.key_norm)] {
                if let Some(scales) = scales {
                    normalize(gpu, numbers, m * heads * head_dim / scales.width, norm(config, scales), numbers)?;
                }
            }
        }
        let turn = config.kind(i).rotary.and_then(|which| decoder.turns.get(which).copied());
        into_pages(gpu, rows, i, heads, [query, key, value], turn)?;
        let attention = Attention {
            layer: i,
            heads,
            window: config.kind(i).window,
            slopes: decoder.slopes.as_ref(),
            scale: config.scale(),
            cap: config.attention_cap.map(|cap| cap as f32),
        };
        attend(gpu, rows, query, attention, splits, mixed)?;
        match config.parallel {
            None => {
                add_projected(decoder, mixed, &layer.output, &layer.after_attention, buffers, m)?;
                let read = normed(decoder, h, &layer.feed_forward_norm, x, m)?;
                feed_forward(gpu, config, layer, read, [gate, up], m)?;
            }
            // Both read what was there before either.
            Some(Parallel::OneNorm) => {
                feed_forward(gpu, config, layer, read, [gate, up], m)?;
                add_projected(decoder, mixed, &layer.output, &None, buffers, m)?;
            }
            Some(Parallel::TwoNorms) => {
                let read = normed(decoder, h, &layer.feed_forward_norm, x, m)?;
                feed_forward(gpu, config, layer, read, [gate, up], m)?;
                add_projected(decoder, mixed, &layer.output, &None, buffers, m)?;
            }
        }
        add_projected(decoder, gate, &layer.down, &layer.after_feed_forward, buffers, m)?;
    }
    if wanted == 0 {
        return Ok(());
    }
    normalize_wanted(gpu, h, rows, wanted, norm(config, &parts.norm), y)?;
    linear(gpu, y, wanted, &[Part { matrix: &parts.output, bias: None, out: logits }], false)?;
    match config.logit_cap {
        Some(of) => cap(gpu, logits, wanted * config.vocabulary, of as f32),
        None => Ok(()),
    }
    .inspect(|()| debug_assert_eq!(width, parts.output.columns()))
}

/// The residual stream begins as the embeddings.
fn embed_rows(decoder: &GpuDecoder, rows: &Rows, buffers: &Buffers) -> Result<(), CudaError> {
    let GpuDecoder { gpu, config, parts, .. } = decoder;
    embed(gpu, rows, &parts.embedding, config.embedding_scale.unwrap_or(1.0) as f32, &buffers.h)?;
    if let (Some(learned), Positions::Learned { offset }) = (&parts.positions, &config.positions) {
        add_positions(gpu, rows, learned, *offset, &buffers.h)?;
    }
    match &parts.embedding_norm {
        Some(scales) => normalize(gpu, &buffers.h, rows.most(), norm(config, scales), &buffers.h),
        None => Ok(()),
    }
}

fn norm<'a>(config: &DecoderConfig, scales: &'a GpuScales) -> elements::Norm<'a> {
    let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
    elements::Norm { weight: &scales.weight, bias: scales.bias.as_ref(), width: scales.width, epsilon: epsilon as f32 }
}

fn part<'a>(projection: &'a GpuProjection, out: &'a Buffer) -> Part<'a> {
    Part { matrix: &projection.matrix, bias: projection.bias.as_ref(), out }
}

/// What a part of a layer reads: the residual stream, normalised into `x` where there is a norm.
fn normed<'a>(
    decoder: &GpuDecoder,
    h: &'a Buffer,
    scales: &Option<GpuScales>,
    x: &'a Buffer,
    m: usize,
) -> Result<&'a Buffer, CudaError> {
    let Some(scales) = scales else { return Ok(h) };
    normalize(&decoder.gpu, h, m, norm(&decoder.config, scales), x)?;
    Ok(x)
}

/// Into `gate`: what the last matrix of the feed-forward part reads.
fn feed_forward(
    gpu: &Gpu,
    config: &DecoderConfig,
    layer: &GpuLayer,
    x: &Buffer,
    [gate, up]: [&Buffer; 2],
    m: usize,
) -> Result<(), CudaError> {
    let count = m * config.feed_forward.width();
    match (config.feed_forward, &layer.gate) {
        (FeedForward::Gated { activation, .. }, Some(of_gate)) => {
            linear(gpu, x, m, &[part(of_gate, gate), part(&layer.up, up)], false)?;
            activate(gpu, activation, gate, Some(up), count)
        }
        (FeedForward::Gated { activation, .. } | FeedForward::Plain { activation, .. }, _) => {
            linear(gpu, x, m, &[part(&layer.up, gate)], false)?;
            activate(gpu, activation, gate, None, count)
        }
    }
}

/// Adds what a part of a layer gives to the residual stream, normalised where it is.
fn add_projected(
    decoder: &GpuDecoder,
    from: &Buffer,
    projection: &GpuProjection,
    after: &Option<GpuScales>,
    Buffers { h, y, .. }: &Buffers,
    m: usize,
) -> Result<(), CudaError> {
    let gpu = &decoder.gpu;
    let Some(scales) = after else { return linear(gpu, from, m, &[part(projection, h)], true) };
    linear(gpu, from, m, &[part(projection, y)], false)?;
    normalize(gpu, y, m, norm(&decoder.config, scales), y)?;
    add(gpu, h, y, m * decoder.config.width)
}
