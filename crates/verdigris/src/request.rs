//! What is to be written, and how.

use std::ops::ControlFlow;

use serde_json::Value;
use verdigris_constrain::{Constraint, ForcedText, Grammar, Registry, Style};
use verdigris_decoding::{
    Acceptance, Coupling, DraftLength, DraftModel, Limits, Lookup, Plain, Seeded, Speculative, Stop, Target, Together,
    Writing,
};
use verdigris_logits::warp::{MinP, Temperature, TopK, TopP};
use verdigris_logits::{Chain, CountPenalty, Forbid, Random, RepetitionPenalty, Sampler, TokenId, TokenSet};
use verdigris_text::{Message, TextStream};
use verdigris_watermark::scheme::Stage;
use verdigris_watermark::{Embed, Key};

use crate::engine::Engine;
use crate::error::Error;

/// A request to write. Nothing is checked or computed before [`Request::text`] or [`Request::stream`].
#[must_use = "a request does nothing until its text is asked for"]
pub struct Request<'a> {
    engine: &'a Engine,
    prompt: Prompt,
    key: Option<&'a Key>,
    payload: Option<u32>,
    form: Option<Form>,
    style: Style,
    registry: Registry,
    forced_text: ForcedText,
    max_tokens: usize,
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
    repetition_penalty: Option<f64>,
    presence_penalty: f64,
    frequency_penalty: f64,
    seed: u64,
    through_end: bool,
    drafter: Option<Drafter<'a>>,
    draft_length: DraftLength,
    coupling: Coupling,
}

/// What stands before the text.
pub(crate) enum Prompt {
    Text(String),
    Chat(Vec<Message>),
}

/// What the text must look like.
enum Form {
    Regex(String),
    Choice(Vec<String>),
    JsonSchema(Value),
    Given(Constraint),
}

