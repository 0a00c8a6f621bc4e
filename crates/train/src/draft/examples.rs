//! Texts for training and held-out texts, and batches of them with the target's hidden states.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use verdigris_logits::{Purpose, Random, TokenId};
use verdigris_models::{BatchItem, LanguageModel, ModelError, Rows, Wanted};

use super::options::Options;
use super::training_texts::TrainingTexts;
use crate::error::TrainError;

/// One in this number of texts is held out.
const HELD_OUT: usize = 16;

/// The most texts that are held out.
const MOST_HELD_OUT: usize = 64;

/// The number of batches whose texts are sorted by length together, so that the texts of a batch have similar lengths.
const SORTED_TOGETHER: usize = 32;

/// A text, and the number of tokens in its prompt.
#[derive(Debug)]
struct Example {
    prompt: usize,
    tokens: Vec<TokenId>,
}

/// All texts, and the model that wrote them.
pub(super) struct Examples {
    model: Arc<dyn LanguageModel>,
    trained: Vec<Example>,
    held_out: Vec<Example>,
    /// Texts per batch.
    batch: usize,
    seed: u64,
    /// The number of a pass over all texts, and its batches.
    pass: Option<(u64, Vec<Vec<usize>>)>,
}

impl Examples {
    /// Splits the texts that have at least two tokens after the prompt within the window.
    pub(super) fn new(
        model: Arc<dyn LanguageModel>,
        texts: TrainingTexts,
        options: &Options,
    ) -> Result<Self, TrainError> {
        let examples = texts.0.into_iter().map(|text| {
            let prompt = text.prompt.len();
            let mut tokens = [text.prompt, text.text].concat();
            tokens.truncate(options.window);
            Example { prompt, tokens }
        });
        let mut trained: Vec<Example> =
            examples.filter(|one| one.prompt >= 1 && one.tokens.len() >= one.prompt + 2).collect();
        if trained.len() < 2 {
            return Err(TrainError::TooFewTexts { texts: trained.len(), needed: 2 });
        }
        let (all, count) = (trained.len(), (trained.len() / HELD_OUT).clamp(1, MOST_HELD_OUT));
        let mut held_out: Vec<Example> = (0..count).rev().map(|i| trained.remove(i * all / count)).collect();
        held_out.sort_by_key(|one| one.tokens.len());
        Ok(Self { model, trained, held_out, batch: options.batch, seed: options.steps.seed, pass: None })
    }

    /// The number of texts for training.
    pub(super) fn trained(&self) -> usize {
        self.trained.len()
    }

    /// The number of held-out texts.
    pub(super) fn held_out(&self) -> usize {
        self.held_out.len()
    }

    /// The number of tokens of all texts.
    pub(super) fn tokens(&self) -> usize {
        self.trained.iter().chain(&self.held_out).map(|one| one.tokens.len()).sum()
    }

