//! Turns a request into prompt tokens, a constraint and a distribution.

use std::sync::Arc;

use verdigris_constrain::{Constraint, Grammar};
use verdigris_decoding::{Guide, Target};
use verdigris_logits::warp::{MinP, TopK, TopP};
use verdigris_logits::{Chain, CountPenalty, Forbid, Random, RepetitionPenalty, Sampler, TokenId, TokenSet};
use verdigris_watermark::scheme::Stage;
use verdigris_watermark::{Embed, Key};

use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::{Form, Request};

/// The upper limit of generated seeds: JSON numbers are exact below 2^53 everywhere, and the seeds after the first need
/// room too.
const EXACT: u64 = (1 << 53) - (1 << 32);

impl Request<'_> {
    /// The maximum length of a stop string, in bytes.
    pub const LONGEST_STOP: usize = 1024;

    pub(super) fn prompt_tokens(&self, prompt: &Prompt) -> Result<Arc<[TokenId]>, Error> {
        let tokens = self.engine.prompts.tokens(prompt)?;
        let context = self.engine.context_length();
        if tokens.len() >= context {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context });
        }
        Ok(tokens)
    }

    pub(super) fn seed_or_a_new_one(&self) -> Result<u64, Error> {
        if let Some(seed) = self.seed {
            return Ok(seed);
        }
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| Error::NoSeed(error.into()))?;
        Ok(u64::from_le_bytes(bytes) % EXACT)
    }

    /// The constraint, compiled once for all texts of the request.
    pub(super) fn constraint_asked_for(&self) -> Result<Option<Constraint>, Error> {
        let is_schema = matches!(self.form, Some(Form::JsonSchema(_)));
        for (what, is_given) in [("a style of JSON", self.style.is_some()), ("a registry", self.registry.is_some())] {
            if is_given && !is_schema {
                return Err(Error::Unused { what, needs: "a JSON schema" });
            }
        }
        let Some(form) = &self.form else {
            return match self.forced_text {
                Some(_) => Err(Error::Unused { what: "a way to write forced text", needs: "a constraint" }),
                None => Ok(None),
            };
        };
        let constraint = match form {
            Form::Given(constraint) => constraint.clone(),
            Form::Regex(pattern) => self.engine.constraint(Grammar::regex(pattern)?),
            Form::Choice(texts) => self.engine.constraint(Grammar::choice(texts)?),
            Form::JsonSchema(schema) => {
                let registry = self.registry.clone().unwrap_or_default();
                let style = self.style.unwrap_or_default();
                self.engine.constraint(Grammar::json_schema_with(schema, style, &registry)?)
            }
        };
        Ok(Some(match self.forced_text {
            Some(forced) => constraint.forced_text(forced),
            None => constraint,
        }))
    }

    pub(super) fn embed(&self, key: &Key) -> Result<Embed, Error> {
        self.engine.reader().fits(key)?;
        let embed = match self.payload {
            Some(payload) => key.embed_payload(payload)?,
            None => key.embed()?,
        };
        match self.entropy_threshold {
            None => Ok(embed),
            Some(nats) if !(nats >= 0.0 && nats.is_finite()) => Err(Error::EntropyThreshold(nats)),
            Some(_) if embed.stage() != Stage::Logits => {
                Err(Error::Unused { what: "an entropy threshold", needs: "a key of green lists" })
            }
            Some(nats) => Ok(embed.above_entropy(nats)),
        }
    }

    /// The distribution of a text of at most `room` tokens: the steps in the order listed at [`Request`], and the
    /// sampler.
    pub(super) fn target(
        &self,
        room: usize,
        form: Option<&Constraint>,
        guides: &[Arc<Guide>],
        seed: u64,
    ) -> Result<Target, Error> {
        if let Some(text) = self.stops.iter().find(|text| text.is_empty() || text.len() > Self::LONGEST_STOP) {
            return Err(Error::StopString { length: text.len(), longest: Self::LONGEST_STOP });
        }
        self.sampling.check()?;
        let mut transforms = Chain::new();
        let (end, known) = (if self.through_end { &self.engine.end[..] } else { &[] }, self.engine.known());
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
        if let Some(own) = &self.own {
            transforms.push_named("transform", own.clone());
        }
        if let Some(form) = form {
            // The text must be complete when its tokens are used up.
            let form = form.within(room);
            form.check()?;
            transforms.push_named(self.form.as_ref().map_or("constraint", Form::name), form);
        }
        for guide in guides {
            transforms.push_named("guide", guide.clone());
        }
        let greedy = self.is_greedy();
        let mut after = None;
        match self.key {
            Some(key) => {
                let embed = self.embed(key)?;
                match embed.stage() {
                    Stage::Logits => transforms.push_named("watermark", embed),
                    Stage::Warped => {
                        if let Some((option, needs)) = self.leaves_one_token() {
                            let (id, dialect) = (key.id().to_owned(), key.dialect().name());
                            return Err(Error::NoChance { option, needs, id, dialect });
                        }
                        let why = "it measures the surprise of each token, and their noise leaves no surprise; use a \
                                   key of green lists";
                        self.surprises_are_drawn("keys of noise", why)?;
                        after = Some(embed);
                    }
                }
            }
            None if self.payload.is_some() => {
                return Err(Error::Unused { what: "a payload", needs: "a key that carries it" });
            }
            None if self.entropy_threshold.is_some() => {
                return Err(Error::Unused { what: "an entropy threshold", needs: "a key of green lists" });
            }
            None => (),
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
        let random = Random::new(seed);
        self.push_warpers(&mut warpers, random)?;
        // If nothing is sampled, the cuts have no effect.
        if !greedy {
            transforms.append(warpers);
        }
        if let Some(embed) = after {
            transforms.push_named("watermark", embed);
        }
        let sampler = if greedy { Sampler::Greedy } else { Sampler::Categorical };
        Ok(Target { transforms, sampler, random })
    }
}
