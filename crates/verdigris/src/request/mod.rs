//! Requests and their options.

mod begun;
mod best_of;
mod expected_mark;
mod explain;
mod guide;
mod law;
mod logprobs;
mod many;
mod one;
mod processors;
mod reread;
mod search;
mod served;
mod steering;
mod stop;
mod text;
mod warpers;

use std::sync::Arc;

use serde_json::Value;
use verdigris_constrain::{Constraint, ForcedText, Registry, Style};
use verdigris_decoding::{Acceptance, Alpha, Coupling, DraftLength, Provenance, Rule, Stop, TreeShape};
use verdigris_logits::{Chain, TokenId, Transform};
use verdigris_models::DraftHead;
use verdigris_schedule::Account;
use verdigris_watermark::Key;

pub use best_of::BestOf;
pub use explain::{Explained, StepEffect, TokenOrigin};
pub use logprobs::{Logprob, LogprobsMode, TokenLogprobs};
pub use many::Event;
pub use search::Hypothesis;
pub use served::{Ending, Piece};

use crate::engine::Engine;
use crate::prompt::Prompt;
use crate::request::guide::Guidance;
use crate::request::processors::Processors;
use crate::request::steering::MemberPrompts;
use crate::sampling::Sampling;

/// A request for a text. Nothing is checked or computed before [`Request::text`] or another method that writes.
///
/// ```no_run
/// use verdigris::{Engine, Key};
///
/// let engine = Engine::load("fixtures/models/tale")?;
/// let key = Key::load("my.key".as_ref())?;
/// let request = engine.request("The captain").watermark(&key).max_tokens(100).stop("\n\n");
/// let written = request.stream(|piece| {
///     print!("{piece}");
///     std::ops::ControlFlow::Continue(())
/// })?;
/// println!("\n{} tokens, seed {}", written.tokens.len(), written.seed);
/// # Ok::<(), verdigris::Error>(())
/// ```
///
/// The defaults are those of `verdigris generate`: at most [`Request::MAX_TOKENS`] tokens, at [`Request::TEMPERATURE`]
/// with [`Request::TOP_P`], and with a new seed each time.
///
/// # The order of steps
/// The model's logits of the next token go through these steps, in this order: exclusion of ids that are not tokens,
/// [`Request::suppress_tokens`] and [`Request::through_end`]; biases ([`Request::logit_bias`],
/// [`Request::sequence_bias`], [`Request::bad_words`]); penalties; [`Request::dry_multiplier`];
/// [`Request::no_repeat_ngram_size`], [`Request::min_tokens`] and forced tokens; custom steps ([`Request::transform`]);
/// the constraint (such as [`Request::regex`]); guides ([`Request::guide`]), which therefore score only allowed tokens
/// and change the distribution that is marked; a watermark of green lists; temperature, top-k, top-p, min-p, typical,
/// epsilon, eta, top-a, XTC and mirostat; and a watermark of noise, which preserves the distribution that results from
/// all these. Then the token is sampled.
#[must_use = "a request does nothing until a text is requested"]
#[derive(Clone)]
pub struct Request<'a> {
    engine: &'a Engine,
    prompt: Prompt,
    key: Option<&'a Key>,
    payload: Option<u32>,
    entropy_threshold: Option<f64>,
    form: Option<Form>,
    style: Option<Style>,
    registry: Option<Registry>,
    forced_text: Option<ForcedText>,
    max_tokens: usize,
    stops: Vec<String>,
    pub(crate) sampling: Sampling,
    processors: Processors,
    penalty_alpha: Option<f64>,
    alpha: Option<Alpha>,
    logprobs: Option<usize>,
    logprobs_mode: LogprobsMode,
    explain: bool,
    own: Option<Arc<Chain>>,
    guides: Vec<Guidance<'a>>,
    member_prompts: MemberPrompts,
    seed: Option<u64>,
    through_end: bool,
    guesser: Option<Guesser<'a>>,
    lookup: bool,
    draft_length: DraftLength,
    coupling: Coupling,
    rule: Rule,
    account: Account,
    cache_salt: Arc<str>,
}

