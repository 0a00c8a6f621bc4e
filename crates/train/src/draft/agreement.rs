//! The agreement of guesses with the target's distribution, and the loss that increases it.
//!
//! Both are distributions of the next token over the draft vocabulary. The loss is the cross-entropy `-sum p ln q`,
//! where `p` is the target's. Its gradient with respect to the logits of a guess is `q - p`, so nothing of the size of
//! positions times vocabulary has to be kept for the backward pass: it is computed for some positions at a time, and
//! candle only sees a sum with the same gradient.

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops::{log_softmax, softmax_last_dim};
use rayon::prelude::*;
use serde::Serialize;

use super::head::{Guess, Guesses};

/// The number of positions whose distributions are computed at a time.
const PLACES: usize = 128;

/// The agreement of guesses with the target's distribution: for each step of a draft, or each head, the nearest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The cross-entropy with the target's distribution, in nats per token.
    pub loss: Vec<f64>,
    /// The share of positions where the likeliest token is the target's: that of drafts accepted at temperature 0.
    pub same: Vec<f64>,
    /// The mean of `sum min(p, q)`: the share of drafts accepted at temperature 1 (Leviathan, Kalman and Matias, *Fast
    /// Inference from Transformers via Speculative Decoding*, 2023, corollary 3.6).
    pub overlap: Vec<f64>,
}

impl Agreement {
    pub(super) fn of(all: &[Sums]) -> Self {
        let mean = |sum: fn(&Sums) -> f64| all.iter().map(|all| sum(all) / all.places.max(1.0)).collect();
        Self { loss: mean(|all| all.loss), same: mean(|all| all.same), overlap: mean(|all| all.overlap) }
    }
}

/// Sums over the positions of one guess.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    places: f64,
    loss: f64,
    same: f64,
    overlap: f64,
}

impl Sums {
    pub(super) fn add(&mut self, more: &Self) {
        self.places += more.places;
        self.loss += more.loss;
        self.same += more.same;
        self.overlap += more.overlap;
    }
}

/// Gradients of a sum of losses.
struct Slopes {
    /// `positions x width`.
    states: Tensor,
    /// For a separate output matrix: `draft vocabulary x width`.
    output: Option<Tensor>,
}

/// Compares guesses with the target's distribution.
pub(super) struct Judge {
    /// Rows of the target's output matrix for the draft vocabulary: `draft vocabulary x width`.
    pub(super) output: Tensor,
    /// The cap of the target's logits, [`DecoderConfig::logit_cap`](verdigris_models::DecoderConfig::logit_cap).
    pub(super) cap: Option<f64>,
}

impl Judge {
    /// The sum of the mean losses of all guesses, each weighted by its distance: a scalar with gradients.
    pub(super) fn loss(&self, guesses: &Guesses, weight: impl Fn(usize) -> f64) -> Result<Tensor> {
        let (sums, slopes) = self.judged(guesses, true)?;
        let mut total = Tensor::zeros((), guesses.target.dtype(), &Device::Cpu)?;
        for (further, ((guess, sums), slopes)) in guesses.each.iter().zip(&sums).zip(slopes).enumerate() {
            let mut slope = (&guess.states * slopes.states)?.sum_all()?;
            if let (Some(output), Some(of_output)) = (&guess.output, slopes.output) {
                slope = (slope + (output * of_output)?.sum_all()?)?;
            }
            let weight = weight(further) / sums.places.max(1.0);
            // The gradient of the former, the value of the latter.
            total = (total + (&slope - slope.detach())?.affine(weight, weight * sums.loss)?)?;
        }
        Ok(total)
    }

    /// The agreement of each guess, summed over its positions.
    pub(super) fn sums(&self, guesses: &Guesses) -> Result<Vec<Sums>> {
        Ok(self.judged(guesses, false)?.0)
    }

