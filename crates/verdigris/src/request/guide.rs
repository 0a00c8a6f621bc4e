//! Judges that have their say about every token.

use std::sync::Arc;

use verdigris_decoding::{ClassScorer, Guide, RewardScorer, ScoreKind, Scorer, TextClass};

use crate::classes::Classes;
use crate::engine::Engine;
use crate::error::Error;
use crate::prompt::Prompt;
use crate::request::Request;
use crate::request::best_of::fits_into;
use crate::reward::Reward;

/// A judge, and how much it has to say.
#[derive(Clone)]
pub(super) struct Guidance<'a> {
    by: Judge<'a>,
    weight: f64,
    top_k: usize,
}

#[derive(Clone)]
enum Judge<'a> {
    Reward(&'a Reward, ScoreKind),
    Classes(&'a Classes<'a>),
    Own(Arc<dyn Scorer>),
}

impl<'a> Request<'a> {
    /// Lets a reward model have its say about every token: `weight` times what it thinks of the text with the token is
    /// added to the logits of the `top_k` tokens that are likeliest of those allowed, and all others are left out
    /// ([`Guide`]: ARGS). That costs a call of the reward model for each token.
    ///
    /// Of this and the other judges any number can be asked for, and each acts on what those before it leave.
    #[doc(alias = "args")]
    pub fn guide(self, reward: &'a Reward, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Reward(reward, ScoreKind::Reward), weight, top_k)
    }

    /// As [`Request::guide`], but the number is the logit of an attribute, and what counts is its log-probability:
    /// FUDGE, whose authors take weight 1 and 200 tokens. A weight below 0 leads away from the attribute.
    #[doc(alias = "fudge")]
    pub fn guide_by_classifier(self, classifier: &'a Reward, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Reward(classifier, ScoreKind::Logit), weight, top_k)
    }

    /// As [`Request::guide`], but what counts is how probable language models of classes find it that the text is of
    /// the first class ([`ClassScorer`]): GeDi, whose authors take weight 30 and all tokens. The models read the text
    /// once, whatever the number of tokens.
    #[doc(alias = "gedi")]
    pub fn guide_by_classes(self, classes: &'a Classes<'a>, weight: f64, top_k: usize) -> Self {
        self.guided(Judge::Classes(classes), weight, top_k)
    }

    /// As [`Request::guide`], by any function of the text and the token that is tried, or a [`Scorer`] of one's own.
    /// The text is the prompt and what is written.
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

    /// The guides, each one for all of so many texts, so that a common beginning is read once.
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
                // The tokens that are tried stand beside each other at the end of the text.
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
                    // What is tried is not read: its probability is asked for.
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
