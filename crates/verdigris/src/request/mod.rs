//! What is to be written, and how.

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

/// A request to write. Nothing is checked or computed before [`Request::text`] or one of the other methods that
/// write.
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
/// By default it writes at most [`Request::MAX_TOKENS`] tokens, samples them as [`Sampling`] says, and has its own seed
/// each time.
///
/// # The order of steps
/// What a model says of the next token goes through these steps, in this order: ids that are no tokens,
/// [`Request::suppress_tokens`] and [`Request::through_end`]; biases ([`Request::logit_bias`],
/// [`Request::sequence_bias`], [`Request::bad_words`]); penalties; [`Request::dry_multiplier`];
/// [`Request::no_repeat_ngram_size`], [`Request::min_tokens`] and forced tokens; one's own steps
/// ([`Request::transform`]); the form (as [`Request::regex`]); judges ([`Request::guide`]), which so score nothing that
/// cannot come and are part of what the mark is put on; a watermark of green lists; temperature, top-k, top-p, min-p,
/// typical, epsilon, eta, top-a, XTC and mirostat; and a watermark of noise, which keeps the law that all these leave.
/// Then the token is drawn.
#[must_use = "a request does nothing until its text is asked for"]
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

/// What the text must look like.
#[derive(Clone)]
enum Form {
    Regex(String),
    Choice(Vec<String>),
    JsonSchema(Value),
    Given(Constraint),
}

impl Form {
    /// The method that asks for it.
    fn name(&self) -> &'static str {
        match self {
            Self::Regex(_) => "regex",
            Self::Choice(_) => "choice",
            Self::JsonSchema(_) => "json_schema",
            Self::Given(_) => "constraint",
        }
    }
}

/// Who guesses.
#[derive(Clone, Copy)]
enum Guesser<'a> {
    Model(&'a Engine),
    Head(&'a DraftHead),
    Expert,
}

/// What was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The text, without the prompt, and without a stop string and what came after it in the same token.
    pub text: String,
    /// Its tokens; those of a stop string are among them.
    pub tokens: Vec<TokenId>,
    /// The number of tokens of the prompt.
    pub prompt_tokens: usize,
    /// What ended it; `None` where the one who read the stream did.
    pub stop: Option<Stop>,
    /// The stop string that ended it, where one did.
    pub stop_string: Option<String>,
    /// Whether the text has the form that was asked for as a whole, or was cut short: its tokens were used up, the
    /// context was full, or a stop string came. `None` where no form was asked for.
    pub complete: Option<bool>,
    /// Whether its tokens ran out inside the form, which then ruled out how it would have been free to continue: the
    /// text is of the form, but its last values may be cut or made up
    /// ([`Constraint::ran_out_of_room`]). `false` where no form was asked for.
    pub closed: bool,
    /// The seed of its draws.
    pub seed: u64,
    /// How drafting went; `None` where nothing was drafted.
    pub acceptance: Option<Acceptance>,
    /// The name of the rule by which drafts stood, where it changed the law of the text: [`Request::judged_by`].
    pub lossy: Option<&'static str>,
    /// What each of [`Written::tokens`] was expected to be; `None` where [`Request::logprobs`] was not asked for.
    pub logprobs: Option<Vec<TokenLogprobs>>,
    /// How each of [`Written::tokens`] came, and what each step did; `None` where [`Request::explain`] was not asked
    /// for.
    pub explained: Option<Vec<Explained>>,
    /// How each token came; empty where nobody asks.
    provenance: Vec<Provenance>,
    /// The form that it was written under.
    pub(crate) form: Option<Constraint>,
    /// How far steering has moved the law of each of [`Written::tokens`], in nats; `None` without a
    /// [budget](crate::Steering::budget).
    pub steering_kl: Option<Vec<f64>>,
}

impl Written {
    /// Whether the text has not the form that was asked for as its model would have written it: it was cut, or closed
    /// because its tokens ran out.
    pub fn is_cut_short(&self) -> bool {
        self.complete == Some(false) || self.closed
    }
}

impl<'a> Request<'a> {
    /// The most tokens that are written, unless told otherwise.
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

