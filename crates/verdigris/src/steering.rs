//! The options of steering.

use std::sync::Arc;

use verdigris_decoding::{Alpha, BaseFilter, Pair, Steered};

use crate::engine::Engine;
use crate::error::Error;
use crate::prompt::Members;
use crate::token_class::TokenClass;

/// The changes to a model's rows: pairs of an expert and an anti-expert, guidance away from another prompt, and limits.
/// See [`Engine::steered_by`] and [`Steered`] for the formulas. Members read the request's prompt, unless they have a
/// separate one ([`Request::expert_prompt`](crate::Request::expert_prompt)).
///
/// ```no_run
/// use verdigris::{Alpha, Engine, Steering};
///
/// let [base, expert, anti] = ["tale", "tale-expert", "tale-small"].map(|name| format!("fixtures/models/{name}"));
/// let (expert, anti) = (Engine::load(expert)?, Engine::load(anti)?);
/// let steering = Steering::new().pair(&expert, &anti, Alpha::constant(1.5)?).base_top_p(0.9).budget(0.5);
/// let written = Engine::load(base)?.steered_by(&steering)?.request("The king").text()?;
/// # Ok::<(), verdigris::Error>(())
/// ```
#[derive(Clone, Default)]
#[must_use = "steering does nothing until an engine is steered by it"]
pub struct Steering<'e> {
    pairs: Vec<(Option<&'e Engine>, &'e Engine, Alpha)>,
    of_tokens: Vec<(TokenClass, Alpha)>,
    guidance_scale: Option<f64>,
    base_top_k: Option<usize>,
    base_top_p: Option<f64>,
    base_min_p: Option<f64>,
    budget: Option<f64>,
}

impl<'e> Steering<'e> {
    /// No steering.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an expert, which is a tuned small model, and its anti-expert, the same model before tuning.
    #[doc(alias = "proxy_tuning")]
    #[doc(alias = "dexperts")]
    pub fn pair(mut self, expert: &'e Engine, anti: &'e Engine, alpha: Alpha) -> Self {
        self.pairs.push((Some(expert), anti, alpha));
        self
    }

    /// Steers away from a smaller model: `z + beta * (z - z_amateur)`, the variant of contrastive decoding by O'Brien
    /// and Lewis (*Contrastive Decoding Improves Reasoning in Large Language Models*, 2023). Use it with
    /// [`Steering::base_min_p`] 0.1.
    #[doc(alias = "contrastive_decoding")]
    pub fn away_from(mut self, amateur: &'e Engine, beta: Alpha) -> Self {
        self.pairs.push((None, amateur, beta));
        self
    }

    /// Sets another weight of all pairs for tokens of a class: with 0, digits, for example, are left to the model
    /// itself. If a token belongs to several classes, the first counts.
    pub fn alpha_of(mut self, class: TokenClass, alpha: Alpha) -> Self {
        self.of_tokens.push((class, alpha));
        self
    }

    /// Classifier-free guidance: steers away from the model's output for another prompt
    /// ([`Request::negative_prompt`](crate::Request::negative_prompt)), with this weight; 1 has no effect, and 1.5 is
    /// usual.
    #[doc(alias = "cfg")]
    pub fn guidance_scale(mut self, scale: f64) -> Self {
        self.guidance_scale = Some(scale);
        self
    }

    /// Excludes all but the model's own `k` most probable tokens before anything is added.
    pub fn base_top_k(mut self, k: usize) -> Self {
        self.base_top_k = Some(k);
        self
    }

    /// Excludes all but the smallest set of tokens whose mass under the model itself reaches `p`, before anything is
    /// added: DExperts uses 0.9.
    #[doc(alias = "filter_p")]
    pub fn base_top_p(mut self, p: f64) -> Self {
        self.base_top_p = Some(p);
        self
    }

    /// Excludes tokens with less than `p` times the probability of the best under the model itself, before anything is
    /// added: contrastive decoding uses 0.1.
    #[doc(alias = "plausibility")]
    pub fn base_min_p(mut self, p: f64) -> Self {
        self.base_min_p = Some(p);
        self
    }

    /// Limits the divergence of the distribution of each token from the model's own to `nats`, as defined at
    /// [`Steered::within`]. [`Written::steering_kl`](crate::Written::steering_kl) is the divergence used. Infinity
    /// disables the limit, but the divergence is still reported.
    pub fn budget(mut self, nats: f64) -> Self {
        self.budget = Some(nats);
        self
    }

    /// The steered model.
    fn steer(&self, base: &Engine) -> Result<(Steered, Members), Error> {
        let (mut pairs, mut members) = (Vec::new(), Vec::new());
        let mut of_tokens = Vec::with_capacity(self.of_tokens.len());
        for (class, alpha) in &self.of_tokens {
            of_tokens.push((Arc::new(class.tokens(base)?), *alpha));
        }
        for &(expert, anti, alpha) in &self.pairs {
            expert.into_iter().chain([anti]).try_for_each(|member| base.fits(member))?;
            pairs.push(Pair {
                expert: expert.map(|expert| expert.model.clone()),
                anti: Some(anti.model.clone()),
                alpha,
                of_tokens: of_tokens.clone(),
            });
            members.push((expert.map(|expert| expert.prompts.clone()), anti.prompts.clone()));
        }
        let filter = BaseFilter::new(self.base_top_k, self.base_top_p, self.base_min_p)?;
        let mut steered = Steered::new(base.model.clone(), pairs).filtered(filter);
        if let Some(scale) = self.guidance_scale {
            steered = steered.guided(scale).map_err(|_| Error::GuidanceScale(scale))?;
        }
        if let Some(budget) = self.budget {
            if budget.is_nan() || budget < 0.0 {
                return Err(Error::Budget(budget));
            }
            steered = steered.within(budget);
        }
        Ok((steered, Members(members)))
    }
}

impl Engine {
    /// Steers this model by pairs of an expert and an anti-expert: `(expert, anti, alpha)`. All must have the same
    /// tokens under the same ids, but their rows may be padded differently. [`Engine::steered_by`] has all other
    /// options of steering.
    ///
    /// # Errors
    /// [`Error::Alpha`] for a weight that is not finite, and [`Error::ForeignExpert`] for models with other tokens.
    pub fn steered(self, pairs: &[(&Engine, &Engine, f64)]) -> Result<Self, Error> {
        let mut steering = Steering::new();
        for &(expert, anti, alpha) in pairs {
            steering = steering.pair(expert, anti, Alpha::constant(alpha)?);
        }
        self.steered_by(&steering)
    }

    /// Steers this model.
    ///
    /// # Errors
    /// [`Error::GuidanceScale`] and [`Error::Budget`] for an invalid scale or budget, [`Error::Parameter`] for an
    /// invalid filter, those of [`TokenClass::tokens`](crate::TokenClass::tokens), and [`Error::ForeignExpert`] for
    /// models with other tokens.
    pub fn steered_by(self, steering: &Steering<'_>) -> Result<Self, Error> {
        let (steered, members) = steering.steer(&self)?;
        Ok(self.with_steered(Arc::new(steered), members))
    }
}
