//! One pass through the layers, as kernel launches. The rows are set beforehand, and the launches are the same for any
//! rows.

use verdigris_kernels::cuda::activations::Activations;
use verdigris_kernels::cuda::attention::{self, Splits, attend};
use verdigris_kernels::cuda::elements::{
    self, activate, add, add_positions, cap, embed, into_pages, normalize, normalize_wanted,
};
use verdigris_kernels::cuda::inputs::Inputs;
use verdigris_kernels::cuda::linear::{self, MatrixProduct, activated_linear, linear};
use verdigris_kernels::cuda::{Buffer, CudaError};

use super::resident::{GpuDense, GpuProjection, GpuScales, Resident};
use super::work::Buffers;
use crate::description::config::{Attention, DecoderConfig, Dense, Norm, Parallel, Positions};

/// Computes the logits of the first `wanted` of the wanted rows.
pub(super) fn pass(
    resident: &Resident,
    rows: &Inputs,
    buffers: &Buffers,
    splits: &Splits,
    wanted: usize,
) -> Result<(), CudaError> {
    let Resident { gpu, config, parts: all, .. } = resident;
    let (m, Buffers { h, query, key, value, mixed, hidden, last, logits, .. }) = (rows.capacity(), buffers);
    let width = config.width;
    embed_rows(resident, rows, buffers)?;
    for (i, (layer, block)) in all.layers.iter().zip(&config.blocks).enumerate() {
        let (Some(of), Some(attention)) = (layer.attention(), block.mixer.attention()) else {
            unreachable!("other layers were refused")
        };
        let (Some(parts), Some(network)) = (layer.dense(), block.feed_forward.dense()) else {
            unreachable!("other layers were refused")
        };
        let &Attention { heads, kv_heads, head_dim, .. } = attention;
        let read = normed(resident, buffers, &layer.mixer_norm, m)?;
        let (Some(of_key), Some(of_value)) = (&of.key, &of.value) else { unreachable!("other layers were refused") };
        let projections = [product(&of.query, query), product(of_key, key), product(of_value, value)];
        linear(gpu, read, m, &projections, false)?;
        if attention.query_key_norm.is_some() {
            for (numbers, heads, weight) in [(query, heads, &of.query_norm), (key, kv_heads, &of.key_norm)] {
                if let Some(weight) = weight {
                    let norm = norm(config, weight, None);
                    let of_heads = m * heads * head_dim / norm.width;
                    normalize(gpu, numbers, of_heads, norm, &Activations::of_numbers(numbers, of_heads, norm.width))?;
                }
            }
        }
        let rotary = attention.rotary.and_then(|which| resident.rotary.get(which).copied());
        into_pages(gpu, rows, i, heads, [query, key, value], rotary)?;
        let launch = attention::Attention {
            layer: i,
            heads,
            window: attention.window,
            slopes: resident.slopes.as_ref(),
            scale: attention.factor(),
            cap: attention.cap.map(|cap| cap as f32),
        };
        attend(gpu, rows, query, launch, splits, mixed)?;
        match config.parallel {
            None => {
                add_projected(resident, mixed, &of.output, &layer.after_mixer, buffers, m)?;
                let read = normed(resident, buffers, &layer.feed_forward_norm, m)?;
                feed_forward(resident, network, parts, read, buffers, m)?;
            }
            // Both read the residual stream before either adds to it.
            Some(Parallel::OneNorm) => {
                feed_forward(resident, network, parts, read, buffers, m)?;
                add_projected(resident, mixed, &of.output, &None, buffers, m)?;
            }
            Some(Parallel::TwoNorms) => {
                let read = normed(resident, buffers, &layer.feed_forward_norm, m)?;
                feed_forward(resident, network, parts, read, buffers, m)?;
                add_projected(resident, mixed, &of.output, &None, buffers, m)?;
            }
        }
        add_projected(resident, hidden, &parts.down, &layer.after_feed_forward, buffers, m)?;
    }
    if wanted == 0 {
        return Ok(());
    }
    normalize_wanted(gpu, h, rows, wanted, norm_of(config, &all.norm), last)?;
    linear(gpu, last, wanted, &[MatrixProduct { matrix: &all.output, bias: None, out: logits }], false)?;
    match config.logit_cap {
        Some(of) => cap(gpu, logits, wanted * config.vocabulary, of as f32),
        None => Ok(()),
    }
    .inspect(|()| debug_assert_eq!(width, all.output.columns()))
}

