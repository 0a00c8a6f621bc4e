//! The training loop.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use verdigris_logits::Random;
use verdigris_models::whole_file::replace;
use verdigris_models::{Device, ModelFolder};

use crate::adamw::AdamW;
use crate::checkpoint::{Checkpoint, State};
use crate::corpus::Corpus;
use crate::error::TrainError;
use crate::model::TrainedModel;
use crate::schedule::learning_rate;
use crate::weights::Weights;

/// Held-out windows that one measurement takes at most.
const HELDOUT_WINDOWS: usize = 128;

/// How much the shown loss remembers.
const SMOOTHING: f64 = 0.95;

/// What to train, on what, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The text to train on.
    pub corpus: PathBuf,
    /// Text that is never trained on, to measure with.
    pub heldout: Option<PathBuf>,
    /// The folder to write.
    pub out: PathBuf,
    /// Whether a finished model in that folder may be lost.
    pub replace: bool,
    /// The model to go on from. Without it, weights are fresh.
    pub init: Option<ModelFolder>,
    /// Whose shape and tokenizer fresh weights take.
    pub shape: ModelFolder,
    /// Steps at most.
    pub steps: u64,
    /// Minutes at most, earlier parts of an interrupted run counted in.
    pub max_minutes: Option<f64>,
    /// Windows a step.
    pub batch: usize,
    /// Tokens a window.
    pub window: usize,
    /// The highest learning rate.
    pub learning_rate: f64,
    /// Steps of warm-up.
    pub warm_up: u64,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// The norm to which gradients are clipped.
    pub max_norm: f64,
    /// Which windows are drawn, and fresh weights.
    pub seed: u64,
    /// Minutes between checkpoints.
    pub checkpoint_minutes: f64,
    /// Steps between measurements on held-out text.
    pub heldout_every: u64,
}

/// How a run is going, after each step.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Steps done.
    pub step: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// The share of the run that is over, 0 to 1.
    pub done: f64,
    /// The smoothed training loss, in nats a token.
    pub loss: f64,
    /// The learning rate of the step.
    pub learning_rate: f64,
    /// Tokens a second since the program was started.
    pub tokens_per_second: f64,
    /// The last held-out loss.
    pub heldout_loss: Option<f64>,
}

/// What a run came to; also written as `training.json` beside the model.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Weights.
    pub parameters: usize,
    /// Steps done.
    pub steps: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// Minutes of training.
    pub minutes: f64,
    /// The held-out loss before the first step, in nats a token.
    pub heldout_loss_before: Option<f64>,
    /// The held-out loss at the end.
    pub heldout_loss: Option<f64>,
    /// The step at which an interrupted run was taken up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<u64>,
}

impl Options {
    fn check(&self) -> Result<(), TrainError> {
        let range = |name, value: f64, ok: bool, range| {
            if ok { Ok(()) } else { Err(TrainError::Option { name, value, range }) }
        };
        range("--batch", self.batch as f64, self.batch >= 1, "at least 1")?;
        range("--window", self.window as f64, self.window >= 2, "at least 2")?;
        range("--steps", self.steps as f64, self.steps >= 1, "at least 1")?;
        let positive = |value: f64| value > 0.0 && value.is_finite();
        range("--learning-rate", self.learning_rate, positive(self.learning_rate), "above 0")?;
        range("--clip", self.max_norm, positive(self.max_norm), "above 0")?;
        range("--weight-decay", self.weight_decay, (0.0..=1.0).contains(&self.weight_decay), "0 to 1")?;
        if let Some(minutes) = self.max_minutes {
            range("--max-minutes", minutes, positive(minutes), "above 0")?;
        }
        let minutes = self.checkpoint_minutes;
        range("--checkpoint-minutes", minutes, positive(minutes), "above 0")?;
        range("--heldout-every", self.heldout_every as f64, self.heldout_every >= 1, "at least 1")?;
        Ok(())
    }

    /// What must be the same for an interrupted run to go on.
    fn settings(&self, parameters: usize, tokens: usize) -> String {
        format!(
            "{parameters} parameters, {tokens} tokens of text, seed {}, batch {}, window {}, learning rate {}",
            self.seed, self.batch, self.window, self.learning_rate
        )
    }
}

