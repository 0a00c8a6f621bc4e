//! Steering: adjusts the rows of a model by what small models have learned.
//!
//! Proxy-tuning (Liu et al., *Tuning Language Models by Proxy*, 2024, equation 1) adds to the base model's logits the
//! difference between an expert and the anti-expert it was tuned from:
//!
//! ```text
//! z = z_base + sum over pairs of alpha * (z_expert - z_anti)
//! ```
//!
//! Related methods are the same sum with other members, and each is an option here:
//!
//! | method | what is added |
//! |---|---|
//! | DExperts (Liu et al., 2021) | pairs as above, to what a [filter](BaseFilter) leaves of the base |
//! | classifier-free guidance (Sanchez et al., 2023) | `(g - 1) * (ln p - ln p')`, where the base reads [another prompt](OwnPrompts) for `p'` |
//! | contrastive decoding (Li et al., 2023; O'Brien and Lewis, 2023) | `beta * (z_base - z_amateur)`: a pair without an expert, after a filter of min-p |
//!
//! [`Alpha`] may change along the text and differ [for some tokens](Pair::of_tokens), and a [budget](Steered::within)
//! bounds how far the distribution of a token is moved.
//!
//! A steered model is a [`LanguageModel`] like any other, so everything built on models works with it. Its expert can
//! draft for it ([`Steered::drafted_by_expert`]) and need not read accepted drafts again.
//!
//! | module | holds |
//! |---|---|
//! | `alpha` | the weight of a pair, along the text and for each token |
//! | `filter` | the tokens of the base that are kept before steering |
//! | `budget` | the largest weight within a number of nats |
//! | `mix` | the arithmetic of one row |
//! | `member` | one of the models, and the prompt that it reads |
//! | `ahead` | a member that has read drafts |
//! | `sequence` | a text as read by all members, several texts in one call of each model |
//! | `texts` | the texts of a steered model |
//! | `expert` | the expert as a drafter |

mod ahead;
mod alpha;
mod budget;
mod expert;
mod filter;
mod member;
mod mix;
mod sequence;
#[cfg(test)]
mod tests;
mod texts;

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};
use verdigris_models::LanguageModel;

use member::OwnPrompt;

use alpha::Weight;
pub use alpha::{Alpha, BadAlpha};
pub use expert::ExpertDrafter;
pub use filter::BaseFilter;

/// An expert, the anti-expert it is compared with, and the weight of their difference.
#[derive(Clone)]
pub struct Pair {
    /// The small model that was tuned, or `None` for the base itself.
    pub expert: Option<Arc<dyn LanguageModel>>,
    /// The same model before it was tuned, or `None` for the base itself.
    pub anti: Option<Arc<dyn LanguageModel>>,
    /// The weight of the difference.
    pub alpha: Alpha,
    /// Other weights of the difference for some tokens; if several sets contain a token, the first applies. If there
    /// are any, log-probabilities of expert and anti-expert are compared instead of logits, which makes no difference
    /// with a single weight.
    pub of_tokens: Vec<(Arc<TokenSet>, Alpha)>,
}

impl Pair {
    /// An expert and its anti-expert.
    pub fn new(expert: Arc<dyn LanguageModel>, anti: Arc<dyn LanguageModel>, alpha: Alpha) -> Self {
        Self { expert: Some(expert), anti: Some(anti), alpha, of_tokens: Vec::new() }
    }

    fn alphas(&self) -> impl Iterator<Item = &Alpha> {
        std::iter::once(&self.alpha).chain(self.of_tokens.iter().map(|(_, alpha)| alpha))
    }

    /// Whether its weight is 0 for every token.
    fn is_nothing(&self) -> bool {
        self.alphas().all(Alpha::is_zero)
    }

    /// The weight for the token after the first `written` tokens of the text.
    fn weight(&self, written: usize) -> Weight<'_> {
        Weight { alpha: self.alpha.at(written), of_tokens: &self.of_tokens, written }
    }
}

/// The prompts that members of a steered model read instead of the text's. `None` is the text's prompt itself. No
/// prompt may be empty.
#[derive(Clone, Debug, Default)]
#[doc(alias = "negative_prompt_ids")]
pub struct OwnPrompts {
    /// Those of the experts of all pairs, in their order; `None` for pairs past the end.
    pub experts: Vec<Option<Vec<TokenId>>>,
    /// Those of the anti-experts.
    pub antis: Vec<Option<Vec<TokenId>>>,
    /// The prompt that [guidance](Steered::guided) leads away from. `None` is the last token of the prompt alone, as in
    /// `transformers`.
    pub negative: Option<Vec<TokenId>>,
}

/// A base model with any number of pairs. All models must have the same tokens under the same ids, but their rows may
/// be padded differently: rows are as long as the base's, and a token that one of the experts cannot read is never
/// written.
#[derive(Clone)]
#[doc(alias = "proxy_tuning")]
#[doc(alias = "dexperts")]
#[doc(alias = "contrastive_decoding")]
pub struct Steered {
    base: Arc<dyn LanguageModel>,
    terms: Vec<Term>,
    filter: BaseFilter,
    budget: Option<f64>,
    /// The number of tokens before the text that is written.
    prompt: usize,
}

