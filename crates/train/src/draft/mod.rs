//! Networks that guess a model's next tokens from its hidden states: those of [`verdigris_models::draft_head`], trained
//! for a model that stays unchanged.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | the options of a run |
//! | `prompts` | prompts from a file |
//! | `training_texts` | texts that the target writes itself, kept in a file |
//! | `examples` | texts for training and held-out texts; batches of them with the target's hidden states |
//! | [`agreement`] | the agreement of guesses with the target's distribution, and their gradients |
//! | `head` | the contract of both networks |
//! | `medusa`, `feature` | the networks with gradients |
//! | `folder` | writes a head |
//!
//! Texts that the target writes have its distribution at every position, not only its favourite words: a head sees in
//! training what it will see in use (self-distillation; Cai et al., *Medusa*, 2024, section 2.3.2).

pub mod agreement;
mod examples;
mod feature;
mod folder;
#[cfg(test)]
mod gradients;
mod head;
mod medusa;
pub mod options;
mod prompts;
mod training_texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{Device as CandleDevice, Tensor, Var};
use serde::Serialize;
use verdigris_models::{Device, DraftTarget, LanguageModel};

use crate::checkpoint::Checkpoint;
use crate::error::TrainError;
use crate::trainer::{Objective, Outcome, Progress, run};
use crate::weights::{digest_of_tensors, digest_of_tokens};

use agreement::{Agreement, Judge, Sums};
use examples::Examples;
use feature::Feature;
use head::Head;
use medusa::Medusa;
use options::{HeadShape, Options, TextSource};
use training_texts::TrainingTexts;

/// The weight of each guess relative to the one before it: few drafts get that far.
const FURTHER: f64 = 0.8;

/// The default for the largest draft vocabulary.
const DRAFT_VOCABULARY: usize = 8192;

/// An event during a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// The target is writing texts.
    Writing {
        /// Texts written so far.
        texts: usize,
        /// All texts.
        of: usize,
    },
    /// A step of training.
    Step(Progress<Agreement>),
}

/// The result of a run; also written as `training.json` next to the head.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// `feature` or `medusa`.
    pub head: &'static str,
    /// The model that it was trained for.
    pub target: String,
    /// The number of weights.
    pub parameters: usize,
    /// The number of tokens that it can guess.
    pub draft_vocabulary: usize,
    /// Texts trained on.
    pub texts: usize,
    /// Texts held out.
    pub heldout_texts: usize,
    /// Steps done.
    pub steps: u64,
    /// Tokens of the target's texts that were trained on, with repetitions.
    pub tokens: u64,
    /// Minutes of training, without writing texts.
    pub minutes: f64,
    /// The agreement on held-out texts before the first step.
    pub heldout_before: Option<Agreement>,
    /// The agreement on held-out texts at the end.
    pub heldout: Option<Agreement>,
    /// The step at which an interrupted run was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<u64>,
}

/// Trains a draft head and writes it to the output folder, next to the texts that the target has written for it.
/// `watch` is called for texts that are written and for every step; if it returns `false`, the run stops early, and the
/// same call continues from there.
///
/// Hidden states are computed for one batch at a time.
///
/// # Errors
/// [`TrainError::Option`] for impossible values; [`TrainError::Prompts`], [`TrainError::Texts`] and
/// [`TrainError::TooFewTexts`] for files with nothing to train on; [`TrainError::Finished`],
/// [`TrainError::ForeignTexts`] and [`TrainError::ForeignCheckpoint`] for the output folder of another run;
/// [`TrainError::Diverged`], [`TrainError::ScaledLogits`], and an error if files cannot be read or written.
pub fn train_draft(options: &Options, mut watch: impl FnMut(&Event) -> bool) -> Result<Option<Summary>, TrainError> {
    options.check()?;
    let checkpoint = Checkpoint::in_folder(&options.out);
    checkpoint.refuse_a_finished_model(options.replace)?;
    let target = Arc::new(DraftTarget::of(&options.target)?);
    let config = target.config();
    if config.logit_scale.is_some() {
        return Err(TrainError::ScaledLogits);
    }
    if options.window > config.context {
        let range = "at most the target's context length";
        return Err(TrainError::Option { name: "--window", value: options.window as f64, range });
    }
    let Some(Lessons { model, texts }) = model_and_texts(options, config.vocabulary, &mut watch)? else {
        return Ok(None);
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
    let settings = options.settings(head.name(), parameters, &examples, &output)?;
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
    folder::write(&options.out, &*head, &target, &tokens, &summary)?;
    checkpoint.remove()?;
    Ok(Some(summary))
}

impl Options {
    /// The settings that must be the same to resume an interrupted run.
    fn settings(
        &self,
        head: &str,
        parameters: usize,
        examples: &Examples,
        output: &Tensor,
    ) -> Result<String, TrainError> {
        let (target, texts) = (digest_of_tensors([output])?, digest_of_tokens(examples.texts()));
        Ok(format!(
            "{head} of {parameters} parameters for the target {target}, {} texts {texts} of {} tokens, draft \
             vocabulary {}, batch {}, window {}, {}",
            examples.trained() + examples.held_out(),
            examples.tokens(),
            output.dim(0)?,
            self.batch,
            self.window,
            self.steps.settings()
        ))
    }
}

/// The target, and the texts to train on.
struct Lessons {
    model: Arc<dyn LanguageModel>,
    texts: TrainingTexts,
}

/// The target, and the texts to train on; `None` if `watch` has stopped the target's writing.
fn model_and_texts(
    options: &Options,
    vocabulary: usize,
    watch: &mut impl FnMut(&Event) -> bool,
) -> Result<Option<Lessons>, TrainError> {
    let (path, chat, max_tokens) = match &options.source {
        TextSource::Prompts { path, chat, max_tokens } => (path, *chat, *max_tokens),
        TextSource::Texts(path) => {
            let texts = TrainingTexts::read(path, vocabulary)?;
            return Ok(Some(Lessons { model: options.target.model(&Device::Cpu)?, texts }));
        }
    };
    let target = options.target.load(&Device::Cpu)?;
    let prompts = prompts::read(path, &target, chat)?;
    std::fs::create_dir_all(&options.out).map_err(TrainError::file("create", &options.out))?;
    let file = options.out.join(training_texts::FILE);
    let each = |texts, of| watch(&Event::Writing { texts, of });
    let texts = TrainingTexts::write(&file, &target, &prompts, max_tokens, options.steps.seed, each)?;
    Ok(texts.map(|texts| Lessons { model: target.model, texts }))
}

/// A head that learns the target's distribution at the positions of its texts.
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
