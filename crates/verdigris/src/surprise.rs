//! The surprise of a text under a model, for detection with the model.

use verdigris_constrain::Constraint;
use verdigris_detector::DetectError;
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_models::{Batch, Rows, Wanted};
use verdigris_watermark::weighted::{self, Bias, Surprise, Weighting};
use verdigris_watermark::{Detector, Evidence, Key, Mark, Repeats, ScoreDistribution};

use crate::engine::Engine;
use crate::error::Error;

/// The result of detection with the model that is assumed to have written the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighed {
    /// The evidence in the text.
    pub evidence: Evidence,
    /// The evidence that would be expected if it were marked ([`weighted::expected`]).
    pub expected: Evidence,
}

impl Engine {
    /// The surprise of each token of a text under this model at a temperature; `bias` is the bias of the mark divided
    /// by that temperature. A text longer than the model's context is read in windows that overlap by half. If the text
    /// was written under a constraint, the distribution of a token is the model's over the allowed tokens.
    ///
    /// # Errors
    /// [`Error::Model`] if the model fails, and [`Error::Detect`] if the text does not satisfy the constraint.
    pub fn surprises(
        &self,
        tokens: &[TokenId],
        temperature: f64,
        bias: Bias,
        constraint: Option<&Constraint>,
    ) -> Result<Vec<Surprise>, Error> {
        if let Some(constraint) = constraint {
            constraint.choices(b"", tokens).map_err(DetectError::from)?;
        }
        let mut state = constraint.map(|constraint| constraint.start(&[]));
        let context = self.context_length();
        let fresh = (context / 2).max(1);
        let mut surprises = Vec::with_capacity(tokens.len());
        let (mut rows, mut row) = (Rows::default(), Row::default());
        while surprises.len() < tokens.len() {
            let done = surprises.len();
            let start = done.saturating_sub(context - fresh);
            // A token is predicted by the row of the token before it, and the first one by the row of the begin token.
            let mut inputs: Vec<TokenId> =
                if start == 0 { self.prompts.begin.into_iter().collect() } else { Vec::new() };
            let led = inputs.len();
            let end = (start + context - led).clamp(done + 1, tokens.len());
            inputs.extend_from_slice(&tokens[start..end]);
            let mut sequence = self.model.clone().begin(inputs.len())?;
            sequence.forward(&Batch::chain(&inputs, Wanted::All), &mut rows)?;
            for (i, &token) in tokens.iter().enumerate().take(end).skip(done) {
                match (i - start + led).checked_sub(1) {
                    // Without a begin token, nothing predicts the first token.
                    None => surprises.push(Surprise::unknown(bias)),
                    Some(at) => {
                        row.load(rows.row(at));
                        if let (Some(constraint), Some(state)) = (constraint, &state) {
                            constraint.apply(state, &mut row);
                        }
                        surprises.push(surprise(&mut row, token, temperature, bias));
                    }
                }
                match (constraint, &mut state) {
                    (Some(constraint), Some(state)) if i > 0 => constraint.advance(state, token),
                    (Some(constraint), state) => *state = Some(constraint.after_first(token)),
                    (None, _) => (),
                }
            }
        }
        Ok(surprises)
    }

    /// The evidence of a text with tokens weighted by their surprise under this model, for keys of green lists; `None`
    /// for others. `temperature` is the assumed temperature of the text, and `constraint` its constraint: tokens about
    /// which it left no choice are not scored.
    ///
    /// # Errors
    /// [`Error::Detect`] if the key was made for another tokenizer or the text does not satisfy the constraint, and
    /// [`Error::Model`] if the model fails.
    pub fn weigh(
        &self,
        key: &Key,
        tokens: &[TokenId],
        weighting: Weighting,
        temperature: f64,
        repeats: Repeats,
        constraint: Option<&Constraint>,
    ) -> Result<Option<Weighed>, Error> {
        self.reader().fits(key)?;
        let schemes = key.schemes().map_err(DetectError::from)?;
        let ScoreDistribution::Green { gamma } = schemes[0].distribution() else { return Ok(None) };
        let bias = Bias { gamma, delta: key.delta() / temperature };
        let surprises = self.surprises(tokens, temperature, bias, constraint)?;
        let (tried, mut best) = (schemes.len() as f64, None::<Weighed>);
        for scheme in schemes {
            let mut detector = Detector::new(scheme).repeats(repeats);
            let marks = marks(&mut detector, tokens, constraint)?;
            let distribution = detector.distribution();
            let evidence = weighted::evidence(distribution, &marks, &surprises, weighting);
            let expected = weighted::expected(distribution, &marks, &surprises, weighting);
            let Some((evidence, expected)) = evidence.zip(expected) else { return Ok(None) };
            if best.as_ref().is_none_or(|best| evidence.ln_p < best.evidence.ln_p) {
                best = Some(Weighed { evidence: evidence.best_of(tried), expected });
            }
        }
        Ok(best)
    }
}

/// The surprise of a token in a row at a temperature. The row is modified.
pub(crate) fn surprise(row: &mut Row, token: TokenId, temperature: f64, bias: Bias) -> Surprise {
    let entropy = row.entropy().unwrap_or(0.0);
    row.logits_mut().iter_mut().for_each(|z| *z /= temperature as f32);
    Surprise { entropy, ..Surprise::new(&row.distribution(), token as usize, bias) }
}

/// The marks of a text, without tokens about which its constraint left no choice.
pub(crate) fn marks(
    detector: &mut Detector,
    tokens: &[TokenId],
    constraint: Option<&Constraint>,
) -> Result<Vec<Mark>, DetectError> {
    Ok(match constraint {
        Some(constraint) => detector.push_choices(tokens, &constraint.choices(b"", tokens)?),
        None => detector.push(tokens),
    }
    .to_vec())
}
