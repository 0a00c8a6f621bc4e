//! A written text, with the information that is requested about it.

use verdigris_constrain::Constraint;
use verdigris_decoding::{Acceptance, Provenance, Stop};
use verdigris_logits::TokenId;
use verdigris_text::StreamPart;

use crate::request::explain::Explained;
use crate::request::logprobs::TokenLogprobs;
use crate::request::piece::{ControlTokens, parts};

/// A written text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Written {
    /// The text, without the prompt, and without a stop string and the rest of its last token.
    pub text: String,
    /// The control tokens in the text.
    pub controls: ControlTokens,
    /// The thought before the text, if it has one: [`Request::reasoning_format`](crate::Request::reasoning_format).
    pub reasoning: Option<String>,
    /// The number of its tokens that belong to the thought and its end marker.
    pub reasoning_tokens: usize,
    /// The number of tokens before the answer: those of the thought with its markers. 0 without a thought.
    pub answer_start: usize,
    /// All tokens, including those of the thought and of a stop string.
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
    /// The name of the rule that judged drafts, if it changed the distribution of the text:
    /// [`Request::judged_by`](crate::Request::judged_by).
    pub lossy: Option<&'static str>,
    /// The log-probabilities of each of [`Written::tokens`]; `None` without
    /// [`Request::logprobs`](crate::Request::logprobs).
    pub logprobs: Option<Vec<TokenLogprobs>>,
    /// The origin of each of [`Written::tokens`] and the effect of each step; `None` without
    /// [`Request::explain`](crate::Request::explain).
    pub explained: Option<Vec<Explained>>,
    /// The provenance of each token; empty unless needed.
    pub(super) provenance: Vec<Provenance>,
    /// The constraint that it was written under.
    pub(crate) constraint: Option<Constraint>,
    /// The divergence from the model's own distribution that steering caused at each of [`Written::tokens`], in nats;
    /// `None` without a [budget](crate::Steering::budget).
    pub steering_kl: Option<Vec<f64>>,
}

impl Written {
    /// The text and the control tokens in their order.
    pub fn parts(&self) -> impl Iterator<Item = StreamPart<'_>> {
        parts(&self.text, &self.controls)
    }

    /// Whether the text was cut before it satisfied its constraint, or closed early because its tokens ran out.
    pub fn is_cut_short(&self) -> bool {
        self.complete == Some(false) || self.closed
    }
}
