//! The layers with a state, in a pass.

use std::sync::Arc;

use verdigris_kernels::{Activation, Readout, Recurrence, RecurrentHeads, Step, activate, recur, rms_norm};

use super::convolution::Window;
use super::{Additions, Memory, Recurrent, kept, steps_of_tree};
use crate::cpu::decoder::CpuDecoder;
use crate::cpu::projection::{project, project_each};
use crate::description::config::{DeltaNet, Mamba, Mixer};
use crate::description::parts::{ConvolutionParts, DeltaNetParts, MambaParts, MixerParts, Taps};
use crate::language_model::Batch;

/// The memory of layers with a state.
#[derive(Debug, Default)]
pub(in crate::cpu) struct RecurrentWork {
    input: Vec<f32>,
    gate: Vec<f32>,
    strength: Vec<f32>,
    rate: Vec<f32>,
    mixed: Vec<f32>,
    convolved: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    decay: Vec<f32>,
    added: Vec<f32>,
    out: Vec<f32>,
}

/// A text in a pass: its states, the number of tokens before, and those that it reads.
pub(in crate::cpu) struct StatefulText<'a> {
    pub(in crate::cpu) recurrent: &'a mut Recurrent,
    pub(in crate::cpu) length: usize,
    pub(in crate::cpu) batch: Batch<'a>,
}

/// Computes a layer with a state: from the rows `x` of all texts to `y`.
pub(in crate::cpu) fn mix(
    decoder: &CpuDecoder,
    layer: usize,
    (mixer, parts): (&Mixer, &MixerParts),
    texts: &mut [StatefulText<'_>],
    x: &[f32],
    work: &mut RecurrentWork,
    y: &mut Vec<f32>,
) {
    let mut of = Layer { decoder, layer, texts };
    match (mixer, parts) {
        (Mixer::Convolution(_), MixerParts::Convolution(parts)) => of.convolution(parts, x, work, y),
        (Mixer::DeltaNet(shape), MixerParts::DeltaNet(parts)) => of.delta_net(shape, parts, x, work, y),
        (Mixer::Mamba(shape), MixerParts::Mamba(parts)) => of.mamba(shape, parts, x, work, y),
        _ => unreachable!("the weights are those of the description"),
    }
}

/// A layer in a pass.
struct Layer<'a, 'b> {
    decoder: &'a CpuDecoder,
    layer: usize,
    texts: &'a mut [StatefulText<'b>],
}