/// Sets the residual stream to the embeddings.
fn embed_rows(resident: &Resident, rows: &Inputs, buffers: &Buffers) -> Result<(), CudaError> {
    let Resident { gpu, config, parts, .. } = resident;
    embed(gpu, rows, &parts.embedding, config.embedding_scale.unwrap_or(1.0) as f32, &buffers.h)?;
    if let (Some(learned), Positions::Learned { offset }) = (&parts.positions, &config.positions) {
        add_positions(gpu, rows, learned, *offset, &buffers.h)?;
    }
    match &parts.embedding_norm {
        Some(scales) => {
            let (h, m) = (&buffers.h, rows.capacity());
            normalize(gpu, h, m, norm_of(config, scales), &Activations::of_numbers(h, m, config.width))
        }
        None => Ok(()),
    }
}

/// A norm whose width is the number of its weights.
fn norm<'a>(config: &DecoderConfig, weight: &'a Buffer, bias: Option<&'a Buffer>) -> elements::Norm<'a> {
    let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = config.norm;
    elements::Norm { weight, bias, width: weight.len() / size_of::<f32>(), epsilon: epsilon as f32 }
}

fn norm_of<'a>(config: &DecoderConfig, scales: &'a GpuScales) -> elements::Norm<'a> {
    norm(config, &scales.weight, scales.bias.as_ref())
}

fn product<'a>(projection: &'a GpuProjection, out: &'a Buffer) -> MatrixProduct<'a> {
    MatrixProduct { matrix: &projection.matrix, bias: projection.bias.as_ref(), out }
}

/// The input of a part of a layer: the residual stream, normalised if there is a norm.
fn normed<'a>(
    resident: &Resident,
    Buffers { h, x, .. }: &'a Buffers,
    scales: &Option<GpuScales>,
    m: usize,
) -> Result<&'a Activations, CudaError> {
    match scales {
        Some(scales) => normalize(&resident.gpu, h, m, norm_of(&resident.config, scales), x)?,
        None => activate(&resident.gpu, None, h, None, m, x)?,
    }
    Ok(x)
}

/// Computes the input of the feed-forward part's last matrix.
fn feed_forward(
    resident: &Resident,
    network: &Dense,
    parts: &GpuDense,
    x: &Activations,
    Buffers { gate, up, hidden, .. }: &Buffers,
    m: usize,
) -> Result<(), CudaError> {
    let activation = network.activation;
    let gpu = &resident.gpu;
    fn of(projection: &GpuProjection) -> linear::Projection<'_> {
        (&projection.matrix, projection.bias.as_ref())
    }
    match &parts.gate {
        Some(of_gate) => {
            let both = [of(of_gate), of(&parts.up)];
            if activated_linear(gpu, x, m, &both, activation, hidden)? {
                return Ok(());
            }
            linear(gpu, x, m, &[product(of_gate, gate), product(&parts.up, up)], false)?;
            activate(gpu, Some(activation), gate, Some(up), m, hidden)
        }
        None => activated_linear(gpu, x, m, &[of(&parts.up)], activation, hidden).map(|_| ()),
    }
}

/// Adds the projection of `from` to the residual stream, normalised if there is a norm after it.
fn add_projected(
    resident: &Resident,
    from: &Activations,
    projection: &GpuProjection,
    after: &Option<GpuScales>,
    Buffers { h, y, .. }: &Buffers,
    m: usize,
) -> Result<(), CudaError> {
    let gpu = &resident.gpu;
    let Some(scales) = after else { return linear(gpu, from, m, &[product(projection, h)], true) };
    linear(gpu, from, m, &[product(projection, y)], false)?;
    let width = resident.config.width;
    normalize(gpu, y, m, norm_of(&resident.config, scales), &Activations::of_numbers(y, m, width))?;
    add(gpu, h, y, m * width)
}
