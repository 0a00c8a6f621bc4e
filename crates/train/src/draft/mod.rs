//! Networks that guess what a model will say from its hidden states: those of [`verdigris_models::draft_head`], trained
//! for a model that stays as it is.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | everything that is asked of a run |
//! | `prompts` | beginnings of texts out of a file |
//! | `texts` | texts that the target writes itself, kept in a file |
//! | `examples` | those that are trained on and those that are held out; batches of them with the target's hidden states |
//! | [`agreement`] | how near guesses are to the target's law, and their gradients |
//! | `head` | the contract of both networks |
//! | `medusa`, `feature` | the networks with gradients |
//!
//! Texts that the target writes have its law at every place, not only its favourite words: what a head sees in training
//! is what it will see at work (self-distillation; Cai et al., *Medusa*, 2024, section 2.3.2).

pub mod agreement;
mod examples;
mod feature;
#[cfg(test)]
mod gradients;
mod head;
mod medusa;
pub mod options;
mod prompts;
mod texts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device as CandleDevice, Tensor, Var};
use serde::Serialize;
use serde_json::{Map, Value, json};
use verdigris_models::whole_file::replace;
use verdigris_models::{Device, DraftTarget};

use crate::checkpoint::Checkpoint;
use crate::error::TrainError;
use crate::trainer::{Objective, Outcome, Progress, run};
use crate::weights::save;

use agreement::{Agreement, Judge, Sums};
use examples::Examples;
use feature::Feature;
use head::Head;
use medusa::Medusa;
use options::{HeadShape, Options, TextSource};
use texts::Texts;

/// How much less each guess further on counts: few drafts come so far.
const FURTHER: f64 = 0.8;

/// The most tokens that are guessed among, where it is not said.
const DRAFT_VOCABULARY: usize = 8192;

/// How a run is going.
#[derive(Clone, Debug)]
pub enum Event {
    /// The target is writing texts.
    Writing {
        /// Texts that are written.
        texts: usize,
        /// All texts.
        of: usize,
    },
    /// A step of training.
    Step(Progress<Agreement>),
}

/// What a run came to; also written as `training.json` beside the head.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `feature` or `medusa`.
    pub head: &'static str,
    /// The model that it was trained for.
    pub target: String,
    /// Weights.
    pub parameters: usize,
    /// How many tokens it guesses among.
    pub draft_vocabulary: usize,
    /// Texts trained on.
    pub texts: usize,
    /// Texts held out.
    pub heldout_texts: usize,
    /// Steps done.
    pub steps: u64,
    /// Tokens of the target's texts that were trained on, each as often as it was.
    pub tokens: u64,
    /// Minutes of training, without those of writing texts.
    pub minutes: f64,
    /// What held-out texts said before the first step.
    pub heldout_before: Option<Agreement>,
    /// What they say at the end.
    pub heldout: Option<Agreement>,
    /// The step at which an interrupted run was taken up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<u64>,
}

