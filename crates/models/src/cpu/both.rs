//! The sum of a network and a mixture of experts.

use super::decoder::CpuDecoder;
use super::feed_forward::{Experts, feed_forward};
use crate::description::config::Both;
use crate::description::parts::BothParts;

/// The memory of both parts.
#[derive(Debug, Default)]
pub(super) struct BothMemory {
    experts: Experts,
    gate: Vec<f32>,
    up: Vec<f32>,
    dense: Vec<f32>,
    normed: Vec<f32>,
}

impl BothMemory {
    /// Computes a network from the rows `x` and a mixture from the residual stream `h`: their sum is `y`.
    pub(super) fn compute(
        &mut self,
        decoder: &CpuDecoder,
        (of, parts): (&Both, &BothParts),
        h: &[f32],
        x: &[f32],
        y: &mut Vec<f32>,
    ) {
        let Self { experts, gate, up, dense, normed } = self;
        feed_forward(&of.dense, &parts.dense, x, gate, up, y);
        decoder.normalize(y, &parts.after_dense, dense);
        decoder.normalize(h, &parts.router_norm, normed);
        experts.route(&of.mixture, &parts.mixture, normed);
        decoder.normalize(h, &parts.mixture_norm, normed);
        experts.mix(&of.mixture, &parts.mixture, normed, y);
        decoder.normalize(y, &parts.after_mixture, normed);
        y.iter_mut().zip(&*dense).zip(&*normed).for_each(|((y, dense), mixed)| *y = dense + mixed);
    }
}
