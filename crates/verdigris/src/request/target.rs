//! Turns a request into prompt tokens and a distribution.

use std::sync::Arc;

use verdigris_decoding::{Guide, Target};
use verdigris_logits::warp::{MinP, TopK, TopP};
use verdigris_logits::{Chain, CountPenalty, Forbid, Random, RepetitionPenalty, Sampler, TokenId, TokenSet};
use verdigris_watermark::Embed;
use verdigris_watermark::scheme::Stage;

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;
use crate::request::begun::Planned;
use crate::request::healing::{Heal, HealedMark};
use crate::request::reasoning::ThoughtBudget;
use crate::request::structure::Structure;

/// The upper limit of generated seeds: JSON numbers are exact below 2^53 everywhere, and the seeds after the first need
/// room too.
const EXACT: u64 = (1 << 53) - (1 << 32);

impl Request<'_> {
    /// Replaces the prompt.
    pub fn prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Sets the seed of all random choices. The same request with the same seed gives the same text. By default it is a
    /// new one from the operating system each time, below 2^53 so that JSON numbers represent it exactly;
    /// [`Written::seed`](crate::Written::seed) returns it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(super) fn seed_or_a_new_one(&self) -> Result<u64, Error> {
        if let Some(seed) = self.seed {
            return Ok(seed);
        }
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| Error::NoSeed(error.into()))?;
        Ok(u64::from_le_bytes(bytes) % EXACT)
    }

    /// Returns the tokens of the prompt, and the distribution of the text, for callers that run the model themselves
    /// (`verdigris-decoding`).
    ///
    /// # Errors
    /// Those of [`Request::text`] that concern the options and the prompt.
    pub fn target(&self) -> Result<(Arc<[TokenId]>, Target), Error> {
        let Planned { prompt, target, .. } = self.plan()?.planned;
        Ok((prompt.read, target))
    }

    /// The distribution of a text of at most `room` tokens: the steps in the order listed at [`Request`], and the
    /// sampler.
    pub(super) fn steps(
        &self,
        room: usize,
        structure: &Structure,
        guides: &[Arc<Guide>],
        seed: u64,
    ) -> Result<Target, Error> {
        let Structure { whole, sections, healing, .. } = structure;
        self.ends.check()?;
        self.sampling.check()?;
        self.check_needs()?;
        let mut transforms = Chain::new();
        let (end, known) = (if self.ends.through_end { &self.engine.end[..] } else { &[] }, self.engine.known());
        let suppressed = &self.processors.suppress_tokens;
        suppressed.iter().try_for_each(|&token| self.must_be_known(token))?;
        if !end.is_empty() || !suppressed.is_empty() || known.is_some() {
            let mut allowed = known.cloned().unwrap_or_else(|| TokenSet::full(self.engine.model.vocabulary_size()));
            end.iter().chain(suppressed).for_each(|&token| allowed.remove(token));
            let name = match (suppressed.is_empty(), end.is_empty()) {
                (false, _) => "suppress_tokens",
                (true, false) => "through_end",
                (true, true) => "padding",
            };
            transforms.push_named(name, Forbid::from(allowed));
        }
        self.push_biases(&mut transforms)?;
        if self.sampling.repetition_penalty != 1.0 {
            transforms.push_named("repetition_penalty", RepetitionPenalty::new(self.sampling.repetition_penalty)?);
        }
        let (presence, frequency) = (self.sampling.presence_penalty, self.sampling.frequency_penalty);
        if (presence, frequency) != (0.0, 0.0) {
            let name = match (presence, frequency) {
                (0.0, _) => "frequency_penalty",
                (_, 0.0) => "presence_penalty",
                _ => "penalties",
            };
            transforms.push_named(name, CountPenalty::new(presence, frequency)?);
        }
        self.push_repeats_and_ends(&mut transforms, room)?;
        if let Some(own) = &self.processors.own {
            transforms.push_named("transform", own.clone());
        }
        if let Some(healing) = healing {
            transforms.push_named("heal", Heal(healing.clone()));
        }
        if let Some(constraint) = whole {
            // The text must be complete when its tokens are used up.
            let constraint = constraint.within(room);
            constraint.check()?;
            transforms.push_named(self.constrained.name(), constraint);
        }
        if let (Some(tokens), Some(sections)) = (self.thinking.budget, sections) {
            transforms.push_named("thinking_token_budget", ThoughtBudget::new(sections.clone(), tokens));
        }
        for guide in guides {
            transforms.push_named("guide", guide.clone());
        }
        let (mut greedy, random) = (self.is_greedy(), Random::new(seed));
        let mut after = None;
        if let Some(key) = self.mark.key {
            let embed = self.embed(key, random)?;
            match embed.stage() {
                Stage::Logits => self.push_mark(&mut transforms, embed, structure),
                Stage::Warped => {
                    let why = "it measures the surprise of each token, and their noise leaves no surprise; use a key of \
                               green lists";
                    self.surprises_are_drawn("keys of noise", why)?;
                    // Cuts that leave one token would leave the noise none to choose from.
                    greedy = self.leaves_one_token();
                    after = Some(embed);
                }
            }
        }
        let mut warpers = Chain::new();
        self.push_temperature(&mut warpers, greedy)?;
        if let Some(k) = self.sampling.top_k.filter(|&k| k > 0) {
            warpers.push_named("top_k", TopK::new(k)?);
        }
        warpers.push_named("top_p", TopP::new(self.sampling.mass())?);
        if let Some(p) = self.sampling.min_p {
            warpers.push_named("min_p", MinP::new(p)?);
        }
        self.push_warpers(&mut warpers, random)?;
        // If nothing is sampled, the cuts have no effect.
        if !greedy {
            transforms.append(warpers);
        }
        if let Some(embed) = after {
            self.push_mark(&mut transforms, embed, structure);
        }
        let sampler = if greedy { Sampler::Greedy } else { Sampler::Categorical };
        Ok(Target { transforms, sampler, random })
    }

    /// Adds the mark of a text.
    fn push_mark(&self, transforms: &mut Chain, embed: Embed, structure: &Structure) {
        const NAME: &str = "watermark";
        match (&structure.sections, &structure.healing) {
            (Some(sections), _) => transforms.push_named(NAME, self.section_mark(embed, sections.clone())),
            (None, Some(healing)) => transforms.push_named(NAME, HealedMark { embed, healing: healing.clone() }),
            (None, None) => transforms.push_named(NAME, embed),
        }
    }
}