/// Who guesses.
#[derive(Clone, Copy)]
enum Drafter<'a> {
    Model(&'a Engine),
    Lookup,
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
    pub(crate) fn new(engine: &'a Engine, prompt: Prompt) -> Self {
        Self {
            engine,
            prompt,
            key: None,
            payload: None,
            form: None,
            style: Style::default(),
            registry: Registry::default(),
            forced_text: ForcedText::Any,
            max_tokens: 256,
            temperature: 1.0,
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: None,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            seed: 0,
            through_end: false,
            drafter: None,
            draft_length: DraftLength::Auto,
            coupling: Coupling::Independent,
        }
    }

    /// Marks the text with a key, which must be made for this model's tokenizer.
    pub fn watermark(mut self, key: &'a Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Writes a number into the mark, for keys that carry one.
    pub fn payload(mut self, payload: u32) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Lets the text be one that matches a regular expression as a whole (the syntax is that of the `regex`
    /// crate).
    ///
    /// Of this and the other forms a text can have, the last one asked for counts. A text that draws near to
    /// [`Request::max_tokens`] is led to its end in time, if there is time: one that needs more tokens from
    /// the beginning is cut short.
    pub fn regex(mut self, pattern: impl Into<String>) -> Self {
        self.form = Some(Form::Regex(pattern.into()));
        self
    }

    /// Lets the text be one of these.
    pub fn choice(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.form = Some(Form::Choice(texts.into_iter().map(Into::into).collect()));
        self
    }

    /// Lets the text be JSON that obeys a schema. [`verdigris_constrain::json::schema`] says what is understood.
    pub fn json_schema(mut self, schema: Value) -> Self {
        self.form = Some(Form::JsonSchema(schema));
        self
    }

    /// How the JSON of [`Request::json_schema`] is written where its schema leaves that open.
    pub fn style(mut self, style: Style) -> Self {
        self.style = style;
        self
    }

    /// Where the references of [`Request::json_schema`] may lead beside its own document.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// With which tokens a form writes what it leaves no choice about.
    pub fn forced_text(mut self, forced: ForcedText) -> Self {
        self.forced_text = forced;
        self
    }

    /// As [`Request::json_schema`], but objects have no properties that the schema does not name, unless it says
    /// that they may.
    pub(crate) fn closed_json_schema(mut self, schema: Value) -> Self {
        self.style = self.style.closed();
        self.json_schema(schema)
    }

    /// Lets the text obey a constraint of [`Engine::constraint`], which serves any number of requests and is
    /// worked out once.
    pub fn constraint(mut self, constraint: &Constraint) -> Self {
        self.form = Some(Form::Given(constraint.clone()));
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

    /// Makes tokens that stand in the prompt or the text less probable: 1 is none, 1.1 to 1.3 are usual.
    pub fn repetition_penalty(mut self, penalty: f64) -> Self {
        self.repetition_penalty = Some(penalty);
        self
    }

    /// Takes this from the logit of every token that stands in the text.
    pub fn presence_penalty(mut self, penalty: f64) -> Self {
        self.presence_penalty = penalty;
        self
    }

    /// Takes this from the logit of a token for each time that it stands in the text.
    pub fn frequency_penalty(mut self, penalty: f64) -> Self {
        self.frequency_penalty = penalty;
        self
    }

    /// Lets a smaller model draft, so that the text may be written faster. The law of the text stays what it is.
    ///
    /// How many tokens are drafted follows from how long things take, and with it which of the texts of that law
    /// comes out. For a text that can be repeated, ask for [`Request::draft_tokens`] or [`Request::repeatable`].
    pub fn draft(mut self, drafter: &'a Engine) -> Self {
        self.drafter = Some(Drafter::Model(drafter));
        self
    }

    /// Drafts from what followed the last few tokens when they stood in the text before. The text is the one
    /// that is written without drafts under the same seed.
    pub fn lookup(mut self) -> Self {
        self.drafter = Some(Drafter::Lookup);
        self
    }

    /// Drafts just so many tokens for each call of the model, where otherwise as many are drafted as turn out to
    /// pay, or none. A seed gives one text for each number.
    pub fn draft_tokens(mut self, tokens: usize) -> Self {
        self.draft_length = DraftLength::Fixed(tokens);
        self
    }

    /// Lets a draft model guess at the very draws of this request instead of drawing for itself: the text is the
    /// one that the seed gives without drafts. Fewer drafts are accepted, unless the temperature is 0.
    pub fn repeatable(mut self) -> Self {
        self.coupling = Coupling::Shared;
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
        let target = self.target(prompt.len())?;
        let mut writing = self.writing(&target, &prompt, self.limits())?;
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

    /// Writes so many texts side by side, which takes far less time than one after the other: those that this request gives with
    /// its seed and the ones after it. The prompt is read and kept once. Nothing is drafted.
    pub fn texts(self, count: usize) -> Result<Vec<Written>, Error> {
        self.stream_texts(count, |_, _| ControlFlow::Continue(()))
    }

    /// As [`Request::texts`], and hands over each piece of each text, with the text's number, as [`Request::stream`] does.
    pub fn stream_texts(
        mut self,
        count: usize,
        mut each: impl FnMut(usize, &str) -> ControlFlow<()>,
    ) -> Result<Vec<Written>, Error> {
        let prompt = self.prompt_tokens()?;
        if let Some(form) = &self.form {
            // Worked out once for all.
            self.form = Some(Form::Given(self.constraint_of(form)?));
        }
        let first = self.seed;
        let target = |i| {
            self.seed = first.wrapping_add(i as u64);
            self.target(prompt.len())
        };
        let targets = (0..count).map(target).collect::<Result<Vec<_>, _>>()?;
        let vocabulary = self.engine.reader().tokenizer().vocabulary();
        let written = Written {
            text: String::new(),
            tokens: Vec::new(),
            prompt_tokens: prompt.len(),
            stop: None,
            acceptance: None,
        };
        let mut texts: Vec<_> = targets.iter().map(|_| (written.clone(), TextStream::new(vocabulary))).collect();
        let mut together = Together::new(self.engine.model.clone(), &targets, &prompt, &self.limits())?;
        let mut goes_on = ControlFlow::Continue(());
        // On a break no further step is taken: its tokens would be part of no text.
        while goes_on.is_continue()
            && let Some(step) = together.next()
        {
            let (i, token) = step?;
            let (written, stream) = &mut texts[i];
            written.tokens.push(token);
            let piece = stream.push(token);
            if !piece.is_empty() {
                written.text.push_str(piece);
                goes_on = each(i, piece);
            }
        }
        let ends = texts.into_iter().enumerate().map(|(i, (mut written, stream))| {
            written.stop = together.stop(i);
            let rest = stream.finish();
            if !rest.is_empty() {
                written.text.push_str(rest);
                let _ = each(i, rest);
            }
            written
        });
        Ok(ends.collect())
    }

    fn limits(&self) -> Limits {
        let end = if self.through_end { Vec::new() } else { self.engine.end.clone() };
        Limits { max_tokens: self.max_tokens, end }
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
        let length = self.draft_length;
        Ok(match self.drafter {
            None => Box::new(Plain::new(model, target, prompt, limits)?),
            Some(Drafter::Lookup) => {
                let lookup = Lookup::default();
                Box::new(Speculative::new(model, target, prompt, limits, lookup, length, chance)?)
            }
            Some(Drafter::Model(drafter)) => {
                engine.fits(drafter)?;
                let capacity = prompt.len().saturating_add(limits.max_tokens);
                let (small, transforms) = (drafter.model.clone(), &target.transforms);
                let drafter = DraftModel::new(small, capacity, transforms, target.sampler, self.coupling)?;
                let drafter = drafter.cut(engine.model.vocabulary_size());
                Box::new(Speculative::new(model, target, prompt, limits, drafter, length, chance)?)
            }
        })
    }

    fn prompt_tokens(&self) -> Result<Vec<TokenId>, Error> {
        let tokenizer = self.engine.reader().tokenizer();
        let mut tokens = match &self.prompt {
            Prompt::Text(prompt) => tokenizer.encode_prompt(prompt)?,
            Prompt::Chat(messages) => self.engine.chat_template()?.tokens(messages, tokenizer)?,
        };
        if tokens.is_empty() {
            tokens.push(self.engine.begin.ok_or(Error::NoPrompt)?);
        }
        let context = self.engine.context_length();
        if tokens.len() >= context {
            return Err(Error::PromptTooLong { tokens: tokens.len(), context });
        }
        Ok(tokens)
    }

    fn constraint_of(&self, form: &Form) -> Result<Constraint, Error> {
        let constraint = self.engine.constraint(match form {
            Form::Given(constraint) => return Ok(constraint.clone()),
            Form::Regex(pattern) => Grammar::regex(pattern)?,
            Form::Choice(texts) => Grammar::choice(texts)?,
            Form::JsonSchema(schema) => Grammar::json_schema_with(schema, self.style, &self.registry)?,
        });
        Ok(constraint.forced_text(self.forced_text))
    }

    fn embed(&self, key: &Key) -> Result<Embed, Error> {
        self.engine.reader().fits(key)?;
        Ok(match self.payload {
            Some(payload) => key.embed_payload(payload)?,
            None => key.embed()?,
        })
    }

    /// The law: tokens that exist, penalties, then constraint, then watermark, then warpers, then the draw. A watermark of noise
    /// comes after the warpers: it keeps the law that they leave.
    fn target(&self, prompt_tokens: usize) -> Result<Target, Error> {
        let mut transforms = Chain::new();
        let (end, known) = (if self.through_end { &self.engine.end[..] } else { &[] }, self.engine.known());
        if !end.is_empty() || known.is_some() {
            let mut allowed = known.cloned().unwrap_or_else(|| TokenSet::full(self.engine.model.vocabulary_size()));
            end.iter().for_each(|&token| allowed.remove(token));
            transforms.push(Forbid::from(allowed));
        }
        if let Some(penalty) = self.repetition_penalty {
            transforms.push(RepetitionPenalty::new(penalty)?);
        }
        if (self.presence_penalty, self.frequency_penalty) != (0.0, 0.0) {
            transforms.push(CountPenalty::new(self.presence_penalty, self.frequency_penalty)?);
        }
        if let Some(form) = &self.form {
            // So that the text is whole when its tokens are used up.
            let room = self.engine.context_length() - prompt_tokens;
            transforms.push(self.constraint_of(form)?.within(self.max_tokens.min(room)));
        }
        let greedy = self.temperature == 0.0;
        let mut after = None;
        if let Some(key) = self.key {
            let embed = self.embed(key)?;
            match embed.stage() {
                Stage::Logits => transforms.push(embed),
                Stage::Warped if greedy => {
                    return Err(Error::NoChance { id: key.id().to_owned(), dialect: key.dialect().name() });
                }
                Stage::Warped => after = Some(embed),
            }
        }
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
        if let Some(embed) = after {
            transforms.push(embed);
        }
        let sampler = if greedy { Sampler::Greedy } else { Sampler::Categorical };
        Ok(Target { transforms, sampler, random: Random::new(self.seed) })
    }
}
