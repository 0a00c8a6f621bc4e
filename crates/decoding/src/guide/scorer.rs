//! The interface of scorers.

use verdigris_logits::TokenId;
use verdigris_models::ModelError;

/// Scores how probable it is that a text has an attribute, or how good it is: the classifier of classifier guidance.
///
/// # Contract
/// - A score is `ln p(attribute | text + token)`, or any other number for which more is better. `-inf` forbids the
///   token. NaN and `+inf` are invalid: the text ends with an error.
/// - It depends on the text and the token alone, bit for bit, and not on earlier calls or on the other tokens. So texts
///   may fork, and texts that are written at the same time, or ahead as drafts, may be scored in any order. Scorers
///   that read texts incrementally may cache them, as those of this module do.
///
/// A closure over the text and one token is a scorer:
///
/// ```
/// use verdigris_decoding::Scorer;
///
/// // Dislikes to repeat the last token.
/// let scorer = |text: &[u32], token: u32| if text.last() == Some(&token) { -1.0 } else { 0.0 };
/// let mut scores = [0.0; 2];
/// scorer.score(&[5, 7], &[6, 7], &mut scores)?;
/// assert_eq!(scores, [0.0, -1.0]);
/// # Ok::<(), verdigris_models::ModelError>(())
/// ```
pub trait Scorer: Send + Sync {
    /// Writes the score of `text` followed by each of `tokens` into `scores`, which is as long as `tokens`. The text
    /// consists of the prompt and the tokens written so far, and is never empty.
    ///
    /// # Errors
    /// Any error, which ends the text; [`ModelError::Compute`] wraps errors of other kinds.
    fn score(&self, text: &[TokenId], tokens: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError>;
}

impl<F: Fn(&[TokenId], TokenId) -> f32 + Send + Sync> Scorer for F {
    fn score(&self, text: &[TokenId], tokens: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError> {
        scores.iter_mut().zip(tokens).for_each(|(score, &token)| *score = self(text, token));
        Ok(())
    }
}