    fn judged(&self, guesses: &Guesses, with_slopes: bool) -> Result<(Vec<Sums>, Vec<Slopes>)> {
        let places = guesses.target.dim(0)?;
        let starts: Vec<usize> = (0..places).step_by(PLACES).collect();
        let parts: Vec<Vec<(Sums, Option<Slopes>)>> = starts
            .into_par_iter()
            .map(|start| self.part(guesses, start, PLACES.min(places - start), with_slopes))
            .collect::<Result<_>>()?;
        let mut sums = vec![Sums::default(); guesses.each.len()];
        let mut slopes = Vec::new();
        for (i, sums) in sums.iter_mut().enumerate() {
            parts.iter().for_each(|part| sums.add(&part[i].0));
            let of_parts: Vec<&Slopes> = parts.iter().filter_map(|part| part[i].1.as_ref()).collect();
            if !of_parts.is_empty() {
                let states: Vec<&Tensor> = of_parts.iter().map(|slopes| &slopes.states).collect();
                let mut output = None;
                for part in of_parts.iter().filter_map(|slopes| slopes.output.as_ref()) {
                    output = Some(match output {
                        None => part.clone(),
                        Some(sum) => (sum + part)?,
                    });
                }
                slopes.push(Slopes { states: Tensor::cat(&states, 0)?, output });
            }
        }
        Ok((sums, slopes))
    }

    /// Compares each guess at some of the positions.
    fn part(
        &self,
        guesses: &Guesses,
        start: usize,
        length: usize,
        with_slopes: bool,
    ) -> Result<Vec<(Sums, Option<Slopes>)>> {
        let logits = |states: &Tensor, output: &Tensor, cap: Option<f64>| -> Result<Tensor> {
            let logits = states.matmul(&output.t()?)?;
            cap.map_or(Ok(logits.clone()), |cap| (logits / cap)?.tanh()? * cap)
        };
        let distribution =
            softmax_last_dim(&logits(&guesses.target.narrow(0, start, length)?, &self.output, self.cap)?)?;
        let likeliest = distribution.argmax(D::Minus1)?.to_vec1::<u32>()?;
        let cap = self.cap.filter(|_| guesses.capped);
        let judged = guesses.each.iter().map(|Guess { states, output, counts }| {
            let (states, counts) = (states.detach().narrow(0, start, length)?, &counts[start..start + length]);
            let rows = output.as_ref().map_or_else(|| self.output.clone(), Tensor::detach);
            let logits = logits(&states, &rows, cap)?;
            let logarithm = log_softmax(&logits, D::Minus1)?;
            let guess = logarithm.exp()?;
            let each = |x: Tensor| x.sum(D::Minus1)?.to_dtype(DType::F64)?.to_vec1::<f64>();
            let losses = each((&distribution * &logarithm)?.neg()?)?;
            let overlaps = each(distribution.minimum(&guess)?)?;
            let own_likeliest = guess.argmax(D::Minus1)?.to_vec1::<u32>()?;
            let mut sums = Sums::default();
            for i in (0..length).filter(|&i| counts[i]) {
                let same = f64::from(u8::from(own_likeliest[i] == likeliest[i]));
                sums.add(&Sums { places: 1.0, loss: losses[i], same, overlap: overlaps[i] });
            }
            if !with_slopes {
                return Ok((sums, None));
            }
            let counted: Vec<f64> = counts.iter().map(|&counts| f64::from(u8::from(counts))).collect();
            let counted = Tensor::from_vec(counted, (length, 1), &Device::Cpu)?.to_dtype(distribution.dtype())?;
            let mut slope = (guess - &distribution)?.broadcast_mul(&counted)?;
            if let Some(cap) = cap {
                slope = (slope * (1.0 - (logits / cap)?.sqr()?)?)?;
            }
            let of_output = output.as_ref().map(|_| slope.t()?.matmul(&states)).transpose()?;
            Ok((sums, Some(Slopes { states: slope.matmul(&rows)?, output: of_output })))
        });
        judged.collect()
    }
}
