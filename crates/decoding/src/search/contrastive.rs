//! Contrastive search: the most probable token that does not repeat what the text already says.
//!
//! Among the `k` most probable tokens the one with the highest `(1 - alpha) p - alpha c` is written, where `p` is its
//! probability and `c`, the degeneration penalty, is the largest cosine between its hidden state and that of any token
//! before it, prompt included (Su et al., *A Contrastive Framework for Neural Text Generation*, NeurIPS 2022, equation
//! 5). The candidates are read in one call, as a tree of depth one, and the cache then keeps the chosen one.

use std::sync::Arc;

use verdigris_logits::transform::ChainState;
use verdigris_logits::warp::{OutOfRange, check};
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, Sequence, Wanted};

use crate::limits::{Limits, Stop};
use crate::target::{DecodeError, Target};

/// The parameters by which a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    alpha: f64,
    top_k: usize,
}

impl Contrast {
    /// The weight of the degeneration penalty, from 0 (the most probable token) to 1, and the number of candidates, at
    /// least 1. The paper uses 0.6 and 4 to 10.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other numbers.
    #[doc(alias = "penalty_alpha")]
    pub fn new(alpha: f64, top_k: usize) -> Result<Self, OutOfRange> {
        check("penalty-alpha", alpha, (0.0..=1.0).contains(&alpha), "at least 0 and at most 1")?;
        check("top-k", top_k as f64, top_k >= 1, "at least 1")?;
        Ok(Self { alpha, top_k })
    }
}

/// A text that contrastive search writes, token by token.
pub struct Contrastive<'a> {
    contrast: Contrast,
    target: &'a Target,
    limits: Limits,
    sequence: Box<dyn Sequence>,
    state: ChainState,
    rows: Rows,
    row: Row,
    /// The model's logits of the next token.
    next: Vec<f32>,
    /// The hidden states of all tokens so far, normalised to length 1.
    states: Vec<f32>,
    prompt: Vec<TokenId>,
    written: usize,
    stop: Option<Stop>,
    failed: bool,
}

