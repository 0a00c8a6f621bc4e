//! What calls of a model and drafts cost, in seconds.

use std::sync::Arc;
use std::time::Instant;

use verdigris::models::{Batch, DraftHead, LanguageModel, Rows, Wanted};

use crate::error::Failure;
use crate::model::DraftSource;

/// The most rows of one call that are timed.
const MAX_ROWS: usize = 17;

/// `v(1 + drafts)` for a number of drafts that is no whole one.
pub(super) fn between(v: &[f64], drafts: f64) -> f64 {
    let below = (drafts as usize).min(v.len() - 2);
    v[below] + (v[below + 1] - v[below]) * (drafts - below as f64)
}

/// The median of the seconds that work takes.
fn median(mut work: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    const ROUNDS: usize = 41;
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        work()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[ROUNDS / 2])
}

/// The seconds of a drafted token.
pub(super) fn source_cost(source: &DraftSource) -> Result<f64, Failure> {
    match source {
        DraftSource::Model(engine) => Ok(call_costs(engine.model())?.0),
        DraftSource::Head(DraftHead::Feature(model)) => {
            let (mut sequence, mut rows) = (model.begin(128)?, Rows::with_hidden());
            let feature = vec![0.1; model.hidden_size()];
            sequence.forward(&Batch::chain(&[0; 100], Wanted::Last), &feature.repeat(100), &mut rows)?;
            median(|| {
                sequence.forward(&Batch::chain(&[0], Wanted::Last), &feature, &mut rows)?;
                sequence.truncate(100);
                Ok(())
            })
        }
        DraftSource::Head(DraftHead::Medusa(heads)) => {
            let (hidden, mut rows) = (vec![0.1; heads.hidden_size()], Rows::default());
            let all = median(|| {
                heads.guess(&hidden, heads.count(), &mut rows);
                Ok(())
            })?;
            Ok(all / heads.count() as f64)
        }
    }
}

/// The seconds of a call with one row, and the cost of calls with 1, 2, ... rows as its multiples: medians over
/// rounds in which each number of rows has its turn.
pub(super) fn call_costs(model: &Arc<dyn LanguageModel>) -> Result<(f64, Vec<f64>), Failure> {
    const HELD: usize = 100;
    const ROUNDS: usize = 41;
    let tokens: Vec<u32> = (0..(HELD + MAX_ROWS) as u32).map(|i| i % model.vocabulary_size() as u32).collect();
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
    let medians: Vec<f64> = times
        .iter_mut()
        .map(|times| {
            times.sort_by(f64::total_cmp);
            times[ROUNDS / 2]
        })
        .collect();
    Ok((medians[0], medians.iter().map(|time| time / medians[0]).collect()))
}
