//! Embeddings of which every layer reads a part.

use std::f32::consts::FRAC_1_SQRT_2;
use std::ops::Range;

use verdigris_kernels::activate;

use super::decoder::CpuDecoder;
use super::projection::project;
use crate::description::config::PerLayer;
use crate::description::parts::PerLayerParts;
use crate::slices::keep_rows;

/// The numbers from which each layer computes its addition to the residual stream. The memory is reused.
#[derive(Debug, Default)]
pub(super) struct PerLayerInputs {
    /// Each token's parts for all layers: `m x layers x width`.
    all: Vec<f32>,
    /// The part of one layer: `m x width`.
    own: Vec<f32>,
    x: Vec<f32>,
    y: Vec<f32>,
    normed: Vec<f32>,
}

impl PerLayerInputs {
    /// Computes the parts of all layers, from the tokens and the first residual stream.
    pub(super) fn begin<'a>(
        &mut self,
        decoder: &CpuDecoder,
        (of, parts): (&PerLayer, &PerLayerParts),
        tokens: impl Iterator<Item = &'a u32>,
        h: &[f32],
    ) {
        let Self { all, x, y, .. } = self;
        project(h, &parts.projection, y);
        let scale = 1.0 / (decoder.config.width as f32).sqrt();
        y.iter_mut().for_each(|y| *y *= scale);
        decoder.normalize(y, &parts.norm, all);
        x.resize(parts.embedding.columns(), 0.0);
        let scale = (of.width as f32).sqrt();
        for (row, &token) in all.chunks_mut(x.len()).zip(tokens) {
            let token = token as usize;
            parts.embedding.decode(if token < of.vocabulary { token } else { 0 }, x);
            row.iter_mut().zip(&*x).for_each(|(all, x)| *all = (*all + x * scale) * FRAC_1_SQRT_2);
        }
    }

    /// Keeps the parts of some tokens, which are `columns` numbers each.
    pub(super) fn keep(&mut self, columns: usize, tokens: &[Range<usize>]) {
        keep_rows(&mut self.all, columns, tokens);
    }

    /// The addition to the residual stream `h` in one layer.
    pub(super) fn compute(
        &mut self,
        decoder: &CpuDecoder,
        (of, parts): (&PerLayer, &PerLayerParts),
        layer: usize,
        h: &[f32],
    ) -> &[f32] {
        let Self { all, own, x, y, normed } = self;
        own.clear();
        for row in all.chunks(parts.embedding.columns()) {
            own.extend_from_slice(&row[layer * of.width..][..of.width]);
        }
        let parts = &parts.layers[layer];
        project(h, &parts.gate, x);
        activate(of.activation, x, Some(own));
        project(x, &parts.projection, y);
        decoder.normalize(y, &parts.norm, normed);
        normed
    }
}
