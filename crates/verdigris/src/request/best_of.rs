//! Best of n: a reward model, or the model itself, chooses one of several texts.

use std::ops::ControlFlow;

use verdigris_decoding::best_of::{choose, kl_bound};
use verdigris_logits::{Purpose, Random};

use crate::error::Error;
use crate::request::{Request, Written};
use crate::reward::Reward;

/// Several texts, and the choice among them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BestOf {
    /// The texts, in the order of their seeds.
    pub texts: Vec<Written>,
    /// The score of each: the reward, or the mean log-probability of its tokens.
    pub rewards: Vec<f32>,
    /// The index of the chosen text.
    pub index: usize,
}

impl BestOf {
    /// The chosen text.
    pub fn text(&self) -> &Written {
        &self.texts[self.index]
    }

    /// A bound on the divergence of the distribution of the chosen text from that of a single text, in nats: see
    /// [`kl_bound`].
    pub fn kl_bound(&self) -> f64 {
        kl_bound(self.texts.len())
    }
}

impl Request<'_> {
    /// Writes `count` texts like [`Request::texts`], and chooses the one that a reward model scores highest. At a
    /// `temperature` above 0, samples one with probability proportional to `exp(reward / temperature)`, by this
    /// request's seed. The reward model reads the prompt followed by the tokens of the text.
    ///
    /// # Errors
    /// [`Error::Reward`] for a count of 0 and an invalid temperature, [`Error::ForeignExpert`] for a reward model with
    /// other tokens, [`Error::JudgeContext`] for texts that may be too long for it, and those of [`Request::texts`].
    #[doc(alias = "best_of_n")]
    pub fn best_of(mut self, count: usize, reward: &Reward, temperature: f64) -> Result<BestOf, Error> {
        can_be_chosen_from(count, temperature)?;
        self.engine.shares_tokens(reward.tokenizer())?;
        let prompt = self.prompt_tokens(&self.prompt)?;
        fits_into(reward.model.context_length(), self.longest(prompt.count()))?;
        let seed = self.seed_or_a_new_one()?;
        self.seed = Some(seed);
        let texts = self.stream_texts(count, |_, _| ControlFlow::Continue(()))?;
        let tokens: Vec<&[u32]> = texts.iter().map(|written| &written.tokens[..]).collect();
        let rewards = reward.model.scores(&prompt.read, &tokens)?;
        Ok(chosen(texts, rewards, temperature, seed))
    }

    /// Like [`Request::best_of`], but the score of a text is the mean log-probability of its tokens, under the
    /// distribution that [`Request::logprobs_mode`] names. A text without tokens is the worst.
    ///
    /// # Errors
    /// [`Error::Reward`] for a count of 0 and an invalid temperature, and those of [`Request::texts`].
    pub fn likeliest_of(mut self, count: usize, temperature: f64) -> Result<BestOf, Error> {
        can_be_chosen_from(count, temperature)?;
        let (seed, asked) = (self.seed_or_a_new_one()?, self.reported.logprobs);
        self.seed = Some(seed);
        self.reported.logprobs = asked.or(Some(0));
        let mut texts = self.stream_texts(count, |_, _| ControlFlow::Continue(()))?;
        let mut rewards = Vec::with_capacity(count);
        for written in &mut texts {
            let of_tokens = written.logprobs.as_deref().unwrap_or_default();
            let sum: f64 = of_tokens.iter().map(|token| token.chosen.logprob).sum();
            rewards.push((sum / of_tokens.len() as f64) as f32);
            if asked.is_none() {
                written.logprobs = None;
            }
        }
        Ok(chosen(texts, rewards, temperature, seed))
    }

    /// The maximum number of tokens of a prompt and the text after it. The model never reads the last one.
    pub(super) fn longest(&self, prompt_tokens: usize) -> usize {
        prompt_tokens.saturating_add(self.ends.max_tokens).min(self.engine.context_length() + 1)
    }
}

/// Returns an error if a judging model with this context cannot read `tokens` tokens.
pub(super) fn fits_into(context: usize, tokens: usize) -> Result<(), Error> {
    if tokens > context { Err(Error::JudgeContext { tokens, context }) } else { Ok(()) }
}

/// Checks the number of texts and the temperature.
fn can_be_chosen_from(count: usize, temperature: f64) -> Result<(), Error> {
    if count == 0 {
        return Err(Error::Reward { what: "the number of texts to choose from", value: 0.0, must: "1 or more" });
    }
    if !(temperature >= 0.0 && temperature.is_finite()) {
        let what = "the temperature of rewards";
        return Err(Error::Reward { what, value: temperature, must: "a finite number of 0 or more" });
    }
    Ok(())
}

/// Chooses by rewards and a seed.
fn chosen(texts: Vec<Written>, rewards: Vec<f32>, temperature: f64, seed: u64) -> BestOf {
    let number = Random::new(seed).uniform(0, Purpose::Choice);
    let index = choose(&rewards, temperature, number).expect("there is a text");
    BestOf { texts, rewards, index }
}
