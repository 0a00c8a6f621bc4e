//! One pass through the layers, for tokens of one sequence or of several.

use std::borrow::Cow;

use super::attention::{attend_each, cosines_and_sines};
use super::decoder::CpuDecoder;
use super::feed_forward::{feed_forward, sparse};
use super::latent::attend_to_latents;
use super::peers::Peers;
use super::recurrent::{StatefulText, mix};
use super::state::State;
use super::work::{CpuItem, Work};
use crate::description::config::{Block, FeedForward, Mixer, Parallel, Positions};
use crate::description::parts::{FeedForwardParts, Layer, MixerParts, Scales};
use crate::description::share::part_of;
use crate::error::ModelError;
use crate::language_model::Batch;
use crate::slices::{TokenSlice, keep_rows};

/// Reads the tokens of `slices`, whose sequences have exclusive pages for them, and writes their rows.
pub(super) fn pass(
    decoder: &CpuDecoder,
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let CpuDecoder { config, parts: all, .. } = decoder;
    work.positions.clear();
    work.visible.clear();
    for slice in slices {
        let item = &items[slice.item];
        let batch = slice.of(&item.batch);
        batch.extend_positions(item.state.held.length(), &mut work.positions);
        batch.extend_visibility(&mut work.visible);
    }
    work.h.resize(work.positions.len() * config.width, 0.0);
    if !peers.take_hidden(&mut work.h)? {
        begin(decoder, items, slices, work);
    }
    if let (Some(of), Some(parts)) = (&config.per_layer, &all.per_layer) {
        let tokens = slices.iter().flat_map(|slice| slice.of(&items[slice.item].batch).tokens);
        work.per_layer.begin(decoder, (of, parts), tokens, &work.h);
    }
    let alternating = config.alternating.as_ref().zip(all.alternating.as_ref());
    if let Some((of, parts)) = alternating {
        work.streams.begin(config.width, of, parts, &work.h);
    }
    let mut rotated_by = None;
    let (mut slices, first_reader) = (Cow::Borrowed(slices), config.first_reader());
    for (i, (layer, block)) in all.layers.iter().zip(&config.blocks).enumerate() {
        if Some(i) == first_reader {
            slices = leave_out(decoder, items, &slices, work).into();
            rotated_by = None;
            if work.h.is_empty() {
                break;
            }
        }
        if let Some((of, parts)) = alternating {
            work.streams.predict(decoder, of, &parts.layers[i], &mut work.h);
        }
        keep_layer(i, config.width, items, &slices, &work.h);
        match (&layer.mixer_norm, mixed(i, items, &slices)) {
            (_, Some(mixed)) => {
                work.x.clear();
                work.x.extend_from_slice(mixed);
            }
            (Some(scales), None) => decoder.normalize(&work.h, scales, &mut work.x),
            (None, None) => work.x.clone_from(&work.h),
        }
        if let Some(which) = block.mixer.rotary()
            && rotated_by != Some(which)
        {
            rotated_by = Some(which);
            cosines_and_sines(which, items, &slices, work);
        }
        if let Some((_, parts)) = alternating {
            work.streams.pass_by(decoder, &parts.layers[i], &work.x);
        }
        match (&layer.mixer, &block.mixer) {
            (MixerParts::Attention(parts), Mixer::Attention(attention)) => {
                attend_each(decoder, i, (attention, parts), items, &slices, work, peers)?;
            }
            (MixerParts::Latent(parts), Mixer::Latent(latent)) => {
                attend_to_latents(decoder, i, (latent, parts), items, &slices, work);
            }
            (parts, mixer) => {
                let mut texts = texts(items, &slices);
                mix(decoder, i, (mixer, parts), &mut texts, &work.x, &mut work.recurrent, &mut work.y);
            }
        }
        peers.sum(&mut work.y)?;
        if config.parallel.is_none() {
            add(decoder, &mut work.h, &work.y, layer.after_mixer.as_ref(), &mut work.normed);
        }
        if alternating.is_some() {
            work.streams.join(&mut work.h);
        }
        if block.feed_forward != FeedForward::None {
            feed(decoder, (layer, block), work, peers)?;
        }
        if let Some((of, parts)) = alternating {
            work.streams.correct(decoder, of, &parts.layers[i], &work.h, &mut work.x);
        }
        if let (Some(of), Some(parts)) = (&config.per_layer, &all.per_layer) {
            match alternating {
                Some(_) => work.streams.add(work.per_layer.compute(decoder, (of, parts), i, &work.x)),
                None => {
                    let y = work.per_layer.compute(decoder, (of, parts), i, &work.h);
                    work.h.iter_mut().zip(y).for_each(|(h, y)| *h += y);
                }
            }
        }
        if let Some(scales) = &all.layer_scales {
            work.h.iter_mut().for_each(|x| *x *= scales[i]);
        }
    }
    if let Some((_, parts)) = alternating {
        work.streams.end(config.width, parts, &mut work.h);
    }
    keep_layer(all.layers.len(), config.width, items, &slices, &work.h);
    for slice in &*slices {
        let CpuItem { state: State { held, recurrent, .. }, batch, .. } = &mut items[slice.item];
        recurrent.count(held.length(), &slice.of(batch));
        held.extend(slice.len());
    }
    peers.hand_on(&work.h)?;
    write_hidden(decoder, items, &slices, work);
    write_rows(decoder, items, &slices, work, peers)
}

