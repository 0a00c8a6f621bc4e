//! Beam search and beam sampling, compatible with `generate` of Hugging Face `transformers` 5.
//!
//! In each step every hypothesis is extended by every token. A token adds to the score of a hypothesis its
//! log-probability under the model, after the transforms: as in `transformers` they act on log-probabilities, which are
//! not normalised again. So a penalty or a green list moves scores by the amount that it adds.
//!
//! A hypothesis that ends with one of the best `count` candidates of a step is finished, and its score is divided by
//! its number of tokens, including the end token, to the power of the length penalty. [`EarlyStopping`] determines when
//! the search ends.
//!
//! There are two differences to `transformers`. A hypothesis that the transforms make impossible is dropped, so there
//! may be fewer texts than hypotheses; and of equal scores the earlier hypothesis comes first, then the lower token.

use std::sync::Arc;

use verdigris_logits::warp::{OutOfRange, check};
use verdigris_logits::{Row, TokenId};
use verdigris_models::LanguageModel;

use super::front::{Ends, Front};
use super::{Hypothesis, gumbel};
use crate::limits::Limits;
use crate::target::{DecodeError, Target};

/// The settings of a search with several hypotheses.
#[doc(alias = "num_beams")]
#[doc(alias = "beam_width")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beams {
    count: usize,
    length_penalty: f64,
    early_stopping: EarlyStopping,
    sampled: bool,
}

/// The condition that ends a search.
#[doc(alias = "early_stopping")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyStopping {
    /// When `count` texts are finished, and no hypothesis, if it ended here, would be better than the worst of them.
    #[default]
    False,
    /// When `count` texts are finished.
    True,
    /// When `count` texts are finished, and no hypothesis can become better than the worst of them: assuming the
    /// maximum length if the length penalty is above 0.
    Never,
}

impl Beams {
    /// A search with `count` hypotheses, at least 1.
    ///
    /// # Errors
    /// [`OutOfRange`] if `count` is 0.
    pub fn new(count: usize) -> Result<Self, OutOfRange> {
        check("the number of beams", count as f64, count >= 1, "at least 1")?;
        Ok(Self { count, length_penalty: 1.0, early_stopping: EarlyStopping::default(), sampled: false })
    }

    /// Sets the power of the length by which scores are divided: values above 0 favour longer texts, and 0 disables it;
    /// 1 by default.
    ///
    /// # Errors
    /// [`OutOfRange`] if it is not finite.
    pub fn length_penalty(self, length_penalty: f64) -> Result<Self, OutOfRange> {
        check("the length penalty", length_penalty, length_penalty.is_finite(), "a number")?;
        Ok(Self { length_penalty, ..self })
    }

    /// Sets the condition that ends the search; [`EarlyStopping::False`] by default.
    #[must_use]
    pub fn early_stopping(self, early_stopping: EarlyStopping) -> Self {
        Self { early_stopping, ..self }
    }

    /// Samples the hypotheses of a step without replacement, in proportion to `exp(score)`, instead of taking the best.
    #[doc(alias = "do_sample")]
    #[must_use]
    pub fn sampled(self) -> Self {
        Self { sampled: true, ..self }
    }

    /// The number of hypotheses.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether hypotheses are sampled.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The score by which a text with this number of tokens, including the end token, is ranked.
    fn score(&self, sum: f64, tokens: usize) -> f64 {
        sum / (tokens as f64).powf(self.length_penalty)
    }