/// The constraint on the text.
#[derive(Clone)]
enum Form {
    Regex(String),
    Choice(Vec<String>),
    JsonSchema(Value),
    Given(Constraint),
}

impl Form {
    /// The method that sets it.
    fn name(&self) -> &'static str {
        match self {
            Self::Regex(_) => "regex",
            Self::Choice(_) => "choice",
            Self::JsonSchema(_) => "json_schema",
            Self::Given(_) => "constraint",
        }
    }
}

/// The source of drafts.
#[derive(Clone, Copy)]
enum Guesser<'a> {
    Model(&'a Engine),
    Head(&'a DraftHead),
    Expert,
}

/// A written text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The text, without the prompt, and without a stop string and the rest of its last token.
    pub text: String,
    /// Its tokens, including those of a stop string.
    pub tokens: Vec<TokenId>,
    /// The number of tokens of the prompt.
    pub prompt_tokens: usize,
    /// The reason that it ended; `None` if the reader of the stream ended it.
    pub stop: Option<Stop>,
    /// The stop string that ended it, if any.
    pub stop_string: Option<String>,
    /// Whether the text satisfies its constraint. `false` if it was cut short: its tokens were used up, the context was
    /// full, or a stop string ended it. `None` without a constraint.
    pub complete: Option<bool>,
    /// Whether its tokens ran out inside the constraint, which then ruled out continuations that were otherwise
    /// allowed: the text satisfies the constraint, but its last values may be cut or made up
    /// ([`Constraint::ran_out_of_room`]). `false` without a constraint.
    pub closed: bool,
    /// The seed that it was sampled with.
    pub seed: u64,
    /// The acceptance of drafts; `None` if nothing was drafted.
    pub acceptance: Option<Acceptance>,
    /// The name of the rule that judged drafts, if it changed the distribution of the text: [`Request::judged_by`].
    pub lossy: Option<&'static str>,
    /// The log-probabilities of each of [`Written::tokens`]; `None` without [`Request::logprobs`].
    pub logprobs: Option<Vec<TokenLogprobs>>,
    /// The origin of each of [`Written::tokens`] and the effect of each step; `None` without [`Request::explain`].
    pub explained: Option<Vec<Explained>>,
    /// The provenance of each token; empty unless needed.
    provenance: Vec<Provenance>,
    /// The constraint that it was written under.
    pub(crate) form: Option<Constraint>,
    /// The divergence from the model's own distribution that steering caused at each of [`Written::tokens`], in nats;
    /// `None` without a [budget](crate::Steering::budget).
    pub steering_kl: Option<Vec<f64>>,
}

impl Written {
    /// Whether the text was cut before it satisfied its constraint, or closed early because its tokens ran out.
    pub fn is_cut_short(&self) -> bool {
        self.complete == Some(false) || self.closed
    }
}

impl<'a> Request<'a> {
    /// The default of [`Request::max_tokens`].
    pub const MAX_TOKENS: usize = 256;

    /// Below this temperature the most probable token is taken every time, as at 0.
    pub const LEAST_TEMPERATURE: f32 = 1e-30;

    pub(crate) fn new(engine: &'a Engine, prompt: Prompt) -> Self {
        Self {
            engine,
            prompt,
            key: None,
            payload: None,
            entropy_threshold: None,
            form: None,
            style: None,
            registry: None,
            forced_text: None,
            max_tokens: Self::MAX_TOKENS,
            stops: Vec::new(),
            sampling: Sampling::default(),
            processors: Processors::default(),
            penalty_alpha: None,
            alpha: None,
            logprobs: None,
            logprobs_mode: LogprobsMode::Raw,
            explain: false,
            own: None,
            guides: Vec::new(),
            member_prompts: MemberPrompts::default(),
            seed: None,
            through_end: false,
            guesser: None,
            lookup: false,
            draft_length: DraftLength::Auto,
            coupling: Coupling::Independent,
            rule: Rule::default(),
            account: Account::default(),
            cache_salt: "".into(),
        }
    }

