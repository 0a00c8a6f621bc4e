//! What is to be written, and how.

use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_constrain::{Constraint, Regex};
use verdigris_decoding::{Acceptance, DraftModel, Limits, Lookup, Plain, Seeded, Speculative, Stop, Target, Writing};
use verdigris_logits::warp::{MinP, Temperature, TopK, TopP};
use verdigris_logits::{Chain, Forbid, Random, Sampler, TokenId};
use verdigris_text::TextStream;
use verdigris_watermark::{Embed, Key};

use crate::engine::Engine;
use crate::error::Error;

/// A request to write. Nothing is checked or computed before [`Request::text`] or [`Request::stream`].
#[must_use = "a request does nothing until its text is asked for"]
pub struct Request<'a> {
    engine: &'a Engine,
    prompt: String,
    key: Option<&'a Key>,
    regex: Option<String>,
    max_tokens: usize,
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    seed: u64,
    through_end: bool,
    speculate: Option<Speculate<'a>>,
}

/// Who guesses, and how many tokens at a time.
#[derive(Clone, Copy)]
enum Speculate<'a> {
    Draft(&'a Engine, usize),
    Lookup(usize),
}

/// What was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The text, without the prompt.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<TokenId>,
    /// The number of tokens of the prompt.
    pub prompt_tokens: usize,
    /// What ended it; `None` where the one who read the stream did.
    pub stop: Option<Stop>,
    /// How drafting went; `None` where nothing was drafted.
    pub acceptance: Option<Acceptance>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(engine: &'a Engine, prompt: String) -> Self {
        Self {
            engine,
            prompt,
            key: None,
            regex: None,
            max_tokens: 256,
            temperature: 1.0,
            top_k: None,
            top_p: None,
            min_p: None,
            seed: 0,
            through_end: false,
            speculate: None,
        }
    }

    /// Marks the text with a key, which must be made for this model's tokenizer.
    pub fn watermark(mut self, key: &'a Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Lets the text be one that matches a regular expression as a whole (the syntax is that of the `regex`
    /// crate). It may still be cut short by [`Request::max_tokens`].
    pub fn regex(mut self, pattern: impl Into<String>) -> Self {
        self.regex = Some(pattern.into());
        self
    }

    /// The most tokens to write; 256 unless told otherwise. The model's context may end the text sooner.
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// The temperature; 1 unless told otherwise, and 0 takes the most probable token.
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.temperature = temperature;
        self
    }

    /// Draws from the `k` most probable tokens.
    pub fn top_k(mut self, k: usize) -> Self {
        self.top_k = Some(k);
        self
    }

    /// Draws from the smallest set of tokens whose mass reaches `p`.
    pub fn top_p(mut self, p: f64) -> Self {
        self.top_p = Some(p);
        self
    }

    /// Draws from the tokens with at least `p` times the probability of the best.
    pub fn min_p(mut self, p: f64) -> Self {
        self.min_p = Some(p);
        self
    }

    /// The seed of all draws; 0 unless told otherwise. The same request with the same seed gives the same text.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Forbids the end of the text, so that exactly as many tokens are written as asked for.
    pub fn through_end(mut self) -> Self {
        self.through_end = true;
        self
    }

    /// Lets a smaller model draft `tokens` tokens for each call of this one. The law of the text stays what it
    /// is. A seed gives a text of its own for each drafter and number.
    pub fn draft(mut self, drafter: &'a Engine, tokens: usize) -> Self {
        self.speculate = Some(Speculate::Draft(drafter, tokens));
        self
    }

    /// Drafts `tokens` tokens from what followed the last few tokens when they stood in the text before. The
    /// text is the one that plain decoding writes with the same seed.
    pub fn lookup(mut self, tokens: usize) -> Self {
        self.speculate = Some(Speculate::Lookup(tokens));
        self
    }

    /// Writes the text.
    pub fn text(self) -> Result<Written, Error> {
        self.stream(|_| ControlFlow::Continue(()))
    }

    /// Writes the text and hands over each piece of it as soon as it is there. A piece is never empty and
    /// always whole characters. On [`ControlFlow::Break`] the text ends there.
    pub fn stream(self, mut each: impl FnMut(&str) -> ControlFlow<()>) -> Result<Written, Error> {
        let engine = self.engine;
        let tokenizer = engine.reader().tokenizer();
        let prompt = self.prompt_tokens()?;
        let target = self.target()?;
        let end = if self.through_end { Vec::new() } else { engine.end.clone() };
        let limits = Limits { max_tokens: self.max_tokens, end };
        let mut writing = self.writing(&target, &prompt, limits)?;
        let (mut text, mut tokens) = (String::new(), Vec::new());
        let mut stream = TextStream::new(tokenizer.vocabulary());
        for token in writing.by_ref() {
            let token = token?;
            tokens.push(token);
            let piece = stream.push(token);
            if !piece.is_empty() {
                text.push_str(piece);
                if each(piece).is_break() {
                    break;
                }
            }
        }
        let rest = stream.finish();
        if !rest.is_empty() {
            text.push_str(rest);
            let _ = each(rest);
        }
        Ok(Written {
            text,
            tokens,
            prompt_tokens: prompt.len(),
            stop: writing.stop(),
            acceptance: writing.acceptance(),
        })
    }

    /// The way of writing that was asked for.
    fn writing<'t>(
        &self,
        target: &'t Target,
        prompt: &[TokenId],
        limits: Limits,
    ) -> Result<Box<dyn Writing + 't>, Error> {
        let (engine, chance) = (self.engine, Seeded(target.random));
        let model = engine.model.clone();
        Ok(match self.speculate {
            None => Box::new(Plain::new(model, target, prompt, limits)?),
            Some(Speculate::Lookup(tokens)) => {
                let lookup = Lookup::default();
                Box::new(Speculative::new(model, target, prompt, limits, lookup, tokens, chance)?)
            }
            Some(Speculate::Draft(drafter, tokens)) => {
                engine.fits(drafter)?;
                let capacity = prompt.len().saturating_add(limits.max_tokens);
                let drafter = DraftModel::new(drafter.model.clone(), capacity, &target.transforms, target.sampler)?;
                Box::new(Speculative::new(model, target, prompt, limits, drafter, tokens, chance)?)
            }
        })
    }

    fn prompt_tokens(&self) -> Result<Vec<TokenId>, Error> {
        let mut tokens = self.engine.reader().tokenizer().encode_prompt(&self.prompt);
        if tokens.is_empty() {
            tokens.push(self.engine.begin.ok_or(Error::NoPrompt)?);
        }
        let context = self.engine.context_length();
        if tokens.len() >= context {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context });
        }
        Ok(tokens)
    }

    /// The law: constraint, then watermark, then warpers, then the draw.
    fn target(&self) -> Result<Target, Error> {
        let mut transforms = Chain::new();
        if self.through_end {
            transforms.push(Forbid::new(&self.engine.end, self.engine.model.vocabulary_size()));
        }
        if let Some(pattern) = &self.regex {
            let regex = Arc::new(Regex::new(pattern, self.engine.trie())?);
            transforms.push(Constraint::new(regex, self.engine.reader().shared_tokenizer(), self.engine.end.clone()));
        }
        if let Some(key) = self.key {
            transforms.push(Embed::new(self.engine.reader().scheme(key)?, key.strength()));
        }
        let greedy = self.temperature == 0.0;
        if !greedy {
            transforms.push(Temperature::new(self.temperature)?);
        }
        if let Some(k) = self.top_k {
            transforms.push(TopK::new(k)?);
        }
        if let Some(p) = self.top_p {
            transforms.push(TopP::new(p)?);
        }
        if let Some(p) = self.min_p {
            transforms.push(MinP::new(p)?);
        }
        let sampler = if greedy { Sampler::Greedy } else { Sampler::Categorical };
        Ok(Target { transforms, sampler, random: Random::new(self.seed) })
    }
}