    /// The tokens of each text.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[TokenId]> {
        self.trained.iter().chain(&self.held_out).map(|one| &one.tokens[..])
    }

    /// The batch of a step. Each pass over the texts has its own order.
    pub(super) fn batch(&mut self, step: u64) -> Result<Batch, TrainError> {
        let batches = self.trained.len().div_ceil(self.batch) as u64;
        let number = step / batches;
        if self.pass.as_ref().is_none_or(|(held, _)| *held != number) {
            self.pass = Some((number, self.order(number)));
        }
        let (_, order) = self.pass.as_ref().expect("it was made above");
        let which: Vec<&Example> = order[(step % batches) as usize].iter().map(|&i| &self.trained[i]).collect();
        self.read(&which)
    }

    /// The held-out texts, in batches.
    pub(super) fn held_out_batches(&self) -> impl Iterator<Item = Result<Batch, TrainError>> {
        self.held_out.chunks(self.batch).map(|part| self.read(&part.iter().collect::<Vec<_>>()))
    }

    /// The batches of a pass over all texts.
    fn order(&self, pass: u64) -> Vec<Vec<usize>> {
        let random = Random::new(self.seed);
        let mut texts: Vec<usize> = (0..self.trained.len()).collect();
        shuffle(&mut texts, |i| random.uniform_of(i, Purpose::Data, 2 * pass as u32));
        for part in texts.chunks_mut(SORTED_TOGETHER * self.batch) {
            part.sort_by_key(|&i| self.trained[i].tokens.len());
        }
        let mut batches: Vec<Vec<usize>> = texts.chunks(self.batch).map(<[usize]>::to_vec).collect();
        shuffle(&mut batches, |i| random.uniform_of(i, Purpose::Data, 2 * pass as u32 + 1));
        batches
    }

    /// Lets the target read some texts, in one pass.
    fn read(&self, texts: &[&Example]) -> Result<Batch, TrainError> {
        let mut sequences = texts
            .iter()
            .map(|one| self.model.clone().begin(one.tokens.len()))
            .collect::<Result<Vec<_>, ModelError>>()?;
        let mut rows = vec![Rows::with_hidden(); texts.len()];
        let mut items: Vec<BatchItem<'_>> = sequences
            .iter_mut()
            .zip(&mut rows)
            .zip(texts)
            .map(|((sequence, rows), one)| {
                let batch = verdigris_models::Batch::chain(&one.tokens, Wanted::From(one.tokens.len()));
                BatchItem { sequence: &mut **sequence, batch, rows }
            })
            .collect();
        self.model.forward_each(&mut items)?;
        let longest = texts.iter().map(|one| one.tokens.len()).max().unwrap_or(0);
        let width = rows[0].hidden(0).len();
        let mut hidden = vec![0.0; texts.len() * longest * width];
        for ((rows, one), hidden) in rows.iter().zip(texts).zip(hidden.chunks_exact_mut(longest * width)) {
            for (i, hidden) in hidden.chunks_exact_mut(width).take(one.tokens.len()).enumerate() {
                hidden.copy_from_slice(rows.hidden(i));
            }
        }
        let hidden = Tensor::from_vec(hidden, (texts.len(), longest, width), &Device::Cpu)?;
        let texts: Vec<(usize, &[TokenId])> = texts.iter().map(|one| (one.prompt, &one.tokens[..])).collect();
        Ok(Batch::new(&texts, hidden))
    }
}

/// The Fisher-Yates shuffle; `uniform` returns the random number of an index.
fn shuffle<T>(all: &mut [T], uniform: impl Fn(u64) -> f64) {
    for i in (1..all.len()).rev() {
        all.swap(i, (uniform(i as u64) * (i + 1) as f64) as usize);
    }
}

/// Some texts, padded with token 0 to the length of the longest, and the target's hidden states.
pub(super) struct Batch {
    /// `texts x length`.
    pub(super) tokens: Vec<TokenId>,
    /// `texts x length x width`.
    pub(super) hidden: Tensor,
    /// The tokens after which the target wrote the next one itself: `texts x length`.
    pub(super) decides: Vec<bool>,
    pub(super) texts: usize,
    pub(super) length: usize,
}

impl Batch {
    /// Takes texts, each with the length of its prompt, and their states.
    pub(super) fn new(texts: &[(usize, &[TokenId])], hidden: Tensor) -> Self {
        let length = texts.iter().map(|(_, tokens)| tokens.len()).max().unwrap_or(0);
        let (mut all, mut decides) = (vec![0; texts.len() * length], vec![false; texts.len() * length]);
        for (i, &(prompt, tokens)) in texts.iter().enumerate() {
            all[i * length..][..tokens.len()].copy_from_slice(tokens);
            decides[i * length..][prompt - 1..tokens.len() - 1].fill(true);
        }
        Self { tokens: all, hidden, decides, texts: texts.len(), length }
    }

    /// The number of tokens in texts, without those of prompts.
    pub(super) fn answers(&self) -> usize {
        self.decides.iter().filter(|&&decides| decides).count()
    }

    /// The target's states at some positions of `texts x length`: `positions x width`.
    pub(super) fn states(&self, places: &[u32]) -> candle_core::Result<Tensor> {
        self.hidden.flatten(0, 1)?.index_select(&Tensor::new(places, &Device::Cpu)?, 0)
    }

    /// The positions of each text, from its `first` token on, after which the target wrote the next token itself, as
    /// the indices of the text and of the token.
    pub(super) fn places(&self, first: usize) -> impl Iterator<Item = (usize, usize)> {
        let all = (0..self.texts).flat_map(move |text| (first..self.length).map(move |at| (text, at)));
        all.filter(|&(text, at)| self.decides[text * self.length + at])
    }
}
