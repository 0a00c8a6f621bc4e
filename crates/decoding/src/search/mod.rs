//! Searching for texts instead of sampling them token by token.
//!
//! | module | finds |
//! |---|---|
//! | [`beams`] | approximately the most probable texts (beam search), or sampled ones among them (beam sampling) |
//! | [`stochastic`] | texts sampled without replacement (stochastic beam search) |
//! | [`contrastive`] | a text that does not repeat its own meaning (contrastive search) |
//!
//! All hypotheses of a step are read in one call of the model. Each has its own state of the transforms, and their
//! caches share common tokens.

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
    /// The tokens of the text, without the one that ended it.
    pub tokens: Vec<TokenId>,
    /// The reason that it ended.
    pub stop: Stop,
    /// The natural logarithm of its probability under the model itself, before any transform, including its end.
    pub logprob: f64,
    /// The score that texts are ranked by, highest first. Its definition depends on the search.
    pub score: f64,
}

/// A sample of the standard Gumbel distribution, for a token after the given hypothesis.
fn gumbel(random: Random, position: usize, hypothesis: usize, token: TokenId, tokens: usize) -> f64 {
    let which = (hypothesis as u64 * tokens as u64 + u64::from(token)) as u32;
    // The middle of an interval between two numbers, of which the first is 0.
    let u = random.uniform_of(position as u64, Purpose::Candidate, which) + 0.5f64.powi(54);
    -(-u.ln()).ln()
}