    /// Replaces the prompt.
    pub fn prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Marks the text with a key, which must have been made for this model's tokenizer.
    pub fn watermark(mut self, key: &'a Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Marks only tokens whose distribution, after penalties and the constraint, has more entropy than this, in nats:
    /// see [`Embed::above_entropy`](verdigris_watermark::Embed::above_entropy). For keys of green lists.
    pub fn entropy_threshold(mut self, nats: f64) -> Self {
        self.entropy_threshold = Some(nats);
        self
    }

    /// Embeds a number in the mark, for keys that carry a payload.
    pub fn payload(mut self, payload: u32) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Constrains the text as a whole to a regular expression, in the syntax of the `regex` crate.
    ///
    /// Of this and the other constraints, the last one set applies. A text that approaches [`Request::max_tokens`] is
    /// led to its end in time. If it is certain that no text is short enough, the request fails with
    /// [`Error::NoRoom`](crate::Error::NoRoom) before anything is written. If the search for a short text exceeded its
    /// budget, the text may be cut short ([`Written::complete`]).
    pub fn regex(mut self, pattern: impl Into<String>) -> Self {
        self.form = Some(Form::Regex(pattern.into()));
        self
    }

    /// Constrains the text to one of these.
    pub fn choice(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.form = Some(Form::Choice(texts.into_iter().map(Into::into).collect()));
        self
    }

    /// Constrains the text to JSON that satisfies a schema. [`verdigris_constrain::json`] lists what is supported.
    pub fn json_schema(mut self, schema: Value) -> Self {
        self.form = Some(Form::JsonSchema(schema));
        self
    }

    /// Sets how the JSON of [`Request::json_schema`] is written where its schema leaves that open. An error with other
    /// constraints.
    pub fn style(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }

    /// Sets the documents that references of [`Request::json_schema`] may point to, in addition to its own. An error
    /// with other constraints.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Sets how text that the constraint leaves no choice about is split into tokens. An error without a constraint.
    pub fn forced_text(mut self, forced: ForcedText) -> Self {
        self.forced_text = Some(forced);
        self
    }

    /// Like [`Request::json_schema`], but objects have only properties that the schema names, unless it explicitly
    /// allows others.
    pub(crate) fn closed_json_schema(mut self, schema: Value) -> Self {
        self.style = Some(self.style.unwrap_or_default().closed());
        self.json_schema(schema)
    }

    /// Applies a constraint of [`Engine::constraint`], which is compiled once for any number of requests.
    pub fn constraint(mut self, constraint: &Constraint) -> Self {
        self.form = Some(Form::Given(constraint.clone()));
        self
    }

    /// Sets the maximum number of tokens to write; [`Request::MAX_TOKENS`] by default. The model's context may end the
    /// text sooner.
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// Ends the text where this string appears, and leaves the string out; can be called several times. Token
    /// boundaries do not matter. Text that may be the beginning of a stop string is held back until it is known to
    /// continue differently. Of several strings, the one that is complete first counts. Only the text is searched, not
    /// the prompt. A string has at most [`Request::LONGEST_STOP`] bytes.
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stops.push(text.into());
        self
    }

