//! Requests and their options.

mod begun;
mod best_of;
mod constraint;
mod drafting;
mod ends;
mod expected_mark;
mod explain;
mod guide;
mod healing;
mod logprobs;
mod many;
mod mark;
mod needs;
mod of_engine;
mod one;
mod options;
mod piece;
mod processors;
mod reasoning;
mod reread;
mod sampling;
mod search;
mod served;
mod steering;
mod stop;
mod stored;
mod structure;
mod target;
mod text;
mod warpers;
mod written;

pub use begun::Ending;
pub use best_of::BestOf;
pub use explain::{Explained, StepEffect, TokenOrigin};
pub use logprobs::{Logprob, TokenLogprobs};
pub use many::TextEvent;
pub use options::LogprobsMode;
pub use piece::{ControlTokens, Piece};
pub use reasoning::{ReasoningEffort, ReasoningFormat, UnknownName};
pub use search::Hypothesis;
pub use served::ServedEvent;
pub use written::Written;

use crate::engine::Engine;
use crate::prompt::Prompt;
use crate::request::options::{Caller, Constrained, Drafting, Ends, Guidance, Mark, Members, Processors, Reported};
use crate::request::reasoning::Thinking;
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
/// The defaults are those of `verdigris generate`: at most [`Request::MAX_TOKENS`] tokens, sampled as by
/// [`Sampling::default`], and with a new seed each time.
///
/// # The order of steps
/// The model's logits of the next token go through these steps, in this order: exclusion of ids that are not tokens,
/// [`Request::suppress_tokens`] and [`Request::through_end`]; biases ([`Request::logit_bias`],
/// [`Request::sequence_bias`], [`Request::bad_words`]); penalties; [`Request::dry_multiplier`];
/// [`Request::no_repeat_ngram_size`], [`Request::min_tokens`] and forced tokens; custom steps ([`Request::transform`]);
/// [`Request::heal`]; the constraint (such as [`Request::regex`]); guides ([`Request::guide`]), which therefore score
/// only allowed tokens and change the distribution that is marked; a watermark of green lists; temperature, top-k,
/// top-p, min-p, typical, epsilon, eta, top-a, XTC and mirostat; and a watermark of noise, which preserves the
/// distribution that results from all these. Then the token is sampled.
#[must_use = "a request does nothing until a text is requested"]
#[derive(Clone)]
pub struct Request<'a> {
    engine: &'a Engine,
    prompt: Prompt,
    mark: Mark<'a>,
    constrained: Constrained,
    ends: Ends,
    thinking: Thinking,
    heals: bool,
    pub(crate) sampling: Sampling,
    processors: Processors,
    penalty_alpha: Option<f64>,
    guides: Vec<Guidance<'a>>,
    members: Members,
    drafting: Drafting<'a>,
    reported: Reported,
    seed: Option<u64>,
    caller: Caller,
}

impl<'a> Request<'a> {
    pub(crate) fn new(engine: &'a Engine, prompt: Prompt) -> Self {
        Self {
            engine,
            prompt,
            mark: Mark::default(),
            constrained: Constrained::default(),
            ends: Ends::default(),
            thinking: Thinking::default(),
            heals: false,
            sampling: Sampling::default(),
            processors: Processors::default(),
            penalty_alpha: None,
            guides: Vec::new(),
            members: Members::default(),
            drafting: Drafting::default(),
            reported: Reported::default(),
            seed: None,
            caller: Caller::default(),
        }
    }
}