impl Layer<'_, '_> {
    /// Calls `run` with the memory and the batch of each text, and the index of its first row.
    fn each(&mut self, mut run: impl FnMut(&mut Memory, &Batch<'_>, usize)) {
        let mut at = 0;
        for StatefulText { recurrent, length, batch } in &mut *self.texts {
            run(recurrent.at(self.layer, *length), batch, at);
            at += batch.tokens.len();
        }
    }

    fn convolution(&mut self, parts: &ConvolutionParts, x: &[f32], own: &mut RecurrentWork, y: &mut Vec<f32>) {
        let width = self.decoder.config.width;
        project(x, &parts.input, &mut own.input);
        own.mixed.clear();
        for row in own.input.chunks(3 * width) {
            own.mixed.extend(row[..width].iter().zip(&row[2 * width..]).map(|(b, u)| b * u));
        }
        let RecurrentWork { input, mixed, convolved, .. } = own;
        self.each(|memory, batch, at| {
            let m = batch.tokens.len();
            let rows = &mut mixed[at * width..(at + m) * width];
            memory.convolve(&parts.taps, rows, batch.parents, convolved);
            memory.move_to(rows, m - kept(batch), batch);
            let gates = input[at * 3 * width..].chunks(3 * width);
            for ((row, out), gates) in rows.chunks_mut(width).zip(convolved.chunks(width)).zip(gates) {
                let gate = &gates[width..2 * width];
                row.iter_mut().zip(out.iter().zip(gate)).for_each(|(row, (out, gate))| *row = out * gate);
            }
        });
        project(mixed, &parts.output, y);
    }

    fn delta_net(
        &mut self,
        shape: &DeltaNet,
        parts: &DeltaNetParts,
        x: &[f32],
        own: &mut RecurrentWork,
        y: &mut Vec<f32>,
    ) {
        let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = shape.heads;
        let (columns, keys, values) = (shape.columns(), key_heads * key_dim, heads * value_dim);
        let RecurrentWork { input, gate, strength, rate, mixed, .. } = own;
        let four = [(&parts.input, input), (&parts.gate, gate), (&parts.strength, strength), (&parts.rate, rate)];
        project_each(x, self.decoder.config.width, four);
        own.strength.iter_mut().for_each(|x| *x = 1.0 / (1.0 + libm::expf(-*x)));
        for row in own.rate.chunks_mut(heads) {
            for ((x, bias), decay) in row.iter_mut().zip(&parts.rate_bias).zip(&parts.decay) {
                *x = libm::expf(decay * softplus(*x + bias));
            }
        }
        mixed.resize(own.strength.len() * value_dim, 0.0);
        // The root of the sum of squares, from that of their mean.
        let weights = [1.0 / key_dim as f32, 1.0 / (key_dim as f32).sqrt()].map(|weight| vec![weight; key_dim]);
        let epsilon = 1e-6 / key_dim as f32;
        let RecurrentWork { input, strength, rate, mixed, convolved, query, key, value, .. } = own;
        self.each(|memory, batch, at| {
            let m = batch.tokens.len();
            let rows = &input[at * columns..(at + m) * columns];
            memory.convolve(&parts.taps, rows, batch.parents, convolved);
            activate(Activation::Silu, convolved, None);
            let part = |from: usize, count: usize, to: &mut Vec<f32>| some_columns(convolved, columns, from, count, to);
            for (from, weight, to) in [(0, &weights[0], &mut *query), (keys, &weights[1], &mut *key)] {
                part(from, keys, value);
                to.resize(value.len(), 0.0);
                rms_norm(value, weight, epsilon, to);
            }
            part(2 * keys, values, value);
            let of_heads = at * heads..(at + m) * heads;
            let tokens = Tokens {
                key,
                decay: &rate[of_heads.clone()],
                readout: Readout { query, value, strength: &strength[of_heads] },
            };
            let out = memory.run(&tokens, rows, batch, &mut own.added, &mut own.out);
            out.write(&mut mixed[at * values..(at + m) * values]);
        });
        convolved.resize(mixed.len(), 0.0);
        rms_norm(mixed, &parts.norm, self.decoder.epsilon(), convolved);
        activate(Activation::Silu, &mut own.gate, Some(convolved));
        project(&own.gate, &parts.output, y);
    }

    fn mamba(&mut self, shape: &Mamba, parts: &MambaParts, x: &[f32], own: &mut RecurrentWork, y: &mut Vec<f32>) {
        let RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = shape.heads;
        let (columns, keys, values) = (shape.columns(), key_heads * key_dim, heads * value_dim);
        project(x, &parts.input, &mut own.input);
        let row = values + columns + heads;
        let m = own.input.len() / row;
        own.gate.clear();
        own.value.clear();
        own.strength.clear();
        own.decay.clear();
        for row in own.input.chunks(row) {
            own.gate.extend_from_slice(&row[..values]);
            own.value.extend_from_slice(&row[values..values + columns]);
            for ((x, bias), decay) in row[values + columns..].iter().zip(&parts.rate_bias).zip(&parts.decay) {
                let step = softplus(x + bias);
                own.strength.push(step);
                own.decay.push(libm::expf(decay * step));
            }
        }
        std::mem::swap(&mut own.input, &mut own.value);
        own.mixed.resize(m * values, 0.0);
        let RecurrentWork { input, strength, decay, mixed, convolved, query, key, value, added, out, .. } = own;
        self.each(|memory, batch, at| {
            let m = batch.tokens.len();
            let rows = &input[at * columns..(at + m) * columns];
            memory.convolve(&parts.taps, rows, batch.parents, convolved);
            activate(Activation::Silu, convolved, None);
            let part = |from: usize, count: usize, to: &mut Vec<f32>| some_columns(convolved, columns, from, count, to);
            part(0, values, value);
            part(values, keys, key);
            part(values + keys, keys, query);
            let of_heads = at * heads..(at + m) * heads;
            let tokens = Tokens {
                key,
                decay: &decay[of_heads.clone()],
                readout: Readout { query, value, strength: &strength[of_heads] },
            };
            let to = &mut mixed[at * values..(at + m) * values];
            memory.run(&tokens, rows, batch, added, out).write(to);
            let of_heads = to.chunks_mut(value_dim).zip(value.chunks(value_dim)).zip(parts.skip.iter().cycle());
            for ((out, input), skip) in of_heads {
                out.iter_mut().zip(input).for_each(|(out, input)| *out += skip * input);
            }
        });
        activate(Activation::Silu, &mut own.gate, Some(&own.mixed));
        let group = values / key_heads;
        own.mixed.resize(own.gate.len(), 0.0);
        let groups = own.gate.chunks(group).zip(own.mixed.chunks_mut(group)).enumerate();
        for (i, (gated, out)) in groups {
            let weight = &parts.norm[i % key_heads * group..][..group];
            rms_norm(gated, weight, self.decoder.epsilon(), out);
        }
        project(&own.mixed, &parts.output, y);
    }
}

/// The logarithm of `1 + e^x`.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { libm::log1pf(libm::expf(x)) }
}

