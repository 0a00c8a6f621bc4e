//! Models and functions that guide the choice of every token.

use std::sync::Arc;

use verdigris_decoding::{ClassScorer, Guide, RewardScorer, ScoreKind, Scorer, TextClass};

use crate::classes::Classes;
use crate::engine::Engine;
use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;
use crate::request::best_of::fits_into;
use crate::request::options::{Guidance, Judge};
use crate::reward::Reward;

impl<'a> Request<'a> {
    /// Guides every token by a reward model: `weight` times its score of the text with the token is added to the logits
    /// of the `top_k` likeliest allowed tokens, and all others are excluded ([`Guide`]: ARGS). This costs a call of the
    /// reward model for each token of the text.
    ///
    /// This and the other guides can be used any number of times. Each acts on the result of those before it.
    #[doc(alias = "args")]
    pub fn guide(self, reward: &'a Reward, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Reward(reward, ScoreKind::Reward), weight, top_k)
    }

    /// Like [`Request::guide`], but the model's output is the logit of an attribute, and its log-probability is the
    /// score: FUDGE, whose authors use weight 1 and 200 tokens. A weight below 0 steers away from the attribute.
    #[doc(alias = "fudge")]
    pub fn guide_by_classifier(self, classifier: &'a Reward, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Reward(classifier, ScoreKind::Logit), weight, top_k)
    }

    /// Like [`Request::guide`], but the score is the log-probability that the text belongs to the first class, computed
    /// from language models of the classes ([`ClassScorer`]): GeDi, whose authors use weight 30 and all tokens. The
    /// models read the text once, regardless of `top_k`.
    #[doc(alias = "gedi")]
    pub fn guide_by_classes(self, classes: &'a Classes<'a>, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Classes(classes), weight, top_k)
    }

    /// Like [`Request::guide`], with a custom [`Scorer`], such as a function of the text and the token that is tried.
    /// The text consists of the prompt and the tokens written so far.
    ///
    /// ```no_run
    /// use verdigris::Engine;
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let vocabulary = engine.reader().tokenizer().vocabulary();
    /// // Short words are better.
    /// let lengths: Vec<f32> = (0..4096).map(|token| vocabulary.bytes(token).len() as f32).collect();
    /// let short = move |_text: &[u32], token: u32| -lengths[token as usize];
    /// let written = engine.request("The captain").guide_by(short, 0.3, 50).text()?;
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    pub fn guide_by(self, scorer: impl Scorer + 'static, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Own(Arc::new(scorer)), weight, top_k)
    }

    fn guided(mut self, by: Judge<'a>, weight: f64, top_k: usize) -> Self {
        self.guides.push(Guidance { by, weight, top_k });
        self
    }

    /// The guides of this request, each shared by `texts` texts, so that a common prefix is read once.
    pub(super) fn guides_asked_for(&self, prompt_tokens: usize, texts: usize) -> Result<Vec<Arc<Guide>>, Error> {
        let guide = |guidance: &Guidance<'_>| {
            let Guidance { by, weight, top_k } = guidance;
            if !(*weight as f32).is_finite() {
                return Err(Error::Reward { what: "the weight of a guide", value: *weight, must: "a number" });
            }
            if *top_k == 0 {
                let what = "the number of tokens that a guide tries";
                return Err(Error::Reward { what, value: 0.0, must: "1 or more" });
            }
            let scorer = self.scorer(by, prompt_tokens, *top_k, texts)?;
            Ok(Arc::new(Guide::new(scorer, *weight as f32, *top_k)))
        };
        self.guides.iter().map(guide).collect()
    }

    fn scorer(
        &self,
        by: &Judge<'_>,
        prompt_tokens: usize,
        top_k: usize,
        texts: usize,
    ) -> Result<Arc<dyn Scorer>, Error> {
        let context = self.engine.context_length();
        match by {
            Judge::Own(scorer) => Ok(scorer.clone()),
            Judge::Reward(reward, kind) => {
                self.engine.shares_tokens(reward.tokenizer())?;
                fits_into(reward.model.context_length(), self.longest(prompt_tokens))?;
                // All tokens that are tried are read in parallel at the end of the text.
                let capacity = context.saturating_add(top_k);
                let scorer = RewardScorer::new(reward.model.scorer().clone(), *kind, capacity);
                Ok(Arc::new(scorer.remembering(texts)))
            }
            Judge::Classes(Classes(classes)) => {
                if classes.len() < 2 {
                    let (what, value) = ("the number of classes that guide", classes.len() as f64);
                    return Err(Error::Reward { what, value, must: "2 or more" });
                }
                let class = |(engine, prompt): &(&Engine, Prompt)| {
                    self.engine.fits(engine)?;
                    let prompt = engine.prompts.tokens(prompt)?;
                    // The tokens that are tried are not read; only their probabilities are used.
                    fits_into(engine.context_length(), prompt.len() + self.longest(prompt_tokens) - 1)?;
                    Ok(TextClass { model: engine.model.clone(), prompt: prompt.to_vec() })
                };
                let classes = classes.iter().map(class).collect::<Result<Vec<_>, Error>>()?;
                let scorer = ClassScorer::new(classes, self.engine.prompts.begin, context);
                Ok(Arc::new(scorer.remembering(texts)))
            }
        }
    }
}
