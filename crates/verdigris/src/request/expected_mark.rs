//! The strength of the mark that a text can carry.

use verdigris_logits::{Row, Transform};
use verdigris_watermark::weighted::{self, Bias, Weighting};
use verdigris_watermark::{Detector, Evidence, Mark, ScoreDistribution};

use crate::error::Error;
use crate::request::reread::each_row;
use crate::request::{Request, Written};
use crate::surprise::{marks, surprise};

impl Request<'_> {
    /// The evidence that is expected, on average over keys, in a text with the same choices as this one:
    /// [`weighted::expected`], with equal weights for all scored tokens. The model reads the prompt and the text again,
    /// with its experts and the constraint. `None` without a key of green lists, and at temperature 0.
    ///
    /// # Errors
    /// Those of [`Request::text`], and [`Error::Detect`] if the text does not satisfy the constraint, which can happen
    /// if a stop string ended it.
    pub fn expected_mark(&self, written: &Written) -> Result<Option<Evidence>, Error> {
        let marks_all = self.mark.after.is_none_or(|nats| nats == 0.0);
        let Some(key) = self.mark.key.filter(|_| marks_all && self.sampling.temperature > 0.0) else { return Ok(None) };
        // The variants of a key differ in their lists, over which this is a mean.
        let scheme = self.engine.reader().scheme(&key.variant(0))?;
        let ScoreDistribution::Green { gamma } = scheme.distribution() else { return Ok(None) };
        let bias = Bias { gamma, delta: key.delta() / self.sampling.temperature };
        let (answer, prompt) = (self.constraint_asked_for()?, self.prompt_tokens(&self.prompt)?);
        let constraint = self.structure(&self.prompt, &prompt, answer.as_ref())?.whole;
        let model = self.text_model(&self.prompt, &prompt.read)?;
        let tokens = &written.tokens[..];
        let mut state = constraint.as_ref().map(|constraint| constraint.start(&prompt.read));
        let (mut row, mut surprises) = (Row::default(), Vec::with_capacity(tokens.len()));
        each_row(model.model(), &prompt.read, tokens, |logits| {
            let token = tokens[surprises.len()];
            row.load(logits);
            if let (Some(constraint), Some(state)) = (&constraint, &mut state) {
                constraint.apply(state, &mut row);
                constraint.advance(state, token);
            }
            surprises.push(surprise(&mut row, token, self.sampling.temperature, bias));
            Ok(())
        })?;
        let mut detector = Detector::new(scheme);
        let mut marks = marks(&mut detector, tokens, constraint.as_ref())?;
        if let Some(healing) = &prompt.healing {
            let of_prompt = healing.tokens_of_prompt(tokens);
            marks[..of_prompt].fill(Mark::Unscored);
        }
        let weighting = Weighting::Sweet(self.mark.entropy_threshold.unwrap_or(f64::NEG_INFINITY));
        Ok(weighted::expected(detector.distribution(), &marks, &surprises, weighting))
    }
}