    /// Adds a custom step after the penalties and before the constraint and the watermark: tokens that it forbids stay
    /// forbidden, and it cannot allow tokens that the constraint forbids. Several steps act in the order in which they
    /// are added. [`Transform`] defines what a step may do. If a constraint and a step together forbid every token, the
    /// text ends with an error.
    ///
    /// ```no_run
    /// use verdigris::Engine;
    /// use verdigris::logits::{Row, TokenId, Transform};
    ///
    /// /// Adds a number to the logits of some tokens.
    /// struct Bias(Vec<(TokenId, f32)>);
    ///
    /// impl Transform for Bias {
    ///     type State = ();
    ///     fn start(&self, _prompt: &[TokenId]) {}
    ///     fn apply(&self, _: &(), row: &mut Row) {
    ///         self.0.iter().for_each(|&(token, by)| row.logits_mut()[token as usize] += by);
    ///     }
    ///     fn advance(&self, _: &mut (), _: TokenId) {}
    /// }
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let written = engine.request("The captain").transform(Bias(vec![(13, -4.0)])).text()?;
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    pub fn transform<T: Transform + Send + Sync + 'static>(mut self, step: T) -> Self {
        let before = match self.own.take() {
            Some(own) => Chain::new().then(own),
            None => Chain::new(),
        };
        self.own = Some(Arc::new(before.then(step)));
        self
    }

    /// How tokens are sampled, all options at once.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Sets the seed of all random choices. The same request with the same seed gives the same text. By default it is a
    /// new one from the operating system each time, below 2^53 so that JSON numbers represent it exactly;
    /// [`Written::seed`] returns it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Forbids the end tokens, so that exactly [`Request::max_tokens`] tokens are written.
    pub fn through_end(mut self) -> Self {
        self.through_end = true;
        self
    }

    /// Lets a smaller model draft, so that the text may be written faster. The distribution of the text does not change.
    ///
    /// The number of drafted tokens depends on measured times, and with it the text that a seed gives. For reproducible
    /// texts use [`Request::draft_tokens`] or [`Request::repeatable`].
    pub fn draft(mut self, drafter: &'a Engine) -> Self {
        self.guesser = Some(Guesser::Model(drafter));
        self
    }

    /// Drafts with a draft head of this model: one or a few layers that read the model's own hidden states
    /// ([`DraftHead::load`]). The distribution of the text is unchanged, as with [`Request::draft`].
    #[doc(alias = "eagle")]
    #[doc(alias = "medusa")]
    pub fn draft_head(mut self, head: &'a DraftHead) -> Self {
        self.guesser = Some(Guesser::Head(head));
        self
    }

    /// Drafts with the first expert of a [steered](Engine::steered) model. It does not read drafts again for steering.
    /// The distribution of the text is unchanged, as with [`Request::draft`].
    pub fn draft_by_expert(mut self) -> Self {
        self.guesser = Some(Guesser::Expert);
        self
    }

    /// Drafts the tokens that followed the last few tokens where they occurred before. The text is the one that is
    /// written without drafts under the same seed. If another drafter is set too, measurements choose between the two;
    /// with a fixed number of drafts, lookup drafts where at least four tokens match.
    pub fn lookup(mut self) -> Self {
        self.lookup = true;
        self
    }

    /// Drafts exactly this many tokens for each call of the model, at most 64. By default the number is chosen by
    /// measurements and may be 0. For a fixed number, a seed always gives the same text.
    pub fn draft_tokens(mut self, tokens: usize) -> Self {
        self.draft_length = DraftLength::Fixed(tokens);
        self
    }

    /// Drafts a tree of this shape for each call of the model: several alternatives at a position, of which one may be
    /// accepted. A drafter that does not support trees drafts a chain as long as the tree is deep.
    pub fn draft_tree(mut self, shape: TreeShape) -> Self {
        self.draft_length = DraftLength::Tree(shape);
        self
    }

    /// Sets the rule that decides which drafts are accepted; by default each token is judged by itself. A rule that
    /// changes the distribution of the text is named by [`Written::lossy`].
    pub fn judged_by(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// The name of the rule, if there are drafts and it changes the distribution of the text.
    fn lossy(&self) -> Option<&'static str> {
        ((self.guesser.is_some() || self.lookup) && !self.rule.is_lossless()).then(|| self.rule.name())
    }

    /// Makes a draft model guess with the random numbers of this request instead of its own: the text is the one that
    /// the seed gives without drafts. Fewer drafts are accepted, unless the temperature is 0.
    pub fn repeatable(mut self) -> Self {
        self.coupling = Coupling::Shared;
        self
    }
}
