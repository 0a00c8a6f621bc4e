//! One text under a constraint, token by token, for callers that run a model themselves.

use std::sync::Arc;

use verdigris_logits::{TokenId, Transform};

use super::explain::Explanation;
use super::forced::forced;
use super::{Constraint, ConstraintState};
use crate::machine::mask::Mask;

/// A text under a constraint, as far as it has been written.
///
/// A cursor belongs to one text and may move between threads; masks and states are shared with all texts of the
/// constraint, see [`crate::Machine`]. Clones are cheap forks: to roll back tokens, keep an earlier clone.
///
/// ```
/// # use std::sync::Arc;
/// # use verdigris_constrain::{Constraint, Lexicon};
/// # let tokenizer = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");
/// # let lexicon = Lexicon::new(Arc::new(verdigris_text::Tokenizer::from_json(tokenizer).unwrap()), &[0]);
/// let constraint = Constraint::regex(&lexicon, "[0-9]{4}")?;
/// let mut cursor = constraint.cursor(&[]);
/// while !cursor.is_accepting() {
///     let mask = cursor.mask();
///     // A model would choose here.
///     let token = mask.tokens.iter().next().expect("a text that is not whole can go on");
///     cursor.advance(token);
/// }
/// # Ok::<(), verdigris_constrain::BadRegex>(())
/// ```
#[doc(alias = "matcher")]
#[doc(alias = "GrammarMatcher")]
#[doc(alias = "rollback")]
#[derive(Clone, Debug)]
pub struct Cursor {
    constraint: Constraint,
    state: ConstraintState,
    ln_weight: f64,
}

impl Constraint {
    /// Starts a text under this constraint after a prompt.
    pub fn cursor(&self, prompt: &[TokenId]) -> Cursor {
        Cursor { constraint: self.clone(), state: self.start(prompt), ln_weight: 0.0 }
    }
}

impl Cursor {
    /// The tokens that may come next, and whether the text may end here.
    #[doc(alias = "compute_mask")]
    #[doc(alias = "fill_next_token_bitmask")]
    pub fn mask(&self) -> Arc<Mask> {
        self.state.machine.mask(self.state.at)
    }

    /// Whether the text may end here.
    #[doc(alias = "is_terminated")]
    pub fn is_accepting(&self) -> bool {
        self.state.machine.accepts(self.state.at)
    }

    /// Whether the text can continue or end.
    pub fn is_alive(&self) -> bool {
        self.state.machine.goes_on(self.state.at)
    }

    /// Advances by one token.
    #[doc(alias = "consume_token")]
    #[doc(alias = "accept_token")]
    pub fn advance(&mut self, token: TokenId) {
        self.constraint.advance(&mut self.state, token);
    }

    /// The tokens that must come next, as the tokenizer would split them after the text so far; empty if there is a
    /// choice.
    #[doc(alias = "ff_tokens")]
    #[doc(alias = "compute_ff_tokens")]
    #[doc(alias = "find_jump_forward_string")]
    pub fn forced(&self) -> Vec<TokenId> {
        let (machine, lexicon) = (&self.state.machine, self.constraint.lexicon());
        forced(machine, lexicon, self.state.at, &self.state.recent)
    }

    /// Explains why a token is allowed or not.
    pub fn explain(&self, token: TokenId) -> Explanation {
        Explanation::of(&self.state.machine, self.state.at, self.constraint.lexicon().bytes(token))
    }

    /// Records a model's distribution over the next token: the probability of the allowed tokens becomes a factor of
    /// [`Cursor::weight`]. Call this once per token, before [`Cursor::advance`].
    ///
    /// `logits` holds one unnormalised log-probability per token id: the model's output at the sampling temperature,
    /// before the constraint.
    pub fn weigh(&mut self, logits: &[f32]) {
        self.ln_weight += self.constraint.allowed_probability(&self.state, logits).ln();
    }

    /// The product of the probabilities of the allowed tokens. Texts that are sampled token by token under a constraint
    /// follow the model's own distribution given the constraint if each is weighted by this (importance sampling).
    ///
    /// A dimensionless number from 0 to 1; 1 if nothing was ever forbidden.
    pub fn weight(&self) -> f64 {
        self.ln_weight.exp()
    }

    /// The natural logarithm of [`Cursor::weight`] (nats, 0 or less), which does not underflow for long texts.
    pub fn ln_weight(&self) -> f64 {
        self.ln_weight
    }
}
