//! Searching for texts instead of drawing them one token after the other.
//!
//! | module | finds |
//! |---|---|
//! | [`beams`] | the most probable texts, nearly (beam search), or some that are drawn on the way (beam sampling) |
//! | [`stochastic`] | texts that are drawn from the law without replacement (stochastic beam search) |
//! | [`contrastive`] | a text that does not repeat its own meaning (contrastive search) |
//!
//! All hypotheses of a step are read in one call of the model, each has a state of the transforms of its own, and their
//! caches share the tokens that they have in common.

pub mod beams;
pub mod contrastive;
mod front;
pub mod stochastic;
#[cfg(test)]
mod tests;

pub use beams::{Beams, EarlyStopping};
pub use contrastive::{Contrast, Contrastive};
pub use front::Ends;
pub use stochastic::{Drawn, Draws};

use verdigris_logits::{Purpose, Random, TokenId};

use crate::limits::Stop;

/// A text that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Its tokens, without the one that ended it.
    pub tokens: Vec<TokenId>,
    /// What ended it.
    pub stop: Stop,
    /// The natural logarithm of its probability under the model itself, before any transform; its end counts.
    pub logprob: f64,
    /// What texts are ranked by, the highest first; what that is the search says.
    pub score: f64,
}

/// A number of the standard Gumbel distribution, for a token after a hypothesis of this number.
fn gumbel(random: Random, position: usize, hypothesis: usize, token: TokenId, tokens: usize) -> f64 {
    let which = (hypothesis as u64 * tokens as u64 + u64::from(token)) as u32;
    // The middle of a step of the numbers, of which the first is 0.
    let u = random.uniform_of(position as u64, Purpose::Candidate, which) + 0.5f64.powi(54);
    -(-u.ln()).ln()
}
