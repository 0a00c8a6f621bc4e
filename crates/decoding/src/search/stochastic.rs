//! Stochastic beam search: texts sampled without replacement.
//!
//! If Gumbel noise is added to the log-probability of every possible text, the texts with the highest sums are a sample
//! without replacement: the first has the distribution itself, the second that distribution without the first text, and
//! so on. The highest sum under a prefix also has a Gumbel distribution, around the prefix's own log-probability. So
//! sums are generated from the root down, those of the children conditioned on their maximum being the parent's sum,
//! and only the best prefixes need to be extended (Kool, van Hoof and Welling, *Stochastic Beams and Where to Find
//! Them*, ICML 2019, section 4.1 and algorithm 1).

use std::sync::Arc;

use verdigris_logits::{Row, TokenId};
use verdigris_models::LanguageModel;

use super::front::{Ends, Front};
use super::{Hypothesis, gumbel};
use crate::limits::Limits;
use crate::target::{DecodeError, Target};

/// A text that was sampled without replacement. The score of its hypothesis is the perturbed log-probability.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// The text.
    pub text: Hypothesis,
    /// The natural logarithm of its probability under the distribution that it was sampled from, after all transforms
    /// and including its end.
    pub sampling_logprob: f64,
    /// The probability that a text with its probability is in the sample, given the threshold.
    pub inclusion: f64,
}

impl Drawn {
    /// The weight of the text in [`Draws::estimate`]: its probability divided by the probability of its inclusion.
    pub fn weight(&self) -> f64 {
        self.sampling_logprob.exp() / self.inclusion
    }
}

/// Texts sampled without replacement, in the order of sampling.
#[derive(Clone, Debug, PartialEq)]
pub struct Draws {
    /// The texts, fewer than requested if the distribution has no more.
    pub texts: Vec<Drawn>,
    /// The perturbed log-probability of the best text that is not among them, or minus infinity if there is none.
    pub threshold: f64,
}

impl Draws {
    /// An unbiased estimate of the mean of a value over the distribution of texts: the sum of the values of these
    /// texts, each times its [weight](Drawn::weight) (Kool et al. 2019, section 4.2).
    #[doc(alias = "importance_weighted")]
    pub fn estimate(&self, value: impl Fn(&Drawn) -> f64) -> f64 {
        self.texts.iter().map(|drawn| drawn.weight() * value(drawn)).sum()
    }

    /// Samples `count` texts after a prompt. Their distribution is that of [`Plain`](crate::Plain) with the same target
    /// and limits. `ends` may end texts for reasons of the caller's.
    ///
    /// # Errors
    /// Those of [`Plain::new`](crate::Plain::new), and [`DecodeError`] if the model fails, or if no token is allowed
    /// after a text.
    #[doc(alias = "stochastic_beam_search")]
    #[doc(alias = "gumbel_top_k")]
    pub fn new(
        model: Arc<dyn LanguageModel>,
        target: &Target,
        prompt: &[TokenId],
        limits: &Limits,
        count: usize,
        ends: Ends<'_>,
    ) -> Result<Self, DecodeError> {
        let mut front = Front::new(model, target, prompt, limits)?;
        let root = gumbel(target.random, front.position(), 0, TokenId::MAX, 0);
        let mut done: Vec<(Hypothesis, f64)> = Vec::new();
        let mut sums = vec![Sums { perturbed: root, distribution: 0.0, logprob: 0.0 }];
        if front.most() == 0 {
            let text = Hypothesis { tokens: Vec::new(), stop: front.at_most(), logprob: 0.0, score: root };
            (done, sums) = (vec![(text, 0.0)], Vec::new());
        }
        // The best text that is left out gives the threshold.
        let kept = count + 1;
        while !sums.is_empty() {
            front.read()?;
            let mut next = continuations(&front, target, &sums, kept)?;
            let mut best: Vec<f64> = done.iter().map(|(text, _)| text.score).collect();
            best.extend(next.iter().map(|(_, _, sums)| sums.perturbed));
            best.sort_unstable_by(|a, b| b.total_cmp(a));
            let bound = best.get(kept - 1).copied().unwrap_or(f64::NEG_INFINITY);
            done.retain(|(text, _)| text.score >= bound);
            next.retain(|(_, _, sums)| sums.perturbed >= bound);
            let mut going = Vec::with_capacity(next.len());
            sums.clear();
            for (of, token, own) in next {
                match front.stop(of, token, ends) {
                    Some(stop) => {
                        let tokens = front.ended(of, token, stop);
                        done.push((
                            Hypothesis { tokens, stop, logprob: own.logprob, score: own.perturbed },
                            own.distribution,
                        ));
                    }
                    None => {
                        going.push((of, token));
                        sums.push(own);
                    }
                }
            }
            front.descend(&going)?;
        }
        done.sort_by(|(a, _), (b, _)| b.score.total_cmp(&a.score));
        let threshold = done.get(count).map_or(f64::NEG_INFINITY, |(text, _)| text.score);
        done.truncate(count);
        let texts = done.into_iter().map(|(text, sampling_logprob)| {
            // The probability that Gumbel noise lifts it above the threshold.
            let inclusion = -(-(sampling_logprob - threshold).exp()).exp_m1();
            Drawn { text, sampling_logprob, inclusion }
        });
        Ok(Self { texts: texts.collect(), threshold })
    }
}

