//! Speculative decoding of a chain: several drafted tokens in one model call, and the same law.
//!
//! Drafts that were drawn from a law `q` are accepted with probability `min(1, p / q)`, and a rejected one is
//! replaced by a token from `norm(max(p - q, 0))` (Leviathan, Kalman and Matias, *Fast Inference from
//! Transformers via Speculative Decoding*, ICML 2023, algorithm 1). Drafts that are guesses at the
//! target's own draw are compared with it (sample-and-match): the text is the one that plain decoding writes with
//! the same seed, token for token.
//!
//! `p` is the target's law in full: all transforms act on each drafted position with the state of the text up
//! to there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, Steps, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, SampleRequest, Sequence, Wanted};

use crate::chance::Chance;
use crate::device_sampling::DeviceSampling;
use crate::draft_length::{Call, Chooser, DraftLength};
use crate::drafter::{Draft, Drafter};
use crate::limits::{Limits, Stop};
use crate::target::{DecodeError, Target};

/// How many drafts were made and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Calls of the target model.
    pub calls: usize,
    /// Tokens drafted.
    pub drafted: usize,
    /// Drafts that became part of the text.
    pub accepted: usize,
}

/// A text being written several tokens at a time. As an iterator it ends with the text, or with the first error, which
/// comes after the tokens that were decided before it.
#[doc(alias = "assisted_generation")]
#[doc(alias = "speculative_decoding")]
pub struct Speculative<'a, D, C> {
    target: &'a Target,
    limits: Limits,
    drafter: D,
    chance: C,
    length: Chooser,
    sequence: Box<dyn Sequence>,
    /// The state of the transforms after `text`.
    state: ChainState,
    text: Vec<TokenId>,
    prompt: usize,
    /// What is not handed over yet: tokens that are decided, and behind them what the text cannot go on for.
    ready: VecDeque<Result<TokenId, DecodeError>>,
    acceptance: Acceptance,
    stop: Option<Stop>,
    failed: bool,
    /// The time, from any beginning: what drafting costs decides how much of it is done.
    clock: Box<dyn FnMut() -> Duration + Send>,
    /// How many tokens the model can read.
    size: usize,
    row: Row,
    rows: Rows,
    /// What is done to each row of a call, for a model that draws.
    steps: Vec<Steps>,
    device: DeviceSampling,
}

