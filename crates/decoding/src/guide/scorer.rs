//! Who is asked about the tokens that may come.

use verdigris_logits::TokenId;
use verdigris_models::ModelError;

/// Says of a text how probable it is that it has an attribute, or how good it is: the classifier of classifier
/// guidance.
///
/// # Contract
/// - A score is `ln p(attribute | text + token)`, or any other number of which more is better. `-inf` forbids the
///   token. NaN and `+inf` are no scores: the text ends with an error.
/// - It depends on the text and the token alone, bit for bit, and not on what was asked before or with which other
///   tokens. So texts may fork, and those that are written side by side, or ahead as drafts, may be asked about in any
///   order. Who reads texts bit by bit may remember them, as those of this module do.
///
/// A closure over the text and one token is one:
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
    /// Writes the score of `text` followed by each of `tokens` into `scores`, which is as long as `tokens`. The text is
    /// the prompt and what is written, and never empty.
    ///
    /// # Errors
    /// What ends the text; [`ModelError::Compute`] takes any error.
    fn score(&self, text: &[TokenId], tokens: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError>;
}

impl<F: Fn(&[TokenId], TokenId) -> f32 + Send + Sync> Scorer for F {
    fn score(&self, text: &[TokenId], tokens: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError> {
        scores.iter_mut().zip(tokens).for_each(|(score, &token)| *score = self(text, token));
        Ok(())
    }
}