/// Trains a model and writes it to the output folder. `watch` is told of every step; when it returns `false`
/// the run stops early, with a checkpoint from which the same call goes on.
///
/// An interrupted run is taken up where its last checkpoint was.
///
/// # Errors
/// [`TrainError::Option`] for values that cannot be, [`TrainError::Finished`] and [`TrainError::ForeignCheckpoint`] for
/// an output folder that is another run's, [`TrainError::Diverged`], and where files cannot be read or written.
pub fn train(options: &Options, mut watch: impl FnMut(&Progress) -> bool) -> Result<Option<Summary>, TrainError> {
    options.check()?;
    let checkpoint = Checkpoint::in_folder(&options.out);
    // Only a run that was interrupted has a checkpoint; then what else is there was to be replaced before.
    if !options.replace && !checkpoint.is_there() && holds_a_model(&options.out) {
        return Err(TrainError::Finished { path: options.out.clone() });
    }
    let source = options.init.as_ref().unwrap_or(&options.shape);
    let loaded = source.load(&Device::Cpu)?;
    let end = loaded.end.first().copied().unwrap_or(0);
    let config = source.config()?;
    if options.window > config.context {
        let range = "at most the model's context length";
        return Err(TrainError::Option { name: "--window", value: options.window as f64, range });
    }
    let weights = Weights::of(source)?;
    let model = match options.init {
        Some(_) => TrainedModel::new(config, &weights)?,
        None => TrainedModel::fresh(config, &weights, options.seed)?,
    };
    let read = |path: &Path| -> Result<Corpus, TrainError> {
        let corpus = Corpus::read(path, &loaded.tokenizer, end)?;
        corpus.check(options.window, path)?;
        Ok(corpus)
    };
    let corpus = read(&options.corpus)?;
    let heldout = options.heldout.as_deref().map(read).transpose()?;
    std::fs::create_dir_all(&options.out).map_err(TrainError::file("create", &options.out))?;

    let parameters = model.variables().values().map(|var| var.elem_count()).sum();
    let settings = options.settings(parameters, corpus.len());
    let mut adamw = AdamW::new(model.variables(), options.weight_decay)?;
    let measure = |model: &TrainedModel| heldout.as_ref().map(|text| heldout_loss(model, text, options)).transpose();
    let heldout_loss_before = measure(&model)?;
    let restored = checkpoint.restore(&settings, &model, &mut adamw)?;
    let resumed_at = restored.as_ref().map(|state| state.step);
    let mut state = restored.unwrap_or(State { settings, step: 0, tokens: 0, elapsed: 0.0, tensors: String::new() });

    let random = Random::new(options.seed);
    let (started, before, tokens_before) = (Instant::now(), state.elapsed, state.tokens);
    let mut saved = Instant::now();
    let (mut smooth, mut latest) = (None, heldout_loss_before);
    loop {
        state.elapsed = before + started.elapsed().as_secs_f64();
        let by_time = options.max_minutes.map_or(0.0, |minutes| state.elapsed / 60.0 / minutes);
        let done = (state.step as f64 / options.steps as f64).max(by_time);
        if done >= 1.0 {
            break;
        }
        let first = state.step * options.batch as u64;
        let windows: Vec<_> =
            (0..options.batch as u64).map(|i| corpus.sample(options.window, &random, first + i)).collect();
        let loss = model.loss(&windows)?;
        let value = f64::from(loss.to_scalar::<f32>()?);
        if !value.is_finite() {
            return Err(TrainError::Diverged { step: state.step });
        }
        let rate = learning_rate(options.learning_rate, state.step, options.warm_up, done);
        adamw.step(model.variables(), &loss.backward()?, rate, options.max_norm)?;
        state.step += 1;
        state.tokens += (options.batch * options.window) as u64;
        let mean = smooth.map_or(value, |smooth: f64| SMOOTHING * smooth + (1.0 - SMOOTHING) * value);
        smooth = Some(mean);
        if state.step.is_multiple_of(options.heldout_every) {
            latest = measure(&model)?;
        }
        let tokens_per_second = (state.tokens - tokens_before) as f64 / started.elapsed().as_secs_f64();
        let progress = Progress {
            step: state.step,
            tokens: state.tokens,
            done,
            loss: mean,
            learning_rate: rate,
            tokens_per_second,
            heldout_loss: latest,
        };
        if !watch(&progress) {
            state.elapsed = before + started.elapsed().as_secs_f64();
            checkpoint.save(state, &model, &adamw)?;
            return Ok(None);
        }
        if saved.elapsed().as_secs_f64() > 60.0 * options.checkpoint_minutes {
            saved = Instant::now();
            checkpoint.save(state.clone(), &model, &adamw)?;
        }
    }

    let summary = Summary {
        parameters,
        steps: state.step,
        tokens: state.tokens,
        minutes: (state.elapsed / 0.6).round() / 100.0,
        heldout_loss_before,
        heldout_loss: measure(&model)?,
        resumed_at,
    };
    write_model(options, source, &model, &summary)?;
    checkpoint.remove()?;
    Ok(Some(summary))
}

/// Whether a folder has what a model folder has, such as the one that a run goes on from.
fn holds_a_model(folder: &Path) -> bool {
    ["config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json"]
        .iter()
        .any(|file| folder.join(file).exists())
}

/// The mean loss over windows spread evenly over the held-out text.
fn heldout_loss(model: &TrainedModel, text: &Corpus, options: &Options) -> Result<f64, TrainError> {
    let windows = text.spread(options.window, HELDOUT_WINDOWS);
    let mut total = 0.0;
    for part in windows.chunks(options.batch) {
        total += f64::from(model.loss(part)?.to_scalar::<f32>()?) * part.len() as f64;
    }
    Ok(total / windows.len() as f64)
}

fn write_model(
    options: &Options,
    source: &ModelFolder,
    model: &TrainedModel,
    summary: &Summary,
) -> Result<(), TrainError> {
    model.save(&options.out.join("model.safetensors"))?;
    let training = serde_json::to_vec_pretty(summary).expect("a summary serialises");
    for (name, content) in [
        ("config.json", source.file("config.json")?.into_owned()),
        ("tokenizer.json", source.file("tokenizer.json")?.into_owned()),
        ("training.json", [training, b"\n".to_vec()].concat()),
    ] {
        let path = options.out.join(name);
        replace(&path, &content).map_err(TrainError::file("write", path))?;
    }
    Ok(())
}