    /// Another prompt, with all else as it is asked for.
    pub fn prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        self.prompt = prompt.into();
        self
    }

    /// Marks the text with a key, which must be made for this model's tokenizer.
    pub fn watermark(mut self, key: &'a Key) -> Self {
        self.key = Some(key);
        self
    }

    /// Marks only where the law has more entropy than this, in nats, once penalties and the form have acted on it: see
    /// [`Embed::above_entropy`](verdigris_watermark::Embed::above_entropy). For keys of green lists.
    pub fn entropy_threshold(mut self, nats: f64) -> Self {
        self.entropy_threshold = Some(nats);
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
    /// [`Request::max_tokens`] is led to its end in time. Where it is certain that none is so short, that is
    /// [`Error::NoRoom`](crate::Error::NoRoom) before anything is written; where the search for one came to its budget,
    /// the text may be cut short ([`Written::complete`]).
    pub fn regex(mut self, pattern: impl Into<String>) -> Self {
        self.form = Some(Form::Regex(pattern.into()));
        self
    }

    /// Lets the text be one of these.
    pub fn choice(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.form = Some(Form::Choice(texts.into_iter().map(Into::into).collect()));
        self
    }

    /// Lets the text be JSON that obeys a schema. [`verdigris_constrain::json`] says what is understood.
    pub fn json_schema(mut self, schema: Value) -> Self {
        self.form = Some(Form::JsonSchema(schema));
        self
    }

    /// How the JSON of [`Request::json_schema`] is written where its schema leaves that open. With another form it is
    /// an error.
    pub fn style(mut self, style: Style) -> Self {
        self.style = Some(style);
        self
    }

    /// Where the references of [`Request::json_schema`] may lead beside its own document. With another form it is an
    /// error.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// With which tokens a form writes what it leaves no choice about. Without a form it is an error.
    pub fn forced_text(mut self, forced: ForcedText) -> Self {
        self.forced_text = Some(forced);
        self
    }

    /// As [`Request::json_schema`], but objects have no properties that the schema does not name, unless it says
    /// that they may.
    pub(crate) fn closed_json_schema(mut self, schema: Value) -> Self {
        self.style = Some(self.style.unwrap_or_default().closed());
        self.json_schema(schema)
    }

    /// Lets the text obey a constraint of [`Engine::constraint`], which serves any number of requests and is
    /// worked out once.
    pub fn constraint(mut self, constraint: &Constraint) -> Self {
        self.form = Some(Form::Given(constraint.clone()));
        self
    }

    /// The most tokens to write; [`Request::MAX_TOKENS`] unless told otherwise. The model's context may end the text
    /// sooner.
    pub fn max_tokens(mut self, max_tokens: usize) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// Ends the text where this comes in it, wherever tokens begin and end; may be asked for several times. What
    /// ended it is not part of the text, and no piece of it is handed over before it is known that it goes on
    /// otherwise. Of several, that counts which is whole first. It is looked for in the text alone, not in the
    /// prompt, and holds at most [`Request::LONGEST_STOP`] bytes.
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stops.push(text.into());
        self
    }

    /// Puts a step of one's own into the law of the text, after the penalties and before the form and the watermark:
    /// what it forbids stays forbidden, and it cannot allow what the form forbids. Several act in the order in which
    /// they are asked for. [`Transform`] says what a step may do; a form and a step that together forbid every token
    /// end the text with an error.
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

    /// The seed of all draws. The same request with the same seed gives the same text. Unless told otherwise it is a
    /// new one from the operating system each time, below 2^53 so that it survives as a number in JSON;
    /// [`Written::seed`] tells it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Forbids the end of the text, so that exactly as many tokens are written as asked for.
    pub fn through_end(mut self) -> Self {
        self.through_end = true;
        self
    }

    /// Lets a smaller model draft, so that the text may be written faster. The law of the text stays what it is.
    ///
    /// How many tokens are drafted follows from how long things take, and with it which of the texts of that law
    /// comes out. For a text that can be repeated, ask for [`Request::draft_tokens`] or [`Request::repeatable`].
    pub fn draft(mut self, drafter: &'a Engine) -> Self {
        self.guesser = Some(Guesser::Model(drafter));
        self
    }

    /// Lets a draft head of this model draft: a layer or a few that read the model's own hidden states
    /// ([`DraftHead::load`]). The law of the text stays what it is, as with [`Request::draft`].
    #[doc(alias = "eagle")]
    #[doc(alias = "medusa")]
    pub fn draft_head(mut self, head: &'a DraftHead) -> Self {
        self.guesser = Some(Guesser::Head(head));
        self
    }

    /// Lets the first expert of a [steered](Engine::steered) model draft. What it has read as drafts it does not read
    /// again to steer. The law of the text stays what it is, as with [`Request::draft`].
    pub fn draft_by_expert(mut self) -> Self {
        self.guesser = Some(Guesser::Expert);
        self
    }

    /// Drafts from what followed the last few tokens when they stood in the text before. The text is the one that is
    /// written without drafts under the same seed. Another drafter that is asked for drafts where less than four tokens
    /// did.
    pub fn lookup(mut self) -> Self {
        self.lookup = true;
        self
    }

    /// Drafts just so many tokens for each call of the model, and 64 where it is more. Otherwise as many are drafted as
    /// turn out to pay, or none. A seed gives one text for each number.
    pub fn draft_tokens(mut self, tokens: usize) -> Self {
        self.draft_length = DraftLength::Fixed(tokens);
        self
    }

    /// Drafts a tree of this shape for each call of the model: several tokens in one place, of which one may stand. A
    /// drafter that knows no trees drafts as many tokens one after the other as the tree is deep.
    pub fn draft_tree(mut self, shape: TreeShape) -> Self {
        self.draft_length = DraftLength::Tree(shape);
        self
    }

    /// The rule that decides which drafts stand; each token by itself unless told otherwise. One that changes the law
    /// of the text is named by [`Written::lossy`].
    pub fn judged_by(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// The name of the rule, where drafts are made and it changes the law of the text.
    fn lossy(&self) -> Option<&'static str> {
        ((self.guesser.is_some() || self.lookup) && !self.rule.is_lossless()).then(|| self.rule.name())
    }

    /// Lets a draft model guess at the very draws of this request instead of drawing for itself: the text is the
    /// one that the seed gives without drafts. Fewer drafts are accepted, unless the temperature is 0.
    pub fn repeatable(mut self) -> Self {
        self.coupling = Coupling::Shared;
        self
    }
}
