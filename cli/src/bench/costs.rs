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

/// The number of times each call is timed.
const ROUNDS: usize = 41;

/// The number of calls with the same rows before those that are timed, and of those that are timed then.
const UNTIMED: usize = 4;
const TIMED: usize = 6;

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The number of tokens in a sequence before a timed call: `held`, or those that fit into the context.
fn fitting(held: usize, context: usize) -> usize {
    held.min(context.saturating_sub(MAX_ROWS)).max(1)
}

/// The tokens of a text.
fn tokens(count: usize, model: &Arc<dyn LanguageModel>) -> Vec<u32> {
    (0..count as u32).map(|i| i % model.vocabulary_size() as u32).collect()
}

/// The median time of drafting in seconds. Each time is measured after a call of the target, which reads all its
/// weights, so that those of the drafter come from memory again.
fn after_calls(
    target: &Arc<dyn LanguageModel>,
    held: usize,
    mut draft: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let held = fitting(held, target.context_length());
    let (mut sequence, mut rows) = (target.clone().begin(held + 1)?, Rows::default());
    sequence.forward(&Batch::chain(&tokens(held, target), Wanted::Last), &mut rows)?;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        sequence.forward(&Batch::chain(&[0], Wanted::Last), &mut rows)?;
        sequence.truncate(held);
        let begun = Instant::now();
        draft()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}

/// The cost of a drafted token in seconds, where tokens are drafted after each call of the target, in texts of `held`
/// tokens.
pub(super) fn source_cost(source: &DraftSource, target: &Arc<dyn LanguageModel>, held: usize) -> Result<f64, Failure> {
    let mut rows = Rows::with_hidden();
    match source {
        DraftSource::Model(engine) => {
            let model = engine.model();
            let own = fitting(held, model.context_length());
            let mut sequence = model.clone().begin(own + DRAFTS)?;
            sequence.forward(&Batch::chain(&tokens(own, model), Wanted::Last), &mut rows)?;
            let all = after_calls(target, held, || {
                (0..DRAFTS).try_for_each(|_| sequence.forward(&Batch::chain(&[0], Wanted::Last), &mut rows))?;
                sequence.truncate(own);
                Ok(())
            })?;
            Ok(all / DRAFTS as f64)
        }
        DraftSource::Head(DraftHead::Feature(model)) => {
            let own = fitting(held, model.context_length());
            let mut sequence = model.begin(own + DRAFTS)?;
            let feature = vec![0.1; model.hidden_size()];
            sequence.forward(&Batch::chain(&vec![0; own], Wanted::Last), &feature.repeat(own), &mut rows)?;
            let all = after_calls(target, held, || {
                let mut one = || sequence.forward(&Batch::chain(&[0], Wanted::Last), &feature, &mut rows);
                (0..DRAFTS).try_for_each(|_| one())?;
                sequence.truncate(own);
                Ok(())
            })?;
            Ok(all / DRAFTS as f64)
        }
        DraftSource::Head(DraftHead::Medusa(heads)) => {
            let hidden = vec![0.1; heads.hidden_size()];
            let all = after_calls(target, held, || {
                heads.guess(&hidden, heads.count(), &mut rows);
                Ok(())
            })?;
            Ok(all / heads.count() as f64)
        }
        DraftSource::Head(DraftHead::Block(model)) => {
            let (room, states) = (model.count() + 1, vec![0.1; model.layers().len() * model.hidden_size()]);
            let own = fitting(held, model.context_length().saturating_sub(room));
            let mut sequence = model.begin(own + room)?;
            sequence.read(&states.repeat(own))?;
            let all = after_calls(target, held, || Ok(sequence.guess(0, &mut rows)?))?;
            Ok(all / model.count() as f64)
        }
        DraftSource::Head(DraftHead::Assistant(model)) => {
            let own = fitting(held, model.context_length().saturating_sub(1));
            let mut sequence = model.begin(own + 1)?;
            let states = vec![0.1; model.layers().len() * model.hidden_size()];
            sequence.read(&states.repeat(own))?;
            let state = vec![0.1; model.hidden_size()];
            let (mut logits, mut next) = (Vec::new(), Vec::new());
            let all = after_calls(target, held, || {
                let mut one = || sequence.guess(&[0], &state, &mut logits, &mut next);
                Ok((0..DRAFTS).try_for_each(|_| one())?)
            })?;
            Ok(all / DRAFTS as f64)
        }
    }
}

/// The cost in seconds of a token that an expert of a steered model drafts: the extra time it takes to read drafts one
/// by one instead of together with the text.
pub(super) fn expert_cost(expert: &Arc<dyn LanguageModel>, held: usize) -> Result<f64, Failure> {
    let (one, v) = call_costs(expert, held)?;
    Ok(one * (1.0 - (v[DRAFTS] - 1.0) / DRAFTS as f64))
}

/// The time of a call with one row in seconds, and the times of calls with 1, 2, ... rows as multiples of it: medians
/// over rounds, each of which times every number of rows, several calls after another. Calls with more rows make the
/// processor slower for a while, also for the next call: right after one with 16 rows, one row takes up to 1.4 times as
/// long as after others with one row. The text has `held` tokens, since each row attends to them.
pub(super) fn call_costs(model: &Arc<dyn LanguageModel>, held: usize) -> Result<(f64, Vec<f64>), Failure> {
    let held = fitting(held, model.context_length());
    let tokens = tokens(held + MAX_ROWS, model);
    let (mut sequence, mut rows) = (model.clone().begin(tokens.len())?, Rows::default());
    sequence.forward(&Batch::chain(&tokens[..held], Wanted::Last), &mut rows)?;
    let mut times = vec![Vec::new(); MAX_ROWS];
    for _ in 0..ROUNDS.div_ceil(TIMED) {
        for (m, times) in (1..).zip(&mut times) {
            for call in 0..UNTIMED + TIMED {
                let begun = Instant::now();
                sequence.forward(&Batch::chain(&tokens[held..held + m], Wanted::All), &mut rows)?;
                let seconds = begun.elapsed().as_secs_f64();
                if call >= UNTIMED {
                    times.push(seconds);
                }
                sequence.truncate(held);
            }
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    Ok((medians[0], medians.iter().map(|time| time / medians[0]).collect()))
}