/// Adds the result of the feed-forward part of a layer to the residual stream.
fn feed(
    decoder: &CpuDecoder,
    (layer, block): (&Layer, &Block),
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let config = &decoder.config;
    match (&layer.feed_forward_norm, config.parallel) {
        (_, Some(Parallel::OneNorm)) => {}
        (Some(scales), _) => decoder.normalize(&work.h, scales, &mut work.x),
        (None, _) => work.x.clone_from(&work.h),
    }
    if config.parallel.is_some() {
        add(decoder, &mut work.h, &work.y, None, &mut work.normed);
    }
    match (&layer.feed_forward, &block.feed_forward) {
        (FeedForwardParts::Dense(parts), FeedForward::Dense(network)) => {
            feed_forward(network, parts, &work.x, &mut work.gate, &mut work.up, &mut work.y);
        }
        (FeedForwardParts::Dense(parts), FeedForward::Sparse(of)) => {
            sparse(of, parts, &work.x, &mut work.gate, &mut work.up, &mut work.y);
        }
        (FeedForwardParts::Mixture(parts), FeedForward::Mixture(mixture)) => {
            work.experts.compute(mixture, parts, &work.x, &mut work.y);
        }
        (FeedForwardParts::Both(parts), FeedForward::Both(of)) => {
            work.both.compute(decoder, (of, parts), &work.h, &work.x, &mut work.y);
        }
        _ => unreachable!("the weights are those of the description"),
    }
    peers.sum(&mut work.y)?;
    add(decoder, &mut work.h, &work.y, layer.after_feed_forward.as_ref(), &mut work.normed);
    Ok(())
}

/// Leaves out the tokens whose rows are not wanted, for layers that only read keys and values that all tokens have.
/// Returns the slices of the other tokens.
fn leave_out(
    decoder: &CpuDecoder,
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
) -> Vec<TokenSlice> {
    let mut at = 0;
    let (mut rest, mut kept) = (Vec::with_capacity(slices.len()), Vec::with_capacity(slices.len()));
    for slice in slices {
        let CpuItem { state, batch, rows, .. } = &mut items[slice.item];
        let is_whole = batch.parents.is_some() || rows.keeps_states();
        let count = if is_whole { 0 } else { slice.wanted(batch).start };
        state.held.extend(count);
        rest.push(slice.without(count));
        kept.push(at + count..at + slice.len());
        at += slice.len();
    }
    keep_rows(&mut work.h, decoder.config.width, &kept);
    keep_rows(&mut work.positions, 1, &kept);
    if decoder.config.alternating.is_some() {
        work.streams.keep(decoder.config.width, &kept);
    }
    if let Some(parts) = &decoder.parts.per_layer {
        work.per_layer.keep(parts.embedding.columns(), &kept);
    }
    rest
}

