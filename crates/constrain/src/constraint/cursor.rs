//! One text under a constraint, token by token, for those who run a model themselves.

use std::sync::Arc;

use verdigris_logits::{TokenId, Transform};

use crate::constraint::explain::Explanation;
use crate::constraint::forced::forced;
use crate::constraint::{Constraint, Standing};
use crate::machine::Mask;

/// A text under a constraint as far as it is written.
///
/// A cursor belongs to one text and may move between threads; what it asks is shared with all texts of the constraint, as
/// [`crate::Machine`] says. Clones are forks, and cheap.
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
#[derive(Clone, Debug)]
pub struct Cursor {
    constraint: Constraint,
    standing: Standing,
    ln_weight: f64,
}

impl Cursor {
    pub(crate) fn new(constraint: &Constraint, prompt: &[TokenId]) -> Self {
        Self { constraint: constraint.clone(), standing: constraint.start(prompt), ln_weight: 0.0 }
    }

    /// The tokens that may come next, and whether the text may end here.
    pub fn mask(&self) -> Arc<Mask> {
        self.standing.machine.mask(self.standing.state)
    }

    /// Whether the text may end here.
    pub fn is_accepting(&self) -> bool {
        self.standing.machine.accepts(self.standing.state)
    }

    /// Whether any text goes on from here, or ends.
    pub fn is_alive(&self) -> bool {
        self.standing.machine.goes_on(self.standing.state)
    }

    /// Goes on by one token.
    pub fn advance(&mut self, token: TokenId) {
        self.constraint.advance(&mut self.standing, token);
    }

    /// The tokens that must come next, as the tokenizer writes them after what is there; none where there is a choice.
    pub fn forced(&self) -> Vec<TokenId> {
        let (machine, lexicon) = (&self.standing.machine, self.constraint.lexicon());
        forced(machine, lexicon, self.standing.state, &self.standing.recent)
    }

    /// Why a token may come next, or may not.
    pub fn explain(&self, token: TokenId) -> Explanation {
        Explanation::of(&self.standing.machine, self.standing.state, self.constraint.lexicon().bytes(token))
    }

    /// Takes in what a model says of the next token: the share of its probability that is allowed becomes a factor of
    /// [`Cursor::weight`]. Called before [`Cursor::advance`], once a token.
    ///
    /// `logits` are natural logarithms of weights, of any common factor, one a token by its id: what a model gives, at the
    /// temperature that is drawn with, before the constraint.
    pub fn weigh(&mut self, logits: &[f32]) {
        self.ln_weight += self.constraint.mass(&self.standing, logits).ln();
    }

    /// The product of the shares of probability that were allowed. Texts that are drawn token by token under a constraint
    /// come with the model's own probabilities given the constraint, if each counts by this weight (importance sampling).
    ///
    /// A plain number from 0 to 1, without a unit: 1 where nothing was ever forbidden.
    pub fn weight(&self) -> f64 {
        self.ln_weight.exp()
    }

    /// The natural logarithm of [`Cursor::weight`] (nats, 0 or less), which does not vanish for long texts.
    pub fn ln_weight(&self) -> f64 {
        self.ln_weight
    }
}