impl<'a, D: Drafter, C: Chance> Speculative<'a, D, C> {
    /// Begins a text after `prompt`, with drafts of at most `length` tokens a call.
    ///
    /// # Errors
    /// [`DecodeError::EmptyPrompt`], and the model's error if the prompt does not fit into its context.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        target: &'a Target,
        prompt: &[TokenId],
        limits: Limits,
        drafter: D,
        length: DraftLength,
        chance: C,
    ) -> Result<Self, DecodeError> {
        let size = model.vocabulary_size();
        let begun = Instant::now();
        let sequence = limits.begin(model, prompt)?;
        Ok(Self {
            target,
            limits,
            drafter,
            chance,
            length: Chooser::new(length),
            sequence,
            state: target.transforms.start(prompt),
            text: prompt.to_vec(),
            prompt: prompt.len(),
            ready: VecDeque::new(),
            acceptance: Acceptance::default(),
            stop: None,
            failed: false,
            clock: Box::new(move || begun.elapsed()),
            size,
            row: Row::default(),
            rows: Rows::default(),
            steps: Vec::new(),
            device: DeviceSampling::untried(size),
        })
    }

    /// What ended the text; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        if self.ready.is_empty() { self.stop } else { None }
    }

    /// How drafting went so far.
    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
    }

    /// One call of the target model, or none where a token is decided without: at least one token, unless the text has
    /// ended.
    fn step(&mut self) -> Result<(), DecodeError> {
        let left = self.limits.max_tokens - (self.text.len() - self.prompt);
        let room = self.sequence.capacity() + 1 - self.text.len();
        if left == 0 || room == 0 {
            self.stop = Some(if left == 0 { Stop::Length } else { Stop::Context });
            return Ok(());
        }
        if let Some(token) = self.target.decided(&self.state, &mut self.row) {
            self.push(token);
            return Ok(());
        }
        // The last token of a call needs no draft: it comes from the row after the last draft.
        let limit = self.length.choose().min(left - 1).min(room - 1);
        let begun = (self.clock)();
        let drafts = match limit {
            0 => Vec::new(),
            _ => self.drafter.draft(&self.text, &self.state, limit, &mut self.chance)?,
        };
        let drafted = (self.clock)();
        let accepted_before = self.acceptance.accepted;
        let verified = self.verify(&drafts);
        // The cache keeps what stands; the last token's row is computed with the next call.
        self.sequence.truncate((self.text.len() - 1).min(self.sequence.len()));
        self.length.observe(Call {
            rows: verified?,
            drafted: drafts.len(),
            accepted: self.acceptance.accepted - accepted_before,
            drafting: drafted.saturating_sub(begun),
            verifying: (self.clock)().saturating_sub(drafted),
        });
        Ok(())
    }

    /// Reads the drafts and goes on by those that stand and one token more; how many tokens were read.
    fn verify(&mut self, drafts: &[Draft]) -> Result<usize, DecodeError> {
        let held = self.sequence.len();
        let unseen = self.text.len() - held;
        // A draft of no token of this model is judged, and rejected, but not read.
        let readable = drafts.iter().take_while(|draft| (draft.token as usize) < self.size).count();
        let read = drafts[..readable].iter().map(|draft| draft.token);
        let batch: Vec<TokenId> = self.text[held..].iter().copied().chain(read).collect();
        let chain = Batch::chain(&batch, Wanted::All);
        let mut sampled = self.sampled_by_model(&drafts[..readable], &batch)?;
        if sampled.is_none() {
            self.sequence.forward(&chain, &mut self.rows)?;
        }
        self.acceptance.calls += 1;
        self.acceptance.drafted += drafts.len();
        for i in 0..=readable {
            let draft = drafts.get(i);
            if sampled.as_ref().is_some_and(|tokens| tokens[i].is_none()) {
                // The model found no token: its row can say why.
                sampled = None;
                self.sequence.truncate(held);
                self.sequence.forward(&chain, &mut self.rows)?;
            }
            let token = match sampled.as_ref().and_then(|tokens| tokens[i]) {
                Some(token) => token,
                None => {
                    self.row.load(self.rows.row(unseen - 1 + i));
                    self.target.transforms.apply(&self.state, &mut self.row);
                    self.decide(draft)?
                }
            };
            if !self.push(token) {
                break;
            }
            match draft {
                Some(draft) if draft.token == token => self.acceptance.accepted += 1,
                _ => break,
            }
        }
        Ok(batch.len())
    }

    /// The target's own token after each of the drafts, drawn by the model, if it does that and the drafts are guesses:
    /// then they are compared with those.
    fn sampled_by_model(
        &mut self,
        drafts: &[Draft],
        batch: &[TokenId],
    ) -> Result<Option<Vec<Option<TokenId>>>, DecodeError> {
        let Some(size) = self.device.row().filter(|_| drafts.iter().all(|draft| draft.proposal.is_none())) else {
            return Ok(None);
        };
        self.steps.resize_with(drafts.len() + 1, Steps::default);
        let (first, mut state) = (batch.len() - 1 - drafts.len(), self.state.clone());
        let mut requests = Vec::with_capacity(self.steps.len());
        for (i, steps) in self.steps.iter_mut().enumerate() {
            let Some(number) = self.chance.number(self.text.len() + i) else { return Ok(None) };
            if !self.target.record(&state, &mut self.row, size, steps) {
                return Ok(None);
            }
            let sampler = self.target.sampler;
            requests.push(SampleRequest { item: 0, row: first + i, steps, sampler, number, token: None });
            if let Some(draft) = drafts.get(i) {
                self.target.transforms.advance(&mut state, draft.token);
            }
        }
        if self.sequence.draw(&Batch::chain(batch, Wanted::All), &mut requests)? {
            return Ok(Some(requests.into_iter().map(|request| request.token).collect()));
        }
        self.device.off();
        Ok(None)
    }

    /// Goes on by a token; `false` if that is the end.
    fn push(&mut self, token: TokenId) -> bool {
        if self.limits.end.contains(&token) {
            self.stop = Some(Stop::End);
            return false;
        }
        self.target.transforms.advance(&mut self.state, token);
        self.text.push(token);
        self.ready.push_back(Ok(token));
        true
    }

    /// The token at the end of the text, from the row in `self.row`, given a draft of it.
    fn decide(&mut self, draft: Option<&Draft>) -> Result<TokenId, DecodeError> {
        let position = self.text.len();
        let sampler = self.target.sampler;
        let Some(Draft { token, proposal: Some(q) }) = draft else {
            let token = self.chance.token(sampler, &self.row, position);
            return token.ok_or_else(|| DecodeError::no_token(&self.row, position));
        };
        let p = sampler.distribution(&self.row);
        let (accept, residual) = reject(&p, q, *token).ok_or_else(|| DecodeError::no_token(&self.row, position))?;
        if self.chance.accept(accept, position) {
            return Ok(*token);
        }
        Ok(self.chance.residual(&residual, position))
    }
}

impl<D: Drafter, C: Chance> Iterator for Speculative<'_, D, C> {
    type Item = Result<TokenId, DecodeError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && self.stop.is_none()
            && !self.failed
            && let Err(error) = self.step()
        {
            self.failed = true;
            self.ready.push_back(Err(error));
        }
        self.ready.pop_front()
    }
}

/// The probability that a token drawn from `q` is accepted as one from `p`, and the law of its replacement.
/// `None` where `p` allows no token.
fn reject(p: &[f64], q: &[f64], token: TokenId) -> Option<(f64, Vec<f64>)> {
    if p.iter().sum::<f64>() == 0.0 {
        return None;
    }
    let of = |law: &[f64]| law.get(token as usize).copied().unwrap_or(0.0);
    let (p_token, q_token) = (of(p), of(q));
    // A token that was drawn has q > 0; what is no token of the target has p = 0.
    let accept = if p_token == 0.0 { 0.0 } else { (p_token / q_token).min(1.0) };
    let excess: Vec<f64> =
        p.iter().zip(q.iter().chain(std::iter::repeat(&0.0))).map(|(p, q)| (p - q).max(0.0)).collect();
    let total: f64 = excess.iter().sum();
    // Nothing in excess but a rejection: only rounding can do that.
    let residual = if total > 0.0 { excess.iter().map(|e| e / total).collect() } else { p.to_vec() };
    Some((accept, residual))
}

#[cfg(test)]
mod tests;
