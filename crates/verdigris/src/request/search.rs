//! Texts that are found by a search or sampled without replacement.

use std::sync::Arc;

use verdigris_decoding::Provenance;
use verdigris_decoding::search::{self, Contrast, Draws};
use verdigris_decoding::target::DecodeError;
use verdigris_decoding::{Beams, Target};
use verdigris_logits::TokenId;
use verdigris_models::LanguageModel;
use verdigris_schedule::Ended;
use verdigris_watermark::scheme::Stage;

use crate::error::Error;
use crate::request::begun::{Plan, Planned};
use crate::request::options::LogprobsMode;
use crate::request::text::Text;
use crate::request::{Request, Written};

/// A text found by a search.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Hypothesis {
    /// The text.
    pub written: Written,
    /// The natural logarithm of its probability under the model itself, before any step, including its end.
    pub logprob: f64,
    /// The score that it is ranked by: for [`Request::beam_search`] the log-probability after all steps, adjusted by
    /// the length penalty; for [`Request::stochastic_beams`] the log-probability with Gumbel noise.
    #[doc(alias = "sequences_scores")]
    pub score: f64,
    /// For a text sampled without replacement: the natural logarithm of its probability under the distribution that it
    /// was sampled from, after all steps.
    pub sampling_logprob: Option<f64>,
    /// For such a text: the probability that it is in the sample, given the best text that is not.
    pub inclusion: Option<f64>,
}

impl Hypothesis {
    /// The weight of a text sampled without replacement: the sum of the values of all sampled texts, each times its
    /// weight, is an unbiased estimate of the mean value over the distribution of texts.
    pub fn weight(&self) -> Option<f64> {
        Some(self.sampling_logprob?.exp() / self.inclusion?)
    }
}

impl<'a> Request<'a> {
    /// Writes a text by contrastive search: of the tokens of [`Request::top_k`], which must be set, it takes the one
    /// that is probable and whose hidden state is unlike those of the preceding tokens. `alpha` is the weight of the
    /// penalty for similarity, from 0 to 1; 0.6 with a top-k of 4 is usual. Nothing is sampled, and no other cut has an
    /// effect.
    #[doc(alias = "contrastive_search")]
    pub fn penalty_alpha(mut self, alpha: f64) -> Self {
        self.penalty_alpha = Some(alpha);
        self
    }