/// Trains a draft head and writes it to the output folder, beside the texts that the target has written for it. `watch`
/// is told of texts that are written and of every step; when it returns `false` the run stops early, and the same call
/// goes on from there.
///
/// Hidden states are computed for one batch at a time.
///
/// # Errors
/// [`TrainError::Option`] for values that cannot be; [`TrainError::Prompts`], [`TrainError::Texts`] and
/// [`TrainError::TooFewTexts`] for files with nothing to train on; [`TrainError::Finished`],
/// [`TrainError::ForeignTexts`] and [`TrainError::ForeignCheckpoint`] for an output folder that is another run's;
/// [`TrainError::Diverged`], and where files cannot be read or written.
pub fn train_draft(options: &Options, mut watch: impl FnMut(&Event) -> bool) -> Result<Option<Summary>, TrainError> {
    options.check()?;
    let checkpoint = Checkpoint::in_folder(&options.out);
    checkpoint.refuse_a_finished_model(options.replace)?;
    let target = Arc::new(DraftTarget::of(&options.target)?);
    let config = target.config();
    if options.window > config.context {
        let range = "at most the target's context length";
        return Err(TrainError::Option { name: "--window", value: options.window as f64, range });
    }
    let (model, texts) = match &options.source {
        TextSource::Texts(path) => (options.target.model(&Device::Cpu)?, Texts::read(path, config.vocabulary)?),
        TextSource::Prompts { path, chat, max_tokens } => {
            let loaded = options.target.load(&Device::Cpu)?;
            let prompts = prompts::read(path, &loaded, *chat)?;
            std::fs::create_dir_all(&options.out).map_err(TrainError::file("create", &options.out))?;
            let file = options.out.join(texts::FILE);
            let each = |texts, of| watch(&Event::Writing { texts, of });
            match Texts::write(&file, &loaded, &prompts, *max_tokens, options.steps.seed, each)? {
                Some(texts) => (loaded.model, texts),
                None => return Ok(None),
            }
        }
    };
    let tokens = texts.most_frequent(options.draft_vocabulary.unwrap_or(DRAFT_VOCABULARY));
    let examples = Examples::new(model, texts, options)?;
    std::fs::create_dir_all(&options.out).map_err(TrainError::file("create", &options.out))?;

    let output = Tensor::from_vec(target.output_rows(&tokens), (tokens.len(), config.width), &CandleDevice::Cpu)?;
    let head: Box<dyn Head> = match options.head {
        HeadShape::Feature { inner } => Box::new(Feature::fresh(&target, inner, options.steps.seed)?),
        HeadShape::Medusa { heads, own_outputs } => {
            Box::new(Medusa::fresh(config.width, heads, own_outputs.then_some(&output))?)
        }
    };
    let parameters = head.variables().values().map(|var| var.elem_count()).sum();
    let settings = options.settings(head.name(), parameters, &examples, tokens.len());
    let judge = Judge { output, cap: config.logit_cap };
    let mut drafting = Drafting { head, judge, examples };
    let Some(Outcome { steps, tokens: trained, minutes, before, after, resumed_at }) =
        run(&mut drafting, &options.steps, settings, &checkpoint, |progress| watch(&Event::Step(progress.clone())))?
    else {
        return Ok(None);
    };
    let Drafting { head, examples, .. } = drafting;
    let summary = Summary {
        head: head.name(),
        target: options.target_name.clone(),
        parameters,
        draft_vocabulary: tokens.len(),
        texts: examples.trained(),
        heldout_texts: examples.held_out(),
        steps,
        tokens: trained,
        minutes,
        heldout_before: before,
        heldout: after,
        resumed_at,
    };
    let mut description = head.description(config);
    for (name, value) in [
        ("hidden_size", json!(config.width)),
        ("vocab_size", json!(config.vocabulary)),
        ("draft_vocab_size", json!(tokens.len())),
        ("target", json!(options.target_name)),
        ("target_fingerprint", json!(target.fingerprint())),
    ] {
        description.insert(name.into(), value);
    }
    write(&options.out, &*head, &tokens, description, &summary)?;
    checkpoint.remove()?;
    Ok(Some(summary))
}

/// A head that learns the target's law at the places of its texts.
struct Drafting {
    head: Box<dyn Head>,
    judge: Judge,
    examples: Examples,
}

impl Objective for Drafting {
    type Measure = Agreement;

    fn variables(&self) -> &BTreeMap<String, Var> {
        self.head.variables()
    }

    fn loss(&mut self, step: u64) -> Result<(Tensor, u64), TrainError> {
        let batch = self.examples.batch(step)?;
        let guesses = self.head.guesses(&batch)?;
        let loss = self.judge.loss(&guesses, |further| FURTHER.powi(further as i32))?;
        Ok((loss, batch.answers() as u64))
    }

    fn measure(&mut self) -> Result<Option<Agreement>, TrainError> {
        let mut all: Vec<Sums> = Vec::new();
        for batch in self.examples.held_out_batches() {
            let batch = batch?;
            let sums = self.judge.sums(&self.head.guesses(&batch)?)?;
            match all.is_empty() {
                true => all = sums,
                false => all.iter_mut().zip(&sums).for_each(|(all, more)| all.add(more)),
            }
        }
        Ok(Some(Agreement::of(&all)))
    }
}

/// Writes the head, `config.json` last: a folder that has one is whole.
fn write(
    out: &Path,
    head: &dyn Head,
    tokens: &[u32],
    description: Map<String, Value>,
    summary: &Summary,
) -> Result<(), TrainError> {
    let mut tensors = head
        .variables()
        .iter()
        .map(|(name, var)| Ok((name.clone(), var.as_tensor().to_dtype(DType::F16)?)))
        .collect::<Result<std::collections::HashMap<_, _>, TrainError>>()?;
    let ids: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
    tensors.insert("draft_tokens".into(), Tensor::from_vec(ids, tokens.len(), &CandleDevice::Cpu)?);
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    save(&out.join("model.safetensors"), &tensors, Some(metadata))?;
    let pretty = |value: Vec<u8>| [value, b"\n".to_vec()].concat();
    let training = serde_json::to_vec_pretty(summary).expect("a summary serialises");
    let config = serde_json::to_vec_pretty(&Value::Object(description)).expect("JSON serialises");
    for (name, content) in [("training.json", pretty(training)), ("config.json", pretty(config))] {
        let path = out.join(name);
        replace(&path, &content).map_err(TrainError::file("write", path))?;
    }
    Ok(())
}