/// The states of the sequences of a pass, and what each reads.
fn texts<'a>(items: &'a mut [CpuItem<'_>], slices: &[TokenSlice]) -> Vec<StatefulText<'a>> {
    let mut all: Vec<Option<&mut CpuItem<'_>>> = items.iter_mut().map(Some).collect();
    let text = |slice: &TokenSlice| {
        let item = all[slice.item].take().expect("one slice of each sequence");
        let CpuItem { state: State { recurrent, held, .. }, batch, .. } = item;
        StatefulText { recurrent, length: held.length(), batch: slice.of(batch) }
    };
    slices.iter().map(text).collect()
}

/// The rows that the mixer of a layer reads, if they are given: [`Beginning::mixed`](super::work::Beginning::mixed).
fn mixed<'a>(layer: usize, items: &[CpuItem<'a>], slices: &[TokenSlice]) -> Option<&'a [f32]> {
    let ([item], [slice], 0) = (items, slices, layer) else { return None };
    let mixed = item.beginning?.mixed?;
    let columns = mixed.len() / item.batch.tokens.len();
    Some(&mixed[slice.range().start * columns..slice.range().end * columns])
}

/// Keeps the residual stream after the first `layers` layers, for the items that want it.
fn keep_layer(layers: usize, width: usize, items: &mut [CpuItem<'_>], slices: &[TokenSlice], h: &[f32]) {
    let mut rest = h;
    for slice in slices {
        let (own, others) = rest.split_at(slice.len() * width);
        items[slice.item].rows.keep_layer(layers, slice.range().start, own, width);
        rest = others;
    }
}

/// Sets the residual stream to [`CpuItem::beginning`], or to the embeddings.
fn begin(decoder: &CpuDecoder, items: &[CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    let width = decoder.config.width;
    if items.iter().any(|item| item.beginning.is_none()) {
        embed(decoder, slices.iter().flat_map(|slice| slice.of(&items[slice.item].batch).tokens), work);
    }
    let mut rest = &mut work.h[..];
    for slice in slices {
        let (own, others) = rest.split_at_mut(slice.len() * width);
        if let Some(beginning) = items[slice.item].beginning {
            own.copy_from_slice(&beginning.stream[slice.range().start * width..slice.range().end * width]);
        }
        rest = others;
    }
}

/// Sets the residual stream to the embeddings.
fn embed<'a>(decoder: &CpuDecoder, tokens: impl Iterator<Item = &'a u32>, work: &mut Work) {
    let CpuDecoder { config, parts, .. } = decoder;
    let width = config.width;
    for (row, &token) in work.h.chunks_mut(width).zip(tokens) {
        parts.embedding.decode(token as usize, row);
    }
    if let Some(scale) = config.embedding_scale {
        work.h.iter_mut().for_each(|x| *x *= scale as f32);
    }
    if let (Some(learned), Positions::Learned { offset }) = (&parts.positions, &config.positions) {
        work.x.resize(width, 0.0);
        for (row, &position) in work.h.chunks_mut(width).zip(&work.positions) {
            learned.decode(position as usize + offset, &mut work.x);
            row.iter_mut().zip(&work.x).for_each(|(x, position)| *x += position);
        }
    }
    if let Some(scales) = &parts.embedding_norm {
        decoder.normalize(&work.h, scales, &mut work.x);
        std::mem::swap(&mut work.h, &mut work.x);
    }
}

/// Writes the hidden states of the items that keep them.
fn write_hidden(decoder: &CpuDecoder, items: &mut [CpuItem<'_>], slices: &[TokenSlice], work: &mut Work) {
    let width = decoder.config.width;
    let mut at = 0;
    for slice in slices {
        let of_slice = at..at + slice.len() * width;
        if let Some(hidden) = items[slice.item].rows.hidden_mut() {
            decoder.normalize(&work.h[of_slice.clone()], &decoder.parts.norm, &mut work.normed);
            hidden[slice.range().start * width..slice.range().end * width].copy_from_slice(&work.normed);
        }
        at = of_slice.end;
    }
}

/// Writes the wanted rows, with one product for all sequences.
fn write_rows(
    decoder: &CpuDecoder,
    items: &mut [CpuItem<'_>],
    slices: &[TokenSlice],
    work: &mut Work,
    peers: &mut Peers<'_>,
) -> Result<(), ModelError> {
    let CpuDecoder { config, parts, .. } = decoder;
    let (width, size) = (config.width, decoder.row_width);
    work.y.clear();
    let mut at = 0;
    for slice in slices {
        let wanted = slice.wanted(&items[slice.item].batch);
        work.y.extend_from_slice(&work.h[(at + wanted.start) * width..(at + wanted.end) * width]);
        at += slice.len();
    }
    if work.y.is_empty() || !peers.bring_back(&mut work.y)? {
        return Ok(());
    }
    decoder.normalize(&work.y, &parts.norm, &mut work.x);
    let finish = |logits: &mut [f32]| {
        if let Some(scale) = config.logit_scale {
            logits.iter_mut().for_each(|logit| *logit *= scale as f32);
        }
        if let Some(cap) = config.logit_cap {
            let cap = cap as f32;
            logits.iter_mut().for_each(|logit| *logit = cap * libm::tanhf(*logit / cap));
        }
    };
    let logits_of = |slice: &TokenSlice, batch: &Batch<'_>| {
        let rows = slice.rows(batch);
        rows.start * size..rows.end * size
    };
    let ranks = peers.side_by_side();
    if ranks > 1 {
        let (m, own) = (work.x.len() / width, parts.output.rows());
        work.up.resize(m * own, 0.0);
        parts.output.product(&work.x, &mut work.up);
        finish(&mut work.up);
        work.gathered.resize(if peers.want_rows_here() { m * size } else { 0 }, 0.0);
        peers.gather(&work.up, &mut work.gathered)?;
        if peers.want_rows_here() {
            let mut i = 0;
            for slice in slices {
                let CpuItem { batch, rows, .. } = &mut items[slice.item];
                for row in slice.rows(batch) {
                    for rank in 0..ranks {
                        let tokens = part_of(size, rank, ranks);
                        let of_rank = &work.gathered[m * tokens.start + i * tokens.len()..][..tokens.len()];
                        rows.row_mut(row)[tokens].copy_from_slice(of_rank);
                    }
                    i += 1;
                }
            }
        }
        return Ok(());
    }
    if let [slice] = slices {
        let CpuItem { batch, rows, .. } = &mut items[slice.item];
        let logits = &mut rows.logits[logits_of(slice, batch)];
        parts.output.product(&work.x, logits);
        finish(logits);
        return Ok(());
    }
    work.up.resize(work.x.len() / width * size, 0.0);
    parts.output.product(&work.x, &mut work.up);
    finish(&mut work.up);
    let mut rest = &work.up[..];
    for slice in slices {
        let CpuItem { batch, rows, .. } = &mut items[slice.item];
        let range = logits_of(slice, batch);
        let (these, others) = rest.split_at(range.len());
        rows.logits[range].copy_from_slice(these);
        rest = others;
    }
    Ok(())
}

/// Adds the output of a part of a layer to the residual stream, normalised if there is a norm, and scaled.
fn add(decoder: &CpuDecoder, h: &mut [f32], y: &[f32], norm: Option<&Scales>, normed: &mut Vec<f32>) {
    let y = match norm {
        Some(scales) => {
            decoder.normalize(y, scales, normed);
            &normed[..]
        }
        None => y,
    };
    verdigris_kernels::add(h, y, decoder.config.residual_scale.map(|scale| scale as f32));
}
