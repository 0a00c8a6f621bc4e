//! Perplexity: a measure of how well a model predicts a text.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{Batch, LanguageModel, ModelError, Rows, Wanted};

use crate::target::DecodeError;

/// The surprise of a model at some text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Perplexity {
    /// The number of predicted tokens.
    pub tokens: usize,
    /// The sum of their surprise, `-ln p`, in nats.
    pub nats: f64,
}

impl Perplexity {
    /// The mean surprise, in nats a token.
    pub fn loss(&self) -> f64 {
        self.nats / self.tokens as f64
    }

    /// The perplexity: `exp` of the loss.
    pub fn value(&self) -> f64 {
        self.loss().exp()
    }
}

/// Computes the perplexity of windows of text. Each window is read separately, and every token but its first is
/// predicted from the tokens before it.
///
/// # Errors
/// [`DecodeError::Model`], for instance for a window longer than the model's context or with a token that the model
/// does not know.
#[doc(alias = "score")]
pub fn perplexity<'a>(
    model: &Arc<dyn LanguageModel>,
    windows: impl IntoIterator<Item = &'a [TokenId]>,
) -> Result<Perplexity, DecodeError> {
    let (mut sum, mut rows) = (Perplexity::default(), Rows::default());
    for window in windows {
        let Some((_, inputs)) = window.split_last() else { continue };
        let mut sequence = model.clone().begin(inputs.len())?;
        sequence.forward(&Batch::chain(inputs, Wanted::All), &mut rows)?;
        for (i, &next) in window[1..].iter().enumerate() {
            let (row, size) = (rows.row(i), rows.row(i).len());
            let &logit = row.get(next as usize).ok_or(ModelError::UnknownToken { token: next, size })?;
            sum.nats += log_sum_exp(row) - f64::from(logit);
            sum.tokens += 1;
        }
    }
    Ok(sum)
}

/// The logarithm of the sum of `exp(logit)`, in 64 bits throughout, since sums over millions of tokens are compared.
fn log_sum_exp(row: &[f32]) -> f64 {
    let max = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    max + row.iter().map(|&z| (f64::from(z) - max).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn perplexity_is_of_the_sum_of_surprises() {
        let table = Table::noise(5, 1);
        let model: Arc<dyn LanguageModel> = table.clone();
        let surprise = |from: u32, to: usize| {
            let weights: Vec<f64> = table.row(from).iter().map(|&z| f64::from(z).exp()).collect();
            -(weights[to] / weights.iter().sum::<f64>()).ln()
        };
        let found = perplexity(&model, [&[0, 3, 2][..], &[], &[4], &[1, 1]]).unwrap();
        assert_eq!(found.tokens, 3);
        assert!((found.nats - surprise(0, 3) - surprise(3, 2) - surprise(1, 1)).abs() < 1e-9);
        assert!((found.value().ln() - found.nats / 3.0).abs() < 1e-12);
        for window in [&[0, 9][..], &[9, 0]] {
            let unknown = perplexity(&model, [window]).unwrap_err();
            assert!(matches!(unknown, DecodeError::Model(ModelError::UnknownToken { token: 9, .. })), "{unknown}");
        }
    }
}
