//! Keyed Gumbel-max: noise that a key makes, added to the distribution that the warpers leave.
//!
//! Aaronson 2022; Kuditipudi et al., *Robust distortion-free watermarks for language models*, TMLR 2024, section 2.
//! With `u` uniform, `argmax(logits - ln(-ln u))` is a sample from `softmax(logits)` (Gumbel 1954): a reader without
//! the key sees the model's own distribution. With the key, `-ln(1 - u)` of the chosen tokens is large, whereas without
//! a mark it is Exp(1).

use std::f64::consts::LN_2;
use std::fmt::Debug;

use verdigris_logits::{Row, TokenId};

use super::native::BATCH;
use crate::real::ln_1p;
use crate::scheme::{ByPosition, EmbedRules, Observation, Scheme, Stage, identity, name};
use crate::score_distribution::ScoreDistribution;
use crate::strength::Strength;

/// A source of noise.
pub(crate) trait Noise: Send + Sync + Debug {
    /// The state that a context determines.
    type Context;

    /// Computes the state of a context.
    fn context(&self, tokens: &[TokenId]) -> Self::Context;

    /// The name of a context. Contexts with the same noise have the same name.
    fn name(&self, tokens: &[TokenId], _: &Self::Context) -> u64 {
        name(tokens)
    }

    /// Whether the mark is written after a context with this state.
    fn writes(&self, _: &Self::Context) -> bool {
        true
    }

    /// Whether the mark is read there.
    fn reads(&self, _: &Self::Context) -> bool {
        true
    }

    /// The uniform number in (0, 1) that decides about a token while writing.
    fn uniform(&self, context: &Self::Context, token: TokenId) -> f64;

    /// The uniform numbers of up to [`BATCH`] tokens.
    fn uniforms(&self, context: &Self::Context, tokens: &[TokenId], out: &mut [f64; BATCH]) {
        for (u, &token) in out.iter_mut().zip(tokens) {
            *u = self.uniform(context, token);
        }
    }

    /// The score of a token for the mark.
    fn score(&self, context: &Self::Context, token: TokenId) -> f64 {
        score(self.uniform(context, token))
    }

    /// The distribution of a score without a mark.
    fn distribution(&self) -> ScoreDistribution {
        ScoreDistribution::Exponential
    }

    /// Judges the last token of a window in the context of the tokens before it.
    fn observation(&self, window: &[TokenId]) -> Observation {
        let (&token, before) = window.split_last().expect("a window has at least one token");
        let noise = self.context(before);
        let context = self.name(before, &noise);
        let score = if self.reads(&noise) { self.score(&noise, token) as f32 } else { f32::NAN };
        Observation { context, identity: identity(context, token), score }
    }

    /// Judges `tokens[width..]`, as [`Scheme::observe`] does.
    fn observe(&self, width: usize, tokens: &[TokenId], out: &mut Vec<Observation>) {
        out.extend(tokens.windows(width + 1).map(|window| self.observation(window)));
    }

    /// The scores of single positions: see [`Scheme::by_position`].
    fn by_position(&self) -> Option<&dyn ByPosition> {
        None
    }

    /// The rules for writing.
    fn embed_rules(&self) -> EmbedRules;
}

/// The score of a token with the uniform number `u`.
pub(crate) fn score(u: f64) -> f64 {
    -ln_1p(-u)
}

/// A bound of the noise `-ln(-ln u)` that takes no logarithm: `-ln u` is at least `1 - u`, whose exponent is known.
fn most_noise(u: f64) -> f64 {
    let exponent = ((1.0 - u).to_bits() >> 52) as f64 - 1023.0;
    // A little more than the error of the logarithms.
    1e-6 - exponent * LN_2
}

/// The rules that Gumbel dialects share: they act on warped rows and mark no context twice.
pub(crate) const RULES: EmbedRules = EmbedRules {
    stage: Stage::Warped,
    padding: None,
    judges_beginning: false,
    sees_prompt: true,
    memory: 4096,
    after: 0.0,
};

/// A watermark made of noise.
#[derive(Debug)]
pub(crate) struct Gumbel<N> {
    pub(super) noise: N,
    /// The number of tokens before the judged one that take part.
    pub(super) width: usize,
    pub(super) vocabulary: usize,
}

impl<N: Noise> Scheme for Gumbel<N> {
    fn distribution(&self) -> ScoreDistribution {
        self.noise.distribution()
    }

    fn context_width(&self) -> usize {
        self.width
    }

    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        self.noise.observe(self.width, tokens, out);
    }

    fn by_position(&self) -> Option<&dyn ByPosition> {
        self.noise.by_position()
    }

    fn context_decides(&self) -> bool {
        true
    }

    fn context_name(&self, context: &[TokenId]) -> u64 {
        self.noise.name(context, &self.noise.context(context))
    }

    /// Leaves one token allowed.
    #[expect(clippy::disallowed_methods, reason = "it writes, and is on the way to no p-value")]
    fn mark(&self, context: &[TokenId], _: Strength, row: &mut Row) {
        let context = self.noise.context(context);
        if !self.noise.writes(&context) {
            return;
        }
        row.with_allowed(|allowed, logits| {
            let mut uniforms = [0.5; BATCH];
            let mut best: Option<(f64, TokenId)> = None;
            for tokens in allowed.chunks(BATCH) {
                self.noise.uniforms(&context, tokens, &mut uniforms);
                for (&token, &u) in tokens.iter().zip(&uniforms) {
                    let logit = f64::from(logits[token as usize]);
                    if best.is_some_and(|(best, _)| logit + most_noise(u) < best) {
                        continue;
                    }
                    let noisy = logit - (-u.ln()).ln();
                    if best.is_none_or(|(best, _)| noisy > best) {
                        best = Some((noisy, token));
                    }
                }
            }
            if let Some((_, best)) = best {
                allowed.iter().filter(|&&token| token != best).for_each(|&t| logits[t as usize] = f32::NEG_INFINITY);
            }
        });
    }

    fn embed_rules(&self) -> EmbedRules {
        self.noise.embed_rules()
    }
}

#[cfg(test)]
mod tests {
    use verdigris_logits::random::philox4x32;

    use super::*;

    #[test]
    fn noise_is_bounded() {
        let few = [f64::MIN_POSITIVE, 2f64.powi(-53), 0.5, 1.0 - 2f64.powi(-53), 1.0 - 2f64.powi(-30)];
        let many = (0..100_000).map(|i| {
            let [a, b, ..] = philox4x32([i, 0, 0, 0], [3, 8]);
            let small = (f64::from(a) + 0.5) / 4_294_967_296.0 * 0.5f64.powi(b as i32 & 15);
            if b >> 31 == 0 { small } else { 1.0 - small }
        });
        for u in few.into_iter().chain(many) {
            let (noise, most) = (-(-u.ln()).ln(), most_noise(u));
            assert!(noise <= most && (u < 0.5 || most < noise + 1.1), "{u}: {noise} {most}");
        }
    }
}