    /// Searches for texts after a prompt. Returns at most `count`, best first. The target's sampler is not used, and
    /// its seed only if hypotheses are sampled. `ends` may end texts for reasons of the caller's.
    ///
    /// # Errors
    /// Those of [`Plain::new`](crate::Plain::new), and [`DecodeError`] if the model fails, or if no text can continue
    /// and none is finished.
    pub fn search(
        &self,
        model: Arc<dyn LanguageModel>,
        target: &Target,
        prompt: &[TokenId],
        limits: &Limits,
        ends: Ends<'_>,
    ) -> Result<Vec<Hypothesis>, DecodeError> {
        let mut front = Front::new(model, target, prompt, limits)?;
        if front.most() == 0 {
            return Ok(vec![Hypothesis { tokens: Vec::new(), stop: front.at_most(), logprob: 0.0, score: 0.0 }]);
        }
        // Enough candidates that `count` of them continue, even if all others end.
        let kept = self.count * (front.ends() + 1).max(2);
        let mut sums = vec![Sums::default()];
        let mut finished: Vec<Hypothesis> = Vec::new();
        for length in 1.. {
            front.read()?;
            let candidates = self.candidates(&front, target, &sums, kept)?;
            if candidates.is_empty() && finished.is_empty() {
                return Err(DecodeError::DeadEnd { position: front.position() });
            }
            let mut going = Vec::with_capacity(candidates.len());
            for (rank, candidate) in candidates.into_iter().enumerate() {
                let Candidate { of, token, sums, .. } = candidate;
                match front.stop(of, token, ends) {
                    None => going.push(candidate),
                    Some(stop) if rank < self.count => {
                        let (tokens, score) = (front.ended(of, token, stop), self.score(sums.score, length));
                        finished.push(Hypothesis { tokens, stop, logprob: sums.logprob, score });
                    }
                    Some(_) => (),
                }
            }
            finished.sort_by(|a, b| b.score.total_cmp(&a.score));
            finished.truncate(self.count);
            going.sort_by(|a, b| b.sums.score.total_cmp(&a.sums.score));
            going.truncate(self.count);
            let Some(best) =
                going.first().filter(|best| self.goes_on(&finished, best.sums.score, length, front.most()))
            else {
                return Ok(finished);
            };
            debug_assert!(best.sums.score.is_finite());
            sums = going.iter().map(|candidate| candidate.sums).collect();
            front.descend(&going.iter().map(|candidate| (candidate.of, candidate.token)).collect::<Vec<_>>())?;
        }
        unreachable!("texts end with the most tokens")
    }

    /// Whether texts still being written, of this length and with this best sum, can change the result.
    fn goes_on(&self, finished: &[Hypothesis], best: f64, length: usize, most: usize) -> bool {
        let Some(worst) = finished.last().filter(|_| finished.len() == self.count) else { return true };
        let length = match self.early_stopping {
            EarlyStopping::True => return false,
            EarlyStopping::Never if self.length_penalty > 0.0 => most,
            EarlyStopping::Never | EarlyStopping::False => length,
        };
        self.score(best, length) > worst.score
    }

    /// The best continuations of all texts, best first; or the sampled ones, in the order of sampling.
    fn candidates(
        &self,
        front: &Front<'_>,
        target: &Target,
        sums: &[Sums],
        kept: usize,
    ) -> Result<Vec<Candidate>, DecodeError> {
        let (mut row, mut noisy) = (Row::default(), Row::default());
        let mut candidates = Vec::new();
        for (of, sums) in sums.iter().enumerate() {
            let logits = front.logits(of);
            row.load(logits);
            let normalizer = row.log_sum_exp().ok_or_else(|| DecodeError::no_token(&row, front.position()))?;
            row.logits_mut().iter_mut().for_each(|z| *z = (f64::from(*z) - normalizer) as f32);
            front.transform(of, &mut row);
            if row.is_broken() {
                return Err(DecodeError::NotNumbers { position: front.position() });
            }
            let of_token = |token: TokenId, gained: f32, order: f32| Candidate {
                of,
                token,
                order: sums.score + f64::from(order),
                sums: Sums {
                    score: sums.score + f64::from(gained),
                    logprob: sums.logprob + f64::from(logits[token as usize]) - normalizer,
                },
            };
            if !self.sampled {
                row.with_best(kept, |best, gained| {
                    let each = best.iter().map(|&token| (token, gained[token as usize]));
                    candidates.extend(each.map(|(token, gained)| of_token(token, gained, gained)));
                });
                continue;
            }
            noisy.load(row.logits());
            let (gained, size) = (row.logits(), row.len());
            for (token, z) in noisy.logits_mut().iter_mut().enumerate().filter(|(_, z)| **z > f32::NEG_INFINITY) {
                *z += gumbel(target.random, front.position(), of, token as TokenId, size) as f32;
            }
            noisy.with_best(kept, |best, order| {
                let each = best.iter().map(|&token| (token, token as usize));
                candidates.extend(each.map(|(token, at)| of_token(token, gained[at], order[at])));
            });
        }
        candidates.sort_by(|a, b| b.order.total_cmp(&a.order).then((a.of, a.token).cmp(&(b.of, b.token))));
        candidates.truncate(kept);
        Ok(candidates)
    }
}

/// Sums over the tokens of a text.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// Log-probabilities after the transforms.
    score: f64,
    /// Log-probabilities of the model itself.
    logprob: f64,
}

/// A text with one more token.
struct Candidate {
    of: usize,
    token: TokenId,
    /// The value by which it is chosen in this step.
    order: f64,
    sums: Sums,
}
