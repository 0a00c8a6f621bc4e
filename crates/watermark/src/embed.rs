//! Embedding: the watermark as a step on a row of logits.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::{Row, TokenId, Transform};

use crate::scheme::{MAX_CONTEXT, Scheme};

/// How strongly green tokens are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "StrengthForm")]
pub enum Strength {
    /// `delta` is added to the logits of green tokens (KGW algorithm 2).
    Soft(f64),
    /// Red tokens are forbidden (KGW algorithm 1). Where no green token is allowed, all stay.
    Hard,
}

/// A bias that is not a positive number.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("delta is {0}, but must be above 0 and at most 100")]
pub struct BadDelta(f64);

impl Strength {
    /// A soft watermark with bias `delta`, above 0 and at most 100.
    pub fn soft(delta: f64) -> Result<Self, BadDelta> {
        if delta > 0.0 && delta <= 100.0 { Ok(Self::Soft(delta)) } else { Err(BadDelta(delta)) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StrengthForm {
    Soft(f64),
    Hard,
}

impl TryFrom<StrengthForm> for Strength {
    type Error = BadDelta;
    fn try_from(form: StrengthForm) -> Result<Self, BadDelta> {
        match form {
            StrengthForm::Soft(delta) => Self::soft(delta),
            StrengthForm::Hard => Ok(Self::Hard),
        }
    }
}

/// The watermark as a [`Transform`]. Its state is the end of the text: prompt and output alike.
///
/// Where fewer tokens stand before a position than the scheme looks at, the row stays as it is.
#[derive(Clone, Debug)]
pub struct Embed {
    scheme: Arc<dyn Scheme>,
    strength: Strength,
}

impl Embed {
    /// Embeds what `scheme` detects.
    pub fn new(scheme: Arc<dyn Scheme>, strength: Strength) -> Self {
        Self { scheme, strength }
    }
}

/// The last few tokens, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tail {
    tokens: [TokenId; MAX_CONTEXT],
    len: usize,
}

impl Transform for Embed {
    type State = Tail;

    fn start(&self, prompt: &[TokenId]) -> Tail {
        let mut tail = Tail::default();
        prompt.iter().for_each(|&token| self.advance(&mut tail, token));
        tail
    }

    fn apply(&self, tail: &Tail, row: &mut Row) {
        let width = self.scheme.context_width();
        if tail.len < width {
            return;
        }
        let context = &tail.tokens[tail.len - width..tail.len];
        row.with_set(self.scheme.vocabulary_size(), |row, green| {
            self.scheme.green_list(context, green);
            match self.strength {
                Strength::Soft(delta) => row.bias(green, delta as f32),
                Strength::Hard => {
                    if green.iter().any(|t| row.logits().get(t as usize).is_some_and(|&z| z > f32::NEG_INFINITY)) {
                        row.restrict(green);
                    }
                }
            }
        });
    }

    fn advance(&self, tail: &mut Tail, token: TokenId) {
        if tail.len == MAX_CONTEXT {
            tail.tokens.copy_within(1.., 0);
            tail.len -= 1;
        }
        tail.tokens[tail.len] = token;
        tail.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, ContextFunction, Evidence, Gamma, Native};
    use verdigris_logits::{Purpose, Random, Sampler};

    const VOCABULARY: usize = 300;

    fn scheme(function: ContextFunction, width: usize) -> Arc<dyn Scheme> {
        let gamma = Gamma::new(0.25).unwrap();
        Arc::new(Native::new(&[3; 32], "id", "", gamma, Context { function, width }, VOCABULARY).unwrap())
    }

    fn write(embed: Option<&Embed>, n: u64) -> Vec<TokenId> {
        let mut row = Row::default();
        let mut text = vec![1, 2, 3];
        let mut state = embed.map(|embed| embed.start(&text));
        for position in 0..n {
            row.load(&[0.0; VOCABULARY]);
            if let (Some(embed), Some(state)) = (embed, &state) {
                embed.apply(state, &mut row);
            }
            let token = Sampler::Categorical.sample(&row, Random::new(1).uniform(position, Purpose::Token)).unwrap();
            if let (Some(embed), Some(state)) = (embed, &mut state) {
                embed.advance(state, token);
            }
            text.push(token);
        }
        text
    }

    #[test]
    fn what_is_embedded_is_detected_by_its_key_alone() {
        for (function, width) in
            [(ContextFunction::All, 1), (ContextFunction::Min, 4), (ContextFunction::SelfSalted, 2)]
        {
            for strength in [Strength::Soft(2.0), Strength::Hard] {
                let scheme = scheme(function, width);
                let marked = write(Some(&Embed::new(scheme.clone(), strength)), 200);
                let evidence = Evidence::of(scheme.clone(), &marked);
                assert!(evidence.z > 6.0 && evidence.ln_p < -30.0, "{function:?} {strength:?} {evidence:?}");
                if strength == Strength::Hard {
                    // All of the output is green; the three tokens of the prompt may not be.
                    assert!(evidence.green + 3 >= evidence.scored, "{evidence:?}");
                }
                assert!(Evidence::of(scheme, &write(None, 200)).p() > 1e-3);
            }
        }
    }

    #[test]
    fn a_context_too_short_changes_nothing() {
        let embed = Embed::new(scheme(ContextFunction::All, 4), Strength::Hard);
        let mut row = Row::from(vec![0.0; VOCABULARY]);
        embed.apply(&embed.start(&[1, 2, 3]), &mut row);
        assert!(row.logits().iter().all(|&z| z == 0.0));
        embed.apply(&embed.start(&[1, 2, 3, 4]), &mut row);
        assert!(row.logits().contains(&f32::NEG_INFINITY));
    }

    #[test]
    fn hard_never_leaves_nothing() {
        let embed = Embed::new(scheme(ContextFunction::All, 1), Strength::Hard);
        let state = embed.start(&[7]);
        let mut all = Row::from(vec![0.0; VOCABULARY]);
        embed.apply(&state, &mut all);
        let red = all.logits().iter().position(|z| z.is_infinite()).unwrap();
        let mut only = Row::from(vec![f32::NEG_INFINITY; VOCABULARY]);
        only.logits_mut()[red] = 1.0;
        embed.apply(&state, &mut only);
        assert_eq!(only.logits()[red], 1.0);
    }

    #[test]
    fn a_vocabulary_smaller_than_the_row_leaves_the_padding_alone() {
        let embed = Embed::new(scheme(ContextFunction::All, 1), Strength::Soft(2.0));
        let mut row = Row::from(vec![0.0; VOCABULARY + 100]);
        embed.apply(&embed.start(&[7]), &mut row);
        assert!(row.logits()[VOCABULARY..].iter().all(|&z| z == 0.0));
    }

    #[test]
    fn delta_out_of_range_is_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Strength::soft(bad).is_err());
        }
    }
}