/// Some consecutive columns of rows.
fn some_columns(rows: &[f32], columns: usize, from: usize, count: usize, to: &mut Vec<f32>) {
    to.clear();
    rows.chunks(columns).for_each(|row| to.extend_from_slice(&row[from..from + count]));
}

/// The inputs of the recurrence of some tokens.
struct Tokens<'a> {
    key: &'a [f32],
    decay: &'a [f32],
    readout: Readout<'a>,
}

/// The outputs of the recurrence, in two parts: `heads x m x value_dim` each.
struct Outputs<'a> {
    parts: [(&'a [f32], usize); 2],
    heads: RecurrentHeads,
}

impl Outputs<'_> {
    /// Writes them as `m x heads x value_dim`.
    fn write(&self, to: &mut [f32]) {
        let RecurrentHeads { heads, value_dim, .. } = self.heads;
        let mut at = 0;
        for (part, m) in self.parts {
            for t in 0..m {
                for head in 0..heads {
                    to[((at + t) * heads + head) * value_dim..][..value_dim]
                        .copy_from_slice(&part[(head * m + t) * value_dim..][..value_dim]);
                }
            }
            at += m;
        }
    }
}

impl Memory {
    /// The convolution of the rows of a batch after `base`.
    fn convolve(&self, taps: &Taps, rows: &[f32], parents: Option<&[Option<usize>]>, out: &mut Vec<f32>) {
        let window = Window { history: &self.base.history, rows, columns: self.shape.columns };
        window.convolve(taps, parents, out);
    }

    /// Takes `base` to the kept tokens of a batch and `now` past them, and keeps what those add.
    fn run<'a>(
        &mut self,
        tokens: &Tokens<'_>,
        rows: &[f32],
        batch: &Batch<'_>,
        added: &mut Vec<f32>,
        out: &'a mut Vec<f32>,
    ) -> Outputs<'a> {
        let (heads, is_delta) = self.shape.heads.expect("heads with a state");
        let RecurrentHeads { heads: count, key_heads, key_dim, value_dim, .. } = heads;
        let (m, later) = (batch.tokens.len(), kept(batch));
        let first = m - later;
        let numbers = count * value_dim;
        out.resize(m * numbers, 0.0);
        let (out_of_first, out_of_later) = out.split_at_mut(first * numbers);
        let some = |from: usize, to: usize| {
            let Tokens { key, decay, readout: Readout { query, value, strength } } = tokens;
            let (keys, of_heads) = (key_heads * key_dim, from * count..to * count);
            let of = Recurrence { heads, is_delta, key: &key[from * keys..to * keys], decay: &decay[of_heads.clone()] };
            let query = &query[from * keys..to * keys];
            let value = &value[from * numbers..to * numbers];
            (of, Readout { query, value, strength: &strength[of_heads] })
        };
        if first > 0 {
            let (of, readout) = some(0, first);
            let steps: Vec<Step> = (0..first).map(Step::Run).collect();
            added.resize(first * numbers, 0.0);
            let base = Arc::make_mut(&mut self.base);
            recur(&of, Some(&readout), &steps, &[], &mut base.matrices, added, out_of_first);
        }
        let (of, readout) = some(first, m);
        let steps = match batch.parents {
            Some(parents) => steps_of_tree(parents),
            None => std::iter::once(Step::Restart).chain((0..later).map(Step::Run)).collect(),
        };
        self.move_to(rows, first, batch);
        let now = &mut Arc::get_mut(&mut self.now).expect("an own state").matrices;
        let Additions { key, decay, added, .. } = &mut self.additions;
        key.clear();
        key.extend_from_slice(of.key);
        decay.clear();
        decay.extend_from_slice(of.decay);
        added.resize(out_of_later.len(), 0.0);
        recur(&of, Some(&readout), &steps, &self.base.matrices, now, added, out_of_later);
        Outputs { parts: [(out_of_first, first), (out_of_later, later)], heads }
    }

    /// Keeps the rows of the tokens from `first` on, and takes the histories of `base` before them and of `now` past
    /// them.
    fn move_to(&mut self, rows: &[f32], first: usize, batch: &Batch<'_>) {
        let Self { shape, base, now, additions } = self;
        let columns = shape.columns;
        if first > 0 {
            let history = Window { history: &base.history, rows, columns }.history_after(0..first);
            Arc::make_mut(base).history = history;
        }
        if Arc::get_mut(now).is_none_or(|now| !shape.fits(now)) {
            *now = Arc::new(shape.zero());
        }
        let later = &rows[first * columns..];
        additions.rows.clear();
        additions.rows.extend_from_slice(later);
        if batch.parents.is_none() {
            let window = Window { history: &base.history, rows: later, columns };
            Arc::get_mut(now).expect("an own state").history = window.history_after(0..later.len() / columns);
        }
    }
}
