//! Training language models on text files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use candle_core::{Tensor, Var};
use serde::Serialize;
use verdigris_logits::Random;
use verdigris_models::whole_file::replace;
use verdigris_models::{Device, ModelFolder};

use crate::checkpoint::Checkpoint;
use crate::corpus::Corpus;
use crate::error::TrainError;
use crate::model::TrainedModel;
use crate::trainer::{Objective, Outcome, Progress, Steps, check, run};
use crate::weights::{Weights, digest_of_tensors, digest_of_tokens};

/// The most held-out windows in one measurement.
const HELDOUT_WINDOWS: usize = 128;

/// The model to train, its data, and the length of the run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The text to train on.
    pub corpus: PathBuf,
    /// Text for measurements, which is never trained on.
    pub heldout: Option<PathBuf>,
    /// The folder to write.
    pub out: PathBuf,
    /// Whether a finished model in that folder may be overwritten.
    pub replace: bool,
    /// The model to continue from. Without it, weights are fresh.
    pub init: Option<ModelFolder>,
    /// The model whose shape and tokenizer fresh weights use.
    pub shape: ModelFolder,
    /// Windows per step.
    pub batch: usize,
    /// Tokens per window.
    pub window: usize,
    /// The number and the size of the steps.
    pub steps: Steps,
}

/// The result of a run; also written as `training.json` next to the model.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The number of weights.
    pub parameters: usize,
    /// Steps done.
    pub steps: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// Minutes of training.
    pub minutes: f64,
    /// The held-out loss before the first step, in nats per token.
    pub heldout_loss_before: Option<f64>,
    /// The held-out loss at the end.
    pub heldout_loss: Option<f64>,
    /// The step at which an interrupted run was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<u64>,
}

impl Options {
    fn check(&self) -> Result<(), TrainError> {
        check("--batch", self.batch as f64, self.batch >= 1, "at least 1")?;
        check("--window", self.window as f64, self.window >= 2, "at least 2")?;
        self.steps.check()
    }

    /// The settings that must be the same to resume an interrupted run.
    fn settings(&self, parameters: usize, model: &TrainedModel, corpus: &Corpus) -> Result<String, TrainError> {
        let weights = digest_of_tensors(model.variables().values().map(|var| var.as_tensor()))?;
        let text = digest_of_tokens([corpus.tokens()]);
        let (tokens, steps) = (corpus.len(), self.steps.settings());
        Ok(format!(
            "{parameters} parameters that begin as {weights}, {tokens} tokens of the text {text}, batch {}, window {}, \
             {steps}",
            self.batch, self.window
        ))
    }
}

/// Trains a model and writes it to the output folder. `watch` is called after every step, with the loss on held-out
/// text; if it returns `false`, the run stops early, with a checkpoint from which the same call continues.
///
/// An interrupted run is resumed from its last checkpoint.
///
/// # Errors
/// [`TrainError::Option`] for impossible values, [`TrainError::Finished`] and [`TrainError::ForeignCheckpoint`] for the
/// output folder of another run, [`TrainError::Diverged`], and an error if files cannot be read or written.
pub fn train(options: &Options, watch: impl FnMut(&Progress<f64>) -> bool) -> Result<Option<Summary>, TrainError> {
    options.check()?;
    let checkpoint = Checkpoint::in_folder(&options.out);
    checkpoint.refuse_a_finished_model(options.replace)?;
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
        None => TrainedModel::fresh(config, &weights, options.steps.seed)?,
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
    let settings = options.settings(parameters, &model, &corpus)?;
    let mut windows = Windows { options, model, corpus, heldout };
    let Some(Outcome { steps, tokens, minutes, before, after, resumed_at }) =
        run(&mut windows, &options.steps, settings, &checkpoint, watch)?
    else {
        return Ok(None);
    };
    let summary =
        Summary { parameters, steps, tokens, minutes, heldout_loss_before: before, heldout_loss: after, resumed_at };
    write_model(options, source, &windows.model, &summary)?;
    checkpoint.remove()?;
    Ok(Some(summary))
}

/// Predicting the next token in windows of a text.
struct Windows<'a> {
    options: &'a Options,
    model: TrainedModel,
    corpus: Corpus,
    heldout: Option<Corpus>,
}

impl Objective for Windows<'_> {
    /// The loss on held-out text, in nats per token.
    type Measure = f64;

    fn variables(&self) -> &BTreeMap<String, Var> {
        self.model.variables()
    }

    fn loss(&mut self, step: u64) -> Result<(Tensor, u64), TrainError> {
        let Options { batch, window, steps, .. } = self.options;
        let random = Random::new(steps.seed);
        let first = step * *batch as u64;
        let windows: Vec<_> = (0..*batch as u64).map(|i| self.corpus.sample(*window, &random, first + i)).collect();
        Ok((self.model.loss(&windows)?, (batch * window) as u64))
    }

    /// The mean loss over windows spread evenly over the held-out text.
    fn measure(&mut self) -> Result<Option<f64>, TrainError> {
        let Some(text) = &self.heldout else { return Ok(None) };
        let windows = text.spread(self.options.window, HELDOUT_WINDOWS);
        let mut total = 0.0;
        for part in windows.chunks(self.options.batch) {
            total += f64::from(self.model.loss(part)?.to_scalar::<f32>()?) * part.len() as f64;
        }
        Ok(Some(total / windows.len() as f64))
    }
}

fn write_model(
    options: &Options,
    source: &ModelFolder,
    model: &TrainedModel,
    summary: &Summary,
) -> Result<(), TrainError> {
    let dtype = model.save(&options.out.join("model.safetensors"))?;
    let training = serde_json::to_vec_pretty(summary).expect("a summary serialises");
    for (name, content) in [
        ("config.json", with_dtype(&source.file("config.json")?, dtype)),
        ("tokenizer.json", source.file("tokenizer.json")?.into_owned()),
        ("training.json", [training, b"\n".to_vec()].concat()),
    ] {
        let path = options.out.join(name);
        replace(&path, &content).map_err(TrainError::file("write", path))?;
    }
    Ok(())
}

/// A `config.json` that names the type of the weights, if it names one.
fn with_dtype(config: &[u8], dtype: &str) -> Vec<u8> {
    let Ok(mut fields) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(config) else {
        return config.to_vec();
    };
    let named = ["dtype", "torch_dtype"].into_iter().filter(|name| fields.contains_key(*name)).collect::<Vec<_>>();
    if named.is_empty() {
        return config.to_vec();
    }
    named.into_iter().for_each(|name| fields[name] = dtype.into());
    [serde_json::to_vec_pretty(&fields).expect("it is JSON"), b"\n".to_vec()].concat()
}
