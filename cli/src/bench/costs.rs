//! The cost of model calls and of drafts, in seconds.

use std::sync::Arc;
use std::time::Instant;

use verdigris::models::{Batch, DraftHead, LanguageModel, Rows, Wanted};

use crate::engine::DraftSource;
use crate::error::Failure;

/// The most rows of one call that are timed.
const MAX_ROWS: usize = 17;

/// Interpolates `v(1 + drafts)` for a fractional number of drafts.
pub(super) fn between(v: &[f64], drafts: f64) -> f64 {
    let below = (drafts as usize).min(v.len() - 2);
    v[below] + (v[below + 1] - v[below]) * (drafts - below as f64)
}

/// The number of tokens that are drafted in a row to measure their cost.
const DRAFTS: usize = 3;

/// The number of tokens in the sequence before a timed call.
const HELD: usize = 100;

/// The number of times each call is timed.
const ROUNDS: usize = 41;

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The tokens of a text.
fn tokens(count: usize, model: &Arc<dyn LanguageModel>) -> Vec<u32> {
    (0..count as u32).map(|i| i % model.vocabulary_size() as u32).collect()
}

/// The median time of drafting in seconds. Each time is measured after a call of the target, which reads all its
/// weights, so that those of the drafter come from memory again.
fn after_calls(
    target: &Arc<dyn LanguageModel>,
    mut draft: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let (mut sequence, mut rows) = (target.clone().begin(HELD + 1)?, Rows::default());
    sequence.forward(&Batch::chain(&tokens(HELD, target), Wanted::Last), &mut rows)?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        sequence.forward(&Batch::chain(&[0], Wanted::Last), &mut rows)?;
        sequence.truncate(HELD);
        let begun = Instant::now();
        draft()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// The cost of a drafted token in seconds, where tokens are drafted after each call of the target.
pub(super) fn source_cost(source: &DraftSource, target: &Arc<dyn LanguageModel>) -> Result<f64, Failure> {
    let mut rows = Rows::with_hidden();
    match source {
        DraftSource::Model(engine) => {
            let model = engine.model();
            let mut sequence = model.clone().begin(HELD + DRAFTS)?;
            sequence.forward(&Batch::chain(&tokens(HELD, model), Wanted::Last), &mut rows)?;
            let all = after_calls(target, || {
                (0..DRAFTS).try_for_each(|_| sequence.forward(&Batch::chain(&[0], Wanted::Last), &mut rows))?;
                sequence.truncate(HELD);
                Ok(())
            })?;
            Ok(all / DRAFTS as f64)
        }
        DraftSource::Head(DraftHead::Feature(model)) => {
            let mut sequence = model.begin(HELD + DRAFTS)?;
            let feature = vec![0.1; model.hidden_size()];
            sequence.forward(&Batch::chain(&[0; HELD], Wanted::Last), &feature.repeat(HELD), &mut rows)?;
            let all = after_calls(target, || {
                let mut one = || sequence.forward(&Batch::chain(&[0], Wanted::Last), &feature, &mut rows);
                (0..DRAFTS).try_for_each(|_| one())?;
                sequence.truncate(HELD);
                Ok(())
            })?;
            Ok(all / DRAFTS as f64)
        }
        DraftSource::Head(DraftHead::Medusa(heads)) => {
            let hidden = vec![0.1; heads.hidden_size()];
            let all = after_calls(target, || {
                heads.guess(&hidden, heads.count(), &mut rows);
                Ok(())
            })?;
            Ok(all / heads.count() as f64)
        }
    }
}

/// The cost in seconds of a token that an expert of a steered model drafts: the extra time it takes to read drafts one
/// by one instead of together with the text.
pub(super) fn expert_cost(expert: &Arc<dyn LanguageModel>) -> Result<f64, Failure> {
    let (one, v) = call_costs(expert)?;
    Ok(one * (1.0 - (v[DRAFTS] - 1.0) / DRAFTS as f64))
}

/// The time of a call with one row in seconds, and the times of calls with 1, 2, ... rows as multiples of it: medians
/// over rounds, each of which times every number of rows.
pub(super) fn call_costs(model: &Arc<dyn LanguageModel>) -> Result<(f64, Vec<f64>), Failure> {
    let tokens = tokens(HELD + MAX_ROWS, model);
    let (mut sequence, mut rows) = (model.clone().begin(tokens.len())?, Rows::default());
    sequence.forward(&Batch::chain(&tokens[..HELD], Wanted::Last), &mut rows)?;
    let mut times = vec![Vec::new(); MAX_ROWS];
    for _ in 0..ROUNDS {
        for (m, times) in (1..).zip(&mut times) {
            let begun = Instant::now();
            sequence.forward(&Batch::chain(&tokens[HELD..HELD + m], Wanted::All), &mut rows)?;
            times.push(begun.elapsed().as_secs_f64());
            sequence.truncate(HELD);
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    Ok((medians[0], medians.iter().map(|time| time / medians[0]).collect()))
}