    /// Searches for the most probable texts, with several hypotheses in parallel. Returns at most one text for each
    /// hypothesis, the best first. If hypotheses are [sampled](Beams::sampled), temperature, top-k and other cuts act
    /// as in `transformers`; otherwise nothing is sampled, and they have no effect.
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
    /// [`LogprobsMode::Processed`], and at temperature 0 if hypotheses are sampled; and those of [`Request::text`].
    #[doc(alias = "num_beams")]
    pub fn beam_search(mut self, beams: &Beams) -> Result<Vec<Hypothesis>, Error> {
        if self.reported.logprobs.is_some() && self.reported.logprobs_mode == LogprobsMode::Processed {
            return Err(Error::Apart {
                what: "log-probabilities of the distribution that tokens are sampled from".into(),
                with: "beams",
                why: "hypotheses are ranked by sums that are not probabilities; ask for the model's own",
            });
        }
        if !beams.is_sampled() {
            self.sampling.temperature = 0.0;
        } else if self.is_greedy() {
            return Err(Error::Apart {
                what: "temperature 0".into(),
                with: "sampled hypotheses",
                why: "there is nothing to sample; raise it, or keep the best hypotheses instead",
            });
        }
        let found = |model: Arc<dyn LanguageModel>, prompt: &[TokenId], target: &Target, ends: search::Ends<'_>| {
            let found = beams.search(model, target, prompt, &self.limits(prompt), ends)?;
            Ok(found.into_iter().map(|text| (text, None)).collect())
        };
        self.searched(found)
    }

    /// Samples `count` texts without replacement: the first like this request without a search, the second from the
    /// distribution without the first, and so on ([`Draws`]). Returns fewer if the distribution has no more. They
    /// differ in their tokens, but may be equal as characters, which can be tokenized in several ways; under a
    /// constraint, [`Request::forced_text`] can prevent that. [`Hypothesis::weight`] is the weight of each in a mean.
    ///
    /// # Errors
    /// [`Error::Apart`] with drafts, keys of noise, [`Request::penalty_alpha`] and [`Request::explain`], and at
    /// temperature 0; and those of [`Request::text`].
    #[doc(alias = "stochastic_beam_search")]
    pub fn stochastic_beams(self, count: usize) -> Result<Vec<Hypothesis>, Error> {
        if self.is_greedy() {
            return Err(Error::Apart {
                what: "temperature 0".into(),
                with: "stochastic beams",
                why: "only one text can be sampled; raise it, or search with beams",
            });
        }
        let found = |model: Arc<dyn LanguageModel>, prompt: &[TokenId], target: &Target, ends: search::Ends<'_>| {
            let draws = Draws::new(model, target, prompt, &self.limits(prompt), count, ends)?;
            Ok(draws
                .texts
                .into_iter()
                .map(|drawn| (drawn.text, Some((drawn.sampling_logprob, drawn.inclusion))))
                .collect())
        };
        self.searched(found)
    }

    /// Turns the results of a search into texts.
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
        self.check_cache(Some(BEAMS))?;
        if self.penalty_alpha.is_some() {
            let why = "each has its own criterion for the best token; ask for one of them";
            return Err(Error::Apart { what: "contrastive search".into(), with: BEAMS, why });
        }
        if self.reported.explain {
            let why = "their tokens are chosen for what follows them, which no step explains; leave it out";
            return Err(Error::Apart { what: "an explanation of each token".into(), with: BEAMS, why });
        }
        self.can_be_searched(BEAMS)?;
        let Plan { planned: Planned { prompt, target, model, seed, structure }, guides } = self.plan()?;
        let text = |tokens: &[TokenId]| {
            let mut text = Text::new(self, &structure, prompt.count(), seed);
            for &token in tokens {
                text.push(token, Provenance::Computed, &mut |_, _| ());
            }
            text
        };
        let ends = |tokens: &[TokenId]| !self.ends.stops.is_empty() && text(tokens).is_stopped();
        let found = found(model.model().clone(), &prompt.read, &target, &ends);
        let found = found.map_err(|fault| Error::of_text(fault, structure.whole.as_ref(), &guides))?;
        let mut all = Vec::with_capacity(found.len());
        for (search::Hypothesis { tokens, stop, logprob, score }, drawn) in found {
            let mut written = text(&tokens).end(Ended { stop: Some(stop), ..Ended::default() }).0;
            self.reread(&model, &target, &prompt.read, &structure, &mut written)?;
            let (sampling_logprob, inclusion) = drawn.unzip();
            all.push(Hypothesis { written, logprob, score, sampling_logprob, inclusion });
        }
        Ok(all)
    }

    /// Refuses options that have no meaning if tokens are not sampled one after the other.
    fn can_be_searched(&self, with: &'static str) -> Result<(), Error> {
        if self.drafting.is_requested() {
            let why = "drafts are guesses at the next samples of one text, and a search has none; leave it out";
            return Err(Error::Apart { what: "drafting".into(), with, why });
        }
        let why = "it follows the surprise of the samples of one text, and a search has none; leave it out";
        self.surprises_are_drawn(with, why)?;
        let Some(key) = self.mark.key else { return Ok(()) };
        match key.stage() == Stage::Warped {
            true => Err(Error::Apart {
                what: format!("the key {}, which marks by noise ({}),", key.id(), key.dialect().name()),
                with,
                why: "its noise chooses each token, so nothing is left to search; use a key of green lists",
            }),
            false if self.mark.after.is_some() => {
                let what = "a mark that begins after some surprise".into();
                Err(Error::Apart { what, with, why: "it follows the samples of one text; leave it out" })
            }
            false => Ok(()),
        }
    }

    /// The parameters of contrastive search, if requested.
    pub(super) fn contrast(&self) -> Result<Option<Contrast>, Error> {
        let Some(alpha) = self.penalty_alpha else { return Ok(None) };
        let needs = "a top-k, the number of tokens to choose from";
        let top_k =
            self.sampling.top_k.filter(|&k| k > 0).ok_or(Error::Unused { what: "a degeneration penalty", needs })?;
        self.can_be_searched("contrastive search")?;
        Ok(Some(Contrast::new(alpha, top_k)?))
    }

    /// Refuses contrastive search for several texts.
    pub(super) fn draws_texts(&self) -> Result<(), Error> {
        match self.penalty_alpha {
            Some(_) => Err(Error::Apart {
                what: "contrastive search".into(),
                with: "several texts",
                why: "nothing is sampled, so all texts after one prompt would be the same; ask for one at a time",
            }),
            None => Ok(()),
        }
    }
}
