//! Keyed Gumbel-max: noise that a key makes, added to the distribution that the warpers leave.
//!
//! Aaronson 2022; Kuditipudi et al., *Robust distortion-free watermarks for language models*, TMLR 2024, section 2.
//! With `u` uniform, `argmax(logits - ln(-ln u))` is a sample from `softmax(logits)` (Gumbel 1954): a reader without
//! the key sees the model's own distribution. With the key, `-ln(1 - u)` of the chosen tokens is large, whereas without
//! a mark it is Exp(1).

use std::fmt::Debug;

use verdigris_logits::{Row, TokenId};

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
            let noisy = |token: TokenId| {
                let noise = -(-self.noise.uniform(&context, token).ln()).ln();
                f64::from(logits[token as usize]) + noise
            };
            let best = allowed.iter().map(|&token| (noisy(token), token)).reduce(|a, b| if b.0 > a.0 { b } else { a });
            if let Some((_, best)) = best {
                allowed.iter().filter(|&&token| token != best).for_each(|&t| logits[t as usize] = f32::NEG_INFINITY);
            }
        });
    }

    fn embed_rules(&self) -> EmbedRules {
        self.noise.embed_rules()
    }
}
