//! Texts that are searched for, or drawn without replacement.

use std::sync::Arc;

use verdigris_decoding::search::{self, Contrast, Draws};
use verdigris_decoding::target::DecodeError;
use verdigris_decoding::writing::Provenance;
use verdigris_decoding::{Beams, Target};
use verdigris_logits::TokenId;
use verdigris_models::LanguageModel;
use verdigris_schedule::Ended;
use verdigris_watermark::scheme::Stage;

use crate::error::Error;
use crate::request::begun::{Plan, Planned};
use crate::request::text::Text;
use crate::request::{LogprobsMode, Request, Written};

/// A text that a search found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hypothesis {
    /// The text.
    pub written: Written,
    /// The natural logarithm of its probability under the model itself, before any step acts on it; its end counts.
    pub logprob: f64,
    /// What it is ranked by: of [`Request::beam_search`] the log-probability after the steps, by the length penalty; of
    /// [`Request::stochastic_beams`] the log-probability with Gumbel noise.
    #[doc(alias = "sequences_scores")]
    pub score: f64,
    /// Of a text that was drawn without replacement: the natural logarithm of its probability under the law that it was
    /// drawn from, after all steps.
    pub law_logprob: Option<f64>,
    /// Of such a text: the probability that it is among those drawn, given the best that is not.
    pub inclusion: Option<f64>,
}

impl Hypothesis {
    /// Of a text that was drawn without replacement, what it counts for: the sum of the values of all that were drawn,
    /// each times this, is the mean of the value over the texts of the law, without bias.
    pub fn weight(&self) -> Option<f64> {
        Some(self.law_logprob?.exp() / self.inclusion?)
    }
}

impl<'a> Request<'a> {
    /// Writes a text by contrastive search: of the tokens of [`Request::top_k`], which must be asked for, the one that
    /// is probable and unlike what stands before it, as its hidden state tells. The weight is that of the penalty for
    /// likeness, from 0 to 1; .6 with a top-k of 4 is usual. Nothing is drawn, and no other cut has an effect.
    #[doc(alias = "contrastive_search")]
    pub fn penalty_alpha(mut self, alpha: f64) -> Self {
        self.penalty_alpha = Some(alpha);
        self
    }

