//! The origin of each token of a text, and the effect of each step on the row that it was sampled from.

use verdigris_decoding::Provenance;
use verdigris_decoding::{DecodeError, Target};
use verdigris_logits::transform::ChainState;
use verdigris_logits::warp::TopK;
use verdigris_logits::{Row, TokenId, TokenSet, Transform};
use verdigris_watermark::{Embed, MarkScore};

use crate::error::Error;
use crate::request::Request;
use crate::request::healing::Healing;
use crate::request::structure::Structure;

/// A token of a text, its origin, and the effect of each step on the row that it was sampled from.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// The token.
    pub token: TokenId,
    /// Its text. Bytes that are not a valid character become U+FFFD.
    pub text: String,
    /// Its origin.
    pub origin: TokenOrigin,
    /// The natural logarithm of its probability under the model (with its experts), before any step.
    pub model_logprob: f64,
    /// The natural logarithm of its probability after all steps, with which it was sampled. At temperature 0 the most
    /// probable token is taken regardless of this; contrastive search is a step that leaves one token.
    pub logprob: f64,
    /// The steps that changed the row, in the order listed at [`Request`].
    pub steps: Vec<StepEffect>,
    /// The token's score for the mark. `None` without a key, or if the key does not mark this token, because there are
    /// too few tokens before it or because of [`Request::entropy_threshold`].
    pub mark: Option<MarkScore>,
}

/// The origin of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenOrigin {
    /// Computed by a call of the model.
    Computed,
    /// Computed by a call of the model, instead of a draft that was rejected.
    Corrected,
    /// An accepted draft. The name is that of the method of [`Request`] that selects the drafter, such as `lookup`.
    Drafted(&'static str),
    /// Decided without a call: the step with this [name](StepEffect::name) allowed no other token.
    Decided(&'static str),
}

/// The effect of a step on a row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepEffect {
    /// The method of [`Request`] that adds the step, such as `top_p`. `biases` and `penalties` are several methods in
    /// one step, and `padding` forbids ids that are not tokens.
    pub name: &'static str,
    /// The number of tokens allowed after the step.
    pub allowed: usize,
    /// The number of tokens that it forbade.
    pub forbidden: usize,
    /// The amount that it added to the logit of the written token.
    pub shift: f32,
    /// The natural logarithm of the token's probability after the step.
    pub logprob: f64,
}

impl Request<'_> {
    /// The origin of a token, with the names of steps and drafters; `decided_by` is the step that decides its position.
    fn origin(&self, provenance: Provenance, decided_by: Option<&'static str>) -> TokenOrigin {
        match provenance {
            Provenance::Computed => TokenOrigin::Computed,
            Provenance::Corrected => TokenOrigin::Corrected,
            Provenance::Decided => TokenOrigin::Decided(decided_by.unwrap_or_default()),
            Provenance::Drafted { way } => TokenOrigin::Drafted(self.drafting.name(way)),
        }
    }
}

/// Explains the tokens of a text, one after the other.
pub(super) struct Explainer<'a> {
    request: &'a Request<'a>,
    names: Vec<&'static str>,
    /// The mark, and its state after the text so far.
    mark: Option<(Embed, <Embed as Transform>::State)>,
    /// The end of the prompt that the text begins with, and the number of its bytes that are left.
    healing: Option<(Healing, usize)>,
    /// The logits before a step.
    before: Vec<f32>,
    explained: Vec<Explained>,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(
        request: &'a Request<'a>,
        target: &Target,
        prompt: &[TokenId],
        structure: &Structure,
    ) -> Result<Self, Error> {
        let mark = request.mark.key.map(|key| request.embed(key, target.random)).transpose()?;
        Ok(Self {
            request,
            names: target.transforms.names().collect(),
            mark: mark.map(|embed| (embed.start(prompt), embed)).map(|(state, embed)| (embed, state)),
            healing: structure.healing.clone().map(|healing| (healing.rest(), healing)).map(|(rest, of)| (of, rest)),
            before: Vec::new(),
            explained: Vec::new(),
        })
    }

    /// Applies all steps to the model's row of a token, and records their effects.
    pub(super) fn explain(
        &mut self,
        target: &Target,
        state: &ChainState,
        row: &mut Row,
        (token, provenance): (TokenId, Provenance),
        position: usize,
    ) -> Result<(), DecodeError> {
        let Self { request, names, mark, healing, before, explained } = self;
        let logprob = |row: &Row| row.log_sum_exp().map(|sum| f64::from(row.logits()[token as usize]) - sum);
        let model_logprob = logprob(row).ok_or(DecodeError::NotNumbers { position })?;
        let (mut steps, mut allowed, mut last) = (Vec::new(), count_allowed(row.logits()), model_logprob);
        before.clear();
        before.extend_from_slice(row.logits());
        let mut note = |name: &'static str, row: &mut Row| {
            if row.logits() == &before[..] {
                return;
            }
            let left = count_allowed(row.logits());
            let shift = match (row.logits()[token as usize], before[token as usize]) {
                (after, before) if after == before => 0.0,
                (after, before) => after - before,
            };
            // A row without allowed tokens has no distribution.
            last = logprob(row).unwrap_or(f64::NEG_INFINITY);
            let forbidden = allowed.saturating_sub(left);
            steps.push(StepEffect { name, allowed: left, forbidden, shift, logprob: last });
            allowed = left;
            before.clear();
            before.extend_from_slice(row.logits());
        };
        let is_of_prompt = healing.as_ref().is_some_and(|(_, rest)| *rest > 0);
        // Whether the token is marked depends on the row before the watermark.
        let watermark = names.iter().position(|name| *name == "watermark");
        let has_choice = |row: &Row| mark.as_ref().is_some_and(|(embed, _)| embed.has_choice(row));
        let mut is_marked = watermark == Some(0) && has_choice(row);
        target.transforms.apply_each(state, row, |step, row| {
            note(names[step], row);
            if watermark == Some(step + 1) {
                is_marked = has_choice(row);
            }
        });
        // Contrastive search acts like a top-k, and then chooses one of its tokens.
        if let (Some(_), Some(k)) = (request.penalty_alpha, request.sampling.top_k) {
            let distribution = row.logits().to_vec();
            TopK::new(k).expect("it has been tried").apply(&(), row);
            note("top_k", row);
            let mut chosen = TokenSet::new(row.len());
            chosen.insert(token);
            row.restrict(&chosen);
            note("penalty_alpha", row);
            row.load(&distribution);
        }
        let decided_by = target.transforms.decided_by(state).map(|(step, _)| names[step]);
        explained.push(Explained {
            token,
            text: request.engine.reader().tokenizer().decode(&[token]),
            origin: request.origin(provenance, decided_by),
            model_logprob,
            logprob: last,
            steps,
            mark: mark
                .as_ref()
                .filter(|_| is_marked && !is_of_prompt)
                .and_then(|(embed, tail)| embed.score(tail, token)),
        });
        if let Some((embed, tail)) = mark {
            match is_of_prompt {
                true => embed.advance_prompt(tail, token),
                false => embed.advance_from(tail, row, token),
            }
        }
        if let Some((healing, rest)) = healing {
            *rest = healing.after(*rest, token);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Explained> {
        self.explained
    }
}

fn count_allowed(logits: &[f32]) -> usize {
    logits.iter().filter(|&&z| z > f32::NEG_INFINITY).count()
}
