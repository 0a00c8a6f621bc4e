//! Several residual streams, of which a layer computes one (alternating updates: Baykal et al. 2023), and a projection
//! of low rank past attention (learned augmented residual layers: Menghani et al. 2024).

use std::f32::consts::FRAC_1_SQRT_2;
use std::ops::Range;

use super::decoder::CpuDecoder;
use super::projection::project;
use crate::description::config::Alternating;
use crate::description::parts::{AlternatingPart, AlternatingParts, Projection};
use crate::slices::keep_rows;

/// The least mean square of a stream that is brought to the magnitude of another.
const LEAST_SQUARE: f32 = 1e-5;

/// The streams of a pass. The memory is reused.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Each stream: `m x hidden size`.
    all: Vec<Vec<f32>>,
    /// The streams as predicted before a layer.
    predicted: Vec<Vec<f32>>,
    /// The result past attention.
    past: Vec<f32>,
    x: Vec<f32>,
    modes: Vec<f32>,
    coefficients: Vec<f32>,
}

impl Streams {
    /// Begins all streams from the first residual stream.
    pub(super) fn begin(&mut self, width: usize, of: &Alternating, parts: &AlternatingParts, h: &[f32]) {
        self.all.resize(of.streams, Vec::new());
        self.predicted.resize(of.streams, Vec::new());
        self.all[0].clear();
        self.all[0].extend_from_slice(h);
        for (stream, projection) in self.all[1..].iter_mut().zip(&parts.into) {
            like(h, projection, h, width, stream);
        }
    }

    /// Predicts all streams. `h` becomes the prediction of the one that the layer computes.
    pub(super) fn predict(&mut self, decoder: &CpuDecoder, of: &Alternating, part: &AlternatingPart, h: &mut Vec<f32>) {
        let Self { all, predicted, x, modes, coefficients, .. } = self;
        modes_of(decoder, part, &all[of.active], x, modes);
        project(modes, &part.prediction, coefficients);
        let (width, n) = (decoder.config.width, of.streams);
        for (to, predicted) in predicted.iter_mut().enumerate() {
            predicted.clone_from(&all[to]);
            for (row, (predicted, coefficients)) in
                predicted.chunks_mut(width).zip(coefficients.chunks(n * n)).enumerate()
            {
                for (stream, coefficient) in all.iter().zip(&coefficients[to * n..][..n]) {
                    let stream = &stream[row * width..][..width];
                    predicted.iter_mut().zip(stream).for_each(|(predicted, x)| *predicted += coefficient * x);
                }
            }
        }
        h.clone_from(&predicted[of.active]);
    }

    /// Computes the result past attention from its normalised input.
    pub(super) fn pass_by(&mut self, decoder: &CpuDecoder, part: &AlternatingPart, x: &[f32]) {
        let Self { past, modes, coefficients, .. } = self;
        project(x, &part.left, modes);
        project(modes, &part.right, coefficients);
        decoder.normalize(coefficients, &part.past_norm, past);
        past.iter_mut().zip(x).for_each(|(past, x)| *past += x);
    }

    /// Adds it to the residual stream after attention.
    pub(super) fn join(&self, h: &mut [f32]) {
        h.iter_mut().zip(&self.past).for_each(|(h, past)| *h = (*h + past) * FRAC_1_SQRT_2);
    }

    /// Corrects all predictions by the result of the layer. `to` becomes the input of the layer's part of the second
    /// embedding.
    pub(super) fn correct(
        &mut self,
        decoder: &CpuDecoder,
        of: &Alternating,
        part: &AlternatingPart,
        h: &[f32],
        to: &mut Vec<f32>,
    ) {
        let Self { all, predicted, x, modes, coefficients, .. } = self;
        modes_of(decoder, part, h, x, modes);
        project(modes, &part.correction, coefficients);
        let width = decoder.config.width;
        for (i, (stream, own)) in all.iter_mut().zip(&*predicted).enumerate() {
            stream.clone_from(own);
            let active = h.chunks(width).zip(predicted[of.active].chunks(width));
            for ((stream, (h, active)), coefficients) in
                stream.chunks_mut(width).zip(active).zip(coefficients.chunks(of.streams))
            {
                let coefficient = coefficients[i] + 1.0;
                stream.iter_mut().zip(h).zip(active).for_each(|((x, h), active)| *x += (h - active) * coefficient);
            }
        }
        to.clone_from(&all[of.active]);
        if let Some(scale) = &part.scale {
            to.chunks_mut(width).for_each(|row| row.iter_mut().zip(scale).for_each(|(x, scale)| *x *= scale));
        }
    }

    /// Adds rows to all streams but the first.
    pub(super) fn add(&mut self, y: &[f32]) {
        self.all[1..].iter_mut().for_each(|stream| stream.iter_mut().zip(y).for_each(|(x, y)| *x += y));
    }

    /// Writes the mean of all streams to `h`.
    pub(super) fn end(&mut self, width: usize, parts: &AlternatingParts, h: &mut Vec<f32>) {
        let Self { all, x, .. } = self;
        h.clone_from(&all[0]);
        for (stream, projection) in all[1..].iter().zip(&parts.out) {
            like(&all[0], projection, stream, width, x);
            h.iter_mut().zip(&*x).for_each(|(h, x)| *h += x);
        }
        let share = 1.0 / all.len() as f32;
        h.iter_mut().for_each(|h| *h *= share);
    }

    /// Keeps the rows of some tokens.
    pub(super) fn keep(&mut self, width: usize, tokens: &[Range<usize>]) {
        self.all.iter_mut().for_each(|stream| keep_rows(stream, width, tokens));
    }
}

/// The numbers from which the coefficients of streams are computed.
fn modes_of(decoder: &CpuDecoder, part: &AlternatingPart, of: &[f32], x: &mut Vec<f32>, modes: &mut Vec<f32>) {
    decoder.normalize(of, &part.router_norm, x);
    project(x, &part.router, modes);
    modes.iter_mut().for_each(|mode| *mode = libm::tanhf(*mode));
}

/// Writes the products of rows, each with the magnitude of its row in `model`.
fn like(model: &[f32], projection: &Projection, x: &[f32], width: usize, out: &mut Vec<f32>) {
    project(x, projection, out);
    let square = |row: &[f32]| row.iter().map(|x| x * x).sum::<f32>() / width as f32;
    for (row, model) in out.chunks_mut(width).zip(model.chunks(width)) {
        let scale = square(model).sqrt() / square(row).max(LEAST_SQUARE).sqrt();
        row.iter_mut().for_each(|x| *x *= scale);
    }
}