    /// Searches for the most probable texts, with several hypotheses side by side: at most as many come back as there
    /// are hypotheses, the best first. Where hypotheses are [drawn](Beams::sampled), temperature, top-k and their like
    /// act as in `transformers`; where they are not, nothing is drawn, and those have no effect.
    ///
    /// ```no_run
    /// use verdigris::{Beams, Engine};
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let beams = Beams::new(4)?.length_penalty(0.8)?;
    /// for text in engine.request("The captain").max_tokens(30).beam_search(&beams)? {
    ///     println!("{:.2} {}", text.score, text.written.text);
    /// }
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Apart`] with drafts, keys of noise, [`Request::penalty_alpha`], [`Request::explain`] and
    /// [`LogprobsMode::Processed`], and at temperature 0 where hypotheses are drawn; else as [`Request::text`].
    #[doc(alias = "num_beams")]
    pub fn beam_search(mut self, beams: &Beams) -> Result<Vec<Hypothesis>, Error> {
        if self.logprobs.is_some() && self.logprobs_mode == LogprobsMode::Processed {
            return Err(Error::Apart {
                what: "log-probabilities of the law that tokens are drawn from".into(),
                with: "beams",
                why: "hypotheses are ranked by sums that are no probabilities; ask for the model's own",
            });
        }
        if !beams.is_sampled() {
            self.sampling.temperature = 0.0;
        } else if self.is_greedy() {
            return Err(Error::Apart {
                what: "temperature 0".into(),
                with: "hypotheses that are drawn",
                why: "there is nothing to draw; raise it, or let the best go on",
            });
        }
        let found = |model: Arc<dyn LanguageModel>, prompt: &[TokenId], target: &Target, ends: search::Ends<'_>| {
            let found = beams.search(model, target, prompt, &self.limits(), ends)?;
            Ok(found.into_iter().map(|text| (text, None)).collect())
        };
        self.searched(found)
    }

    /// Draws so many different texts: without replacement, the first as this request without a search would, the second
    /// from what is left of the law without it, and so on ([`Draws`]). Fewer come back where the law gives fewer.
    /// [`Hypothesis::weight`] says what each counts for in a mean.
    ///
    /// # Errors
    /// [`Error::Apart`] with drafts, keys of noise, [`Request::penalty_alpha`] and [`Request::explain`], and at
    /// temperature 0; else as
    /// [`Request::text`].
    #[doc(alias = "stochastic_beam_search")]
    pub fn stochastic_beams(self, count: usize) -> Result<Vec<Hypothesis>, Error> {
        if self.is_greedy() {
            return Err(Error::Apart {
                what: "temperature 0".into(),
                with: "stochastic beams",
                why: "there is one text to draw; raise it, or search with beams",
            });
        }
        let found = |model: Arc<dyn LanguageModel>, prompt: &[TokenId], target: &Target, ends: search::Ends<'_>| {
            let draws = Draws::new(model, target, prompt, &self.limits(), count, ends)?;
            Ok(draws.texts.into_iter().map(|drawn| (drawn.text, Some((drawn.law_logprob, drawn.inclusion)))).collect())
        };
        self.searched(found)
    }

    /// What a search finds, as texts.
    fn searched(
        &self,
        found: impl FnOnce(
            Arc<dyn LanguageModel>,
            &[TokenId],
            &Target,
            search::Ends<'_>,
        ) -> Result<Vec<(search::Hypothesis, Option<(f64, f64)>)>, DecodeError>,
    ) -> Result<Vec<Hypothesis>, Error> {
        const BEAMS: &str = "beams";
        if self.penalty_alpha.is_some() {
            let why = "each says in its own way which token is best; ask for one of them";
            return Err(Error::Apart { what: "contrastive search".into(), with: BEAMS, why });
        }
        if self.explain {
            let why = "a token of theirs is there for what follows it, which no step can explain; leave it out";
            return Err(Error::Apart { what: "an explanation of each token".into(), with: BEAMS, why });
        }
        self.can_be_searched(BEAMS)?;
        let Plan { planned: Planned { prompt, target, model, seed }, form, guides } = self.plan()?;
        let form = form.as_ref();
        let text = |tokens: &[TokenId]| {
            let mut text = Text::new(self, prompt.len(), seed);
            for &token in tokens {
                text.push(token, Provenance::Computed);
            }
            text
        };
        let ends = |tokens: &[TokenId]| !self.stops.is_empty() && text(tokens).is_stopped();
        let found = found(model.model().clone(), &prompt, &target, &ends);
        let found = found.map_err(|fault| Error::of_text(fault, form, &guides))?;
        let mut all = Vec::with_capacity(found.len());
        for (search::Hypothesis { tokens, stop, logprob, score }, drawn) in found {
            let mut written = text(&tokens).end(Ended { stop: Some(stop), ..Ended::default() }).0;
            self.reread(&model, &target, &prompt, form, &mut written)?;
            let (law_logprob, inclusion) = drawn.unzip();
            all.push(Hypothesis { written, logprob, score, law_logprob, inclusion });
        }
        Ok(all)
    }

    /// Refuses what has no meaning where tokens are not drawn one after the other.
    fn can_be_searched(&self, with: &'static str) -> Result<(), Error> {
        if self.guesser.is_some() || self.lookup {
            let why = "a draft guesses at the draws of one text, and here there are none; leave it out";
            return Err(Error::Apart { what: "drafting".into(), with, why });
        }
        let why = "it follows the surprises of one text that is drawn, and here none is; leave it out";
        self.surprises_are_drawn(with, why)?;
        let Some(key) = self.key else { return Ok(()) };
        match key.embed().is_ok_and(|embed| embed.stage() == Stage::Warped) {
            true => Err(Error::Apart {
                what: format!("the key {}, which marks by noise ({}),", key.id(), key.dialect().name()),
                with,
                why: "its noise is what chooses each token, so nothing is left to search; use a key of green lists",
            }),
            false => Ok(()),
        }
    }

    /// How the tokens of contrastive search are chosen, where that is asked for.
    pub(super) fn contrast(&self) -> Result<Option<Contrast>, Error> {
        let Some(alpha) = self.penalty_alpha else { return Ok(None) };
        let needs = "a top-k, the number of tokens to choose from";
        let top_k =
            self.sampling.top_k.filter(|&k| k > 0).ok_or(Error::Unused { what: "a degeneration penalty", needs })?;
        self.can_be_searched("contrastive search")?;
        Ok(Some(Contrast::new(alpha, top_k)?))
    }

    /// Refuses contrastive search where several texts are asked for.
    pub(super) fn draws_texts(&self) -> Result<(), Error> {
        match self.penalty_alpha {
            Some(_) => Err(Error::Apart {
                what: "contrastive search".into(),
                with: "several texts",
                why: "nothing is drawn, so all after one prompt would be the same; ask for one at a time",
            }),
            None => Ok(()),
        }
    }
}
