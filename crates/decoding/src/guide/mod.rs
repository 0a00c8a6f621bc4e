//! Guided decoding: a scorer judges every token.
//!
//! The likeliest tokens are tried, each as the end of the text so far, and the [`Scorer`]'s score of the result is
//! added to their logits; all others are excluded:
//!
//! ```text
//! z[t] += weight * score(text + t)    for the k tokens with the largest z
//! z[t]  = -inf                        for all others
//! ```
//!
//! So if the score is `ln p(attribute | text + t)`, the distribution is `base * p(attribute | text + t)^weight` over
//! those tokens, normalised:
//!
//! | method | the score | module |
//! |---|---|---|
//! | FUDGE (Yang and Klein, *FUDGE: Controlled Text Generation With Future Discriminators*, NAACL 2021, section 3) | a classifier's log-probability; the authors take k = 200 and weight 1 | `reward` |
//! | GeDi (Krause et al., arXiv:2009.06367) | the posterior of a class under language models of classes; the authors take weight 30 | `classes` |
//! | ARGS (Khanov et al., *ARGS: Alignment as Reward-Guided Search*, arXiv:2402.01694, equation 1) | a reward | `reward` |
//! | custom | any function of the text and the token | `scorer` |
//!
//! `readings` holds the texts that a scorer has read. The restriction to the k likeliest tokens replaces GeDi's filter
//! of the vocabulary.

mod classes;
mod readings;
mod reward;
mod scorer;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::ModelError;

pub use classes::{ClassScorer, TextClass};
pub use reward::{RewardScorer, ScoreKind};
pub use scorer::Scorer;

/// A scorer as a transform. It calls the scorer for every token, and allocates.
#[doc(alias = "classifier_guidance")]
#[doc(alias = "args")]
#[doc(alias = "fudge")]
pub struct Guide {
    scorer: Arc<dyn Scorer>,
    weight: f32,
    top_k: usize,
    fault: Mutex<Option<ModelError>>,
}

impl Guide {
    /// A guide that tries the `top_k` likeliest tokens.
    ///
    /// # Panics
    /// If the weight is not finite, or `top_k` is 0.
    pub fn new(scorer: Arc<dyn Scorer>, weight: f32, top_k: usize) -> Self {
        assert!(weight.is_finite() && top_k > 0, "{weight} for {top_k} tokens");
        Self { scorer, weight, top_k, fault: Mutex::default() }
    }

    /// Takes the error of the scorer, after a text has ended with one: a transform cannot return it.
    pub fn fault(&self) -> Option<ModelError> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The change of the logit of a token with this score.
    fn shift(&self, score: f32) -> f32 {
        // A forbidden token stays forbidden, whatever the weight.
        if score == f32::NEG_INFINITY { score } else { self.weight * score }
    }
}

impl Transform for Guide {
    /// The tokens so far.
    type State = Vec<TokenId>;

    fn start(&self, prompt: &[TokenId]) -> Vec<TokenId> {
        prompt.to_vec()
    }

    fn apply(&self, state: &Vec<TokenId>, row: &mut Row) {
        // Without logits the likeliest tokens are unknown.
        if !row.has_logits() {
            return;
        }
        let mut best = row.with_best(self.top_k, |best, _| best.to_vec());
        if best.is_empty() {
            return;
        }
        best.sort_unstable();
        let mut scores = vec![0.0; best.len()];
        let scored = self.scorer.score(state, &best, &mut scores);
        let logits = row.logits_mut();
        if let Err(fault) = scored {
            // A row that is not a distribution ends the text.
            *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
            logits.fill(f32::NAN);
            return;
        }
        let mut tried = best.iter().zip(scores).peekable();
        for (token, logit) in (0..).zip(logits) {
            match tried.next_if(|(best, _)| **best == token) {
                Some((_, score)) => *logit += self.shift(score),
                None => *logit = f32::NEG_INFINITY,
            }
        }
    }

    fn advance(&self, state: &mut Vec<TokenId>, token: TokenId) {
        state.push(token);
    }
}