/// A pair with a nonzero weight, with the prompts that it reads.
#[derive(Clone)]
struct Term {
    pair: Pair,
    kind: Kind,
    expert: Option<OwnPrompt>,
    anti: Option<OwnPrompt>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The pair with this index.
    Pair(usize),
    /// The base, with another prompt as its anti-expert.
    Guidance,
}

impl Steered {
    /// Steers `base`. Pairs whose alpha is 0 are dropped: they cost nothing and change no bit.
    pub fn new(base: Arc<dyn LanguageModel>, pairs: Vec<Pair>) -> Self {
        let pairs = pairs.into_iter().enumerate().filter(|(_, pair)| !pair.is_nothing());
        let term = |(number, pair)| Term { pair, kind: Kind::Pair(number), expert: None, anti: None };
        Self { base, terms: pairs.map(term).collect(), filter: BaseFilter::default(), budget: None, prompt: 0 }
    }

    /// Leads away from what the base would write after [another prompt](OwnPrompts::negative): classifier-free guidance
    /// (Sanchez et al., *Stay on topic with Classifier-Free Guidance*, 2023), by the formula of `transformers`,
    ///
    /// ```text
    /// z = ln p' + scale * (ln p - ln p'),
    /// ```
    ///
    /// so that rows are log-probabilities before any transform is applied. A scale of 1 changes nothing. Without a
    /// prompt ([`Steered::after`]) both distributions are the same, and guidance has no effect.
    ///
    /// # Errors
    /// [`BadAlpha`] if the scale is not finite.
    #[doc(alias = "guidance_scale")]
    #[doc(alias = "cfg")]
    pub fn guided(mut self, scale: f64) -> Result<Self, BadAlpha> {
        let alpha = Alpha::constant(scale - 1.0)?;
        if !alpha.is_zero() {
            let pair = Pair { expert: None, anti: Some(self.base.clone()), alpha, of_tokens: Vec::new() };
            self.terms.push(Term { pair, kind: Kind::Guidance, expert: None, anti: None });
        }
        Ok(self)
    }

    /// Returns this model with another weight for all its pairs. Weights for some tokens remain, and pairs that were
    /// dropped for a weight of 0 are not restored.
    #[must_use]
    pub fn weighed(&self, alpha: Alpha) -> Self {
        let term = |term: &Term| match term.kind {
            Kind::Pair(_) => Term { pair: Pair { alpha, ..term.pair.clone() }, ..term.clone() },
            Kind::Guidance => term.clone(),
        };
        let terms = self.terms.iter().map(term).filter(|term| !term.pair.is_nothing());
        Self { terms: terms.collect(), ..self.clone() }
    }

    /// Whether it has a pair with a nonzero weight.
    pub fn has_pairs(&self) -> bool {
        self.terms.iter().any(|term| term.kind != Kind::Guidance)
    }

    /// Excludes tokens that the base finds improbable before anything is added.
    #[must_use]
    pub fn filtered(self, filter: BaseFilter) -> Self {
        Self { filter, ..self }
    }

    /// Scales all weights of each token by the largest factor up to 1 for which the token's distribution is at most
    /// `budget` nats from that of the base: `KL(steered || base)`, both over the tokens that the filter and the
    /// members' rows allow, before any transform is applied. Infinity disables the bound.
    ///
    /// # Panics
    /// If it is negative or NaN.
    #[must_use]
    pub fn within(self, budget: f64) -> Self {
        assert!(budget >= 0.0, "a budget of {budget}");
        Self { budget: Some(budget), ..self }
    }

    /// Returns this model for texts after a prompt: schedules count from its end, and members read their own prompts
    /// instead of it.
    ///
    /// # Panics
    /// If a prompt is empty.
    #[must_use]
    pub fn after(&self, prompt: &[TokenId], own: &OwnPrompts) -> Self {
        let read_instead = |tokens: &[TokenId]| {
            assert!(!prompt.is_empty() && !tokens.is_empty(), "a prompt has tokens");
            OwnPrompt { replaces: prompt.len(), tokens: tokens.into() }
        };
        let of = |all: &[Option<Vec<TokenId>>], number: usize| {
            all.get(number).and_then(|tokens| tokens.as_deref()).map(read_instead)
        };
        let term = |term: &Term| match term.kind {
            Kind::Pair(number) => {
                let (expert, anti) = (of(&own.experts, number), of(&own.antis, number));
                Term { expert, anti, ..term.clone() }
            }
            Kind::Guidance => {
                let negative = own.negative.as_deref().unwrap_or(&prompt[prompt.len() - 1..]);
                Term { anti: Some(read_instead(negative)), ..term.clone() }
            }
        };
        Self { terms: self.terms.iter().map(term).collect(), prompt: prompt.len(), ..self.clone() }
    }

    /// Whether the model depends on the length of the prompt: members may read another one, or weights change along the
    /// text.
    pub fn depends_on_prompt(&self) -> bool {
        self.terms.iter().any(|term| term.kind == Kind::Guidance || !term.pair.alphas().all(Alpha::is_constant))
    }

    /// Whether guidance leads away from another prompt.
    pub fn is_guided(&self) -> bool {
        self.terms.iter().any(|term| term.kind == Kind::Guidance)
    }

    /// The maximum number of nats by which a token's distribution is moved, if bounded.
    pub fn budget(&self) -> Option<f64> {
        self.budget
    }

    /// The expert of the first pair with a nonzero weight.
    pub fn first_expert(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.terms.iter().find_map(|term| term.pair.expert.as_ref())
    }
}