impl<'a> Contrastive<'a> {
    /// Begins a text after `prompt`. The target's sampler and seed are not used.
    ///
    /// # Errors
    /// Those of [`Plain::new`](crate::Plain::new), and [`DecodeError::NoHiddenStates`] if the model keeps none.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        target: &'a Target,
        prompt: &[TokenId],
        limits: Limits,
        contrast: Contrast,
    ) -> Result<Self, DecodeError> {
        model.hidden_size().ok_or(DecodeError::NoHiddenStates)?;
        // All candidates are held after the text for a moment.
        let with_candidates = Limits { max_tokens: limits.max_tokens.saturating_add(contrast.top_k), end: Vec::new() };
        Ok(Self {
            contrast,
            target,
            limits,
            sequence: with_candidates.begin(model, prompt)?,
            state: target.transforms.start(prompt),
            rows: Rows::with_hidden(),
            row: Row::default(),
            next: Vec::new(),
            states: Vec::new(),
            prompt: prompt.to_vec(),
            written: 0,
            stop: None,
            failed: false,
        })
    }

    /// The reason that the text ended, or `None` while it continues.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Reads the prompt.
    fn begin(&mut self) -> Result<(), DecodeError> {
        self.sequence.forward(&Batch::chain(&self.prompt, Wanted::Last), &mut self.rows)?;
        self.next.extend_from_slice(self.rows.last());
        for i in 0..self.prompt.len() {
            self.states.extend(unit(self.rows.hidden(i)));
        }
        Ok(())
    }

    /// The candidates, the most probable first, with their probabilities.
    fn candidates(&mut self) -> Result<Vec<(TokenId, f64)>, DecodeError> {
        let Self { row, next, target, state, contrast, .. } = self;
        row.load(next);
        target.transforms.apply(state, row);
        let position = self.prompt.len() + self.written;
        let normalizer = row.log_sum_exp().ok_or_else(|| DecodeError::no_token(row, position))?;
        let mut candidates = row.with_best(contrast.top_k, |best, logits| {
            best.iter()
                .map(|&token| (token, (f64::from(logits[token as usize]) - normalizer).exp()))
                .collect::<Vec<_>>()
        });
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(candidates)
    }

    /// Reads the candidates and chooses one, which is then the last token of the sequence.
    fn choose(&mut self) -> Result<TokenId, DecodeError> {
        let candidates = self.candidates()?;
        let (held, alpha) = (self.sequence.len(), self.contrast.alpha);
        // At the end of the context there is no room for all of them at once.
        let room = (self.sequence.capacity() - held).min(candidates.len());
        let mut best = (f64::NEG_INFINITY, 0, Vec::new());
        for (begin, some) in candidates.chunks(room).enumerate().map(|(i, some)| (i * room, some)) {
            let tokens: Vec<TokenId> = some.iter().map(|&(token, _)| token).collect();
            self.sequence.truncate(held);
            self.sequence.forward(&Batch::tree(&tokens, &vec![None; tokens.len()]), &mut self.rows)?;
            for (i, &(_, chance)) in some.iter().enumerate() {
                let state: Vec<f32> = unit(self.rows.hidden(i)).collect();
                let value = (1.0 - alpha) * chance - alpha * nearest(&self.states, &state);
                if value > best.0 {
                    self.next.clear();
                    self.next.extend_from_slice(self.rows.row(i));
                    best = (value, begin + i, state);
                }
            }
        }
        let (_, chosen, state) = best;
        let token = candidates[chosen].0;
        if room == candidates.len() {
            self.sequence.keep(held, &[chosen])?;
        } else {
            self.sequence.truncate(held);
            self.sequence.forward(&Batch::chain(&[token], Wanted::Last), &mut self.rows)?;
        }
        self.states.extend(state);
        Ok(token)
    }

    /// Writes the next token, if there is one.
    fn step(&mut self) -> Result<Option<TokenId>, DecodeError> {
        if self.stop.is_some() {
            return Ok(None);
        }
        if self.sequence.is_empty() {
            self.begin()?;
        }
        if self.written >= self.limits.max_tokens {
            self.stop = Some(Stop::Length);
            return Ok(None);
        }
        if self.sequence.len() == self.sequence.capacity() {
            self.stop = Some(Stop::Context);
            return Ok(None);
        }
        let token = self.choose()?;
        if self.limits.end.contains(&token) {
            self.stop = Some(Stop::End);
            return Ok(None);
        }
        self.target.transforms.advance(&mut self.state, token);
        self.written += 1;
        Ok(Some(token))
    }
}

impl Iterator for Contrastive<'_> {
    type Item = Result<TokenId, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let token = self.step();
        self.failed = token.is_err();
        token.transpose()
    }
}

/// A hidden state normalised to length 1, or of length 0 if it is zero.
fn unit(state: &[f32]) -> impl Iterator<Item = f32> {
    let length = state.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    state.iter().map(move |x| x / length)
}

/// The largest cosine between one state and some others, all of length 1.
fn nearest(others: &[f32], state: &[f32]) -> f64 {
    let cosine = |other: &[f32]| -> f32 {
        // Sixteen sums, which a CPU computes in parallel.
        let mut sums = [0f32; 16];
        let (others, states) = (other.chunks_exact(16), state.chunks_exact(16));
        let rest: f32 = others.remainder().iter().zip(states.remainder()).map(|(a, b)| a * b).sum();
        for (other, state) in others.zip(states) {
            sums.iter_mut().zip(other.iter().zip(state)).for_each(|(sum, (a, b))| *sum += a * b);
        }
        rest + sums.iter().sum::<f32>()
    };
    others.chunks_exact(state.len()).map(cosine).fold(f32::NEG_INFINITY, f32::max).into()
}