/// Sums over the tokens of a text.
#[derive(Clone, Copy)]
struct Sums {
    /// The highest perturbed log-probability of the texts with this prefix.
    perturbed: f64,
    /// The log-probability after the transforms.
    distribution: f64,
    /// The log-probability under the model itself.
    logprob: f64,
}

/// The continuations with the highest sums of each text.
fn continuations(
    front: &Front<'_>,
    target: &Target,
    sums: &[Sums],
    kept: usize,
) -> Result<Vec<(usize, TokenId, Sums)>, DecodeError> {
    let mut next = Vec::new();
    let mut row = Row::default();
    for (of, before) in sums.iter().enumerate() {
        let (logits, position) = (front.logits(of), front.position());
        row.load(logits);
        let own = row.log_sum_exp().ok_or_else(|| DecodeError::no_token(&row, position))?;
        front.transform(of, &mut row);
        let normalizer = row.log_sum_exp().ok_or_else(|| DecodeError::no_token(&row, position))?;
        let allowed = row.logits().iter().enumerate().filter(|(_, z)| **z > f32::NEG_INFINITY);
        let mut children: Vec<(TokenId, Sums)> = allowed
            .map(|(token, &z)| {
                let distribution = before.distribution + f64::from(z) - normalizer;
                let perturbed = distribution + gumbel(target.random, position, of, token as TokenId, logits.len());
                (
                    token as TokenId,
                    Sums { perturbed, distribution, logprob: before.logprob + f64::from(logits[token]) - own },
                )
            })
            .collect();
        if kept < children.len() {
            children.select_nth_unstable_by(kept, |(_, a), (_, b)| b.perturbed.total_cmp(&a.perturbed));
            children.truncate(kept);
        }
        let highest = children.iter().map(|(_, sums)| sums.perturbed).fold(f64::NEG_INFINITY, f64::max);
        next.extend(children.into_iter().map(|(token, sums)| {
            let perturbed = conditioned(sums.perturbed, highest, before.perturbed);
            (of, token, Sums { perturbed, ..sums })
        }));
    }
    Ok(next)
}

/// A sum conditioned on the highest of its siblings, `highest`, being `bound`: equation 8 of Kool et al. 2019 in the
/// stable variant of their appendix B.3.
fn conditioned(sum: f64, highest: f64, bound: f64) -> f64 {
    let v = bound - sum + log_1m_exp(sum - highest);
    bound - v.max(0.0) - (-v.abs()).exp().ln_1p()
}

/// `ln(1 - exp(x))` for `x` up to 0.
fn log_1m_exp(x: f64) -> f64 {
    if x > -std::f64::consts::LN_2 { (-x.exp_m1()).ln() } else { (-x.exp()).ln_1p() }
}
