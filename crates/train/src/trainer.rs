//! The training loop, for any objective.

use std::collections::BTreeMap;
use std::time::Instant;

use candle_core::{Tensor, Var};

use crate::adamw::AdamW;
use crate::checkpoint::{Checkpoint, State};
use crate::error::TrainError;
use crate::schedule::learning_rate;

/// The weight of earlier losses in the smoothed loss.
const SMOOTHING: f64 = 0.95;

/// The number and the size of the steps of a run.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The maximum number of steps.
    pub count: u64,
    /// The maximum number of minutes, including earlier parts of an interrupted run.
    pub max_minutes: Option<f64>,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Steps of warm-up.
    pub warm_up: u64,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// The norm that gradients are clipped to.
    pub max_norm: f64,
    /// The seed for the data of each step, and for fresh weights.
    pub seed: u64,
    /// Minutes between checkpoints.
    pub checkpoint_minutes: f64,
    /// Steps between measurements on held-out data.
    pub heldout_every: u64,
}

impl Steps {
    /// Those that must be the same to resume a run.
    pub(crate) fn settings(&self) -> String {
        let Self { learning_rate, warm_up, weight_decay, max_norm, seed, .. } = self;
        format!(
            "seed {seed}, learning rate {learning_rate}, warm-up {warm_up}, weight decay {weight_decay}, clip {max_norm}"
        )
    }

    pub(crate) fn check(&self) -> Result<(), TrainError> {
        check("--steps", self.count as f64, self.count >= 1, "at least 1")?;
        let positive = |value: f64| value > 0.0 && value.is_finite();
        check("--learning-rate", self.learning_rate, positive(self.learning_rate), "above 0")?;
        check("--clip", self.max_norm, positive(self.max_norm), "above 0")?;
        check("--weight-decay", self.weight_decay, (0.0..=1.0).contains(&self.weight_decay), "0 to 1")?;
        if let Some(minutes) = self.max_minutes {
            check("--max-minutes", minutes, positive(minutes), "above 0")?;
        }
        let minutes = self.checkpoint_minutes;
        check("--checkpoint-minutes", minutes, positive(minutes), "above 0")?;
        check("--heldout-every", self.heldout_every as f64, self.heldout_every >= 1, "at least 1")
    }
}

/// An error for an option with an impossible value.
pub(crate) fn check(name: &'static str, value: f64, ok: bool, range: &'static str) -> Result<(), TrainError> {
    if ok { Ok(()) } else { Err(TrainError::Option { name, value, range }) }
}

/// The progress of a run after each step; `M` is the measurement on held-out data.
#[derive(Clone, Debug)]
pub struct Progress<M> {
    /// Steps done.
    pub step: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// The completed share of the run, 0 to 1.
    pub done: f64,
    /// The smoothed training loss, in nats.
    pub loss: f64,
    /// The learning rate of the step.
    pub learning_rate: f64,
    /// Tokens per second since the program was started.
    pub tokens_per_second: f64,
    /// The last measurement.
    pub heldout: Option<M>,
}

/// An objective to train for.
pub(crate) trait Objective {
    /// The measurement on held-out data.
    type Measure: Clone;

    /// The weights that are trained.
    fn variables(&self) -> &BTreeMap<String, Var>;

    /// The loss of a step, and the number of its tokens. It depends only on the weights and on the number of the step,
    /// so that a run can be resumed.
    fn loss(&mut self, step: u64) -> Result<(Tensor, u64), TrainError>;

    /// Measures the weights; `None` if nothing is held out.
    fn measure(&mut self) -> Result<Option<Self::Measure>, TrainError>;
}

/// The result of a finished run.
pub(crate) struct Outcome<M> {
    pub(crate) steps: u64,
    pub(crate) tokens: u64,
    pub(crate) minutes: f64,
    pub(crate) before: Option<M>,
    pub(crate) after: Option<M>,
    /// The step at which an interrupted run was resumed.
    pub(crate) resumed_at: Option<u64>,
}

/// Runs all steps, from the last checkpoint on if there is one of a run with these settings. If `watch` returns
/// `false`, it stops early, with a checkpoint and without an outcome.
pub(crate) fn run<O: Objective>(
    objective: &mut O,
    steps: &Steps,
    settings: String,
    checkpoint: &Checkpoint,
    mut watch: impl FnMut(&Progress<O::Measure>) -> bool,
) -> Result<Option<Outcome<O::Measure>>, TrainError> {
    let mut adamw = AdamW::new(objective.variables(), steps.weight_decay)?;
    let measured_before = objective.measure()?;
    let restored = checkpoint.restore(&settings, objective.variables(), &mut adamw)?;
    let resumed_at = restored.as_ref().map(|state| state.step);
    let mut state = restored.unwrap_or(State { settings, step: 0, tokens: 0, elapsed: 0.0, tensors: String::new() });

    let (started, before, tokens_before) = (Instant::now(), state.elapsed, state.tokens);
    let mut saved = Instant::now();
    let (mut smooth, mut latest) = (None, measured_before.clone());
    loop {
        state.elapsed = before + started.elapsed().as_secs_f64();
        let by_time = steps.max_minutes.map_or(0.0, |minutes| state.elapsed / 60.0 / minutes);
        let done = (state.step as f64 / steps.count as f64).max(by_time);
        if done >= 1.0 {
            break;
        }
        let (loss, tokens) = objective.loss(state.step)?;
        let value = f64::from(loss.to_scalar::<f32>()?);
        if !value.is_finite() {
            return Err(TrainError::Diverged { step: state.step });
        }
        let rate = learning_rate(steps.learning_rate, state.step, steps.warm_up, done);
        adamw.step(objective.variables(), &loss.backward()?, rate, steps.max_norm)?;
        state.step += 1;
        state.tokens += tokens;
        let mean = smooth.map_or(value, |smooth: f64| SMOOTHING * smooth + (1.0 - SMOOTHING) * value);
        smooth = Some(mean);
        if state.step.is_multiple_of(steps.heldout_every) {
            latest = objective.measure()?;
        }
        let tokens_per_second = (state.tokens - tokens_before) as f64 / started.elapsed().as_secs_f64();
        let progress = Progress {
            step: state.step,
            tokens: state.tokens,
            done,
            loss: mean,
            learning_rate: rate,
            tokens_per_second,
            heldout: latest.clone(),
        };
        if !watch(&progress) {
            state.elapsed = before + started.elapsed().as_secs_f64();
            check_numbers(objective.variables(), state.step)?;
            checkpoint.save(state, objective.variables(), &adamw)?;
            return Ok(None);
        }
        if saved.elapsed().as_secs_f64() > 60.0 * steps.checkpoint_minutes {
            saved = Instant::now();
            check_numbers(objective.variables(), state.step)?;
            checkpoint.save(state.clone(), objective.variables(), &adamw)?;
        }
    }
    check_numbers(objective.variables(), state.step)?;
    Ok(Some(Outcome {
        steps: state.step,
        tokens: state.tokens,
        minutes: (state.elapsed / 0.6).round() / 100.0,
        before: measured_before,
        after: objective.measure()?,
        resumed_at,
    }))
}

/// Checks that all weights are finite before they are written: the loss of a step is that before it.
fn check_numbers(variables: &BTreeMap<String, Var>, step: u64) -> Result<(), TrainError> {
    for var in variables.values() {
        if !var.as_tensor().sum_all()?.to_scalar::<f32>()?.is_finite() {
            return Err(TrainError::Diverged { step });
        }
    }
    Ok(())
}
