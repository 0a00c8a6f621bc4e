//! Rows of logits and the pure steps that act on them.
//!
//! Everything a request asks for is a distribution over the next token given a prefix. This crate has the parts of that
//! distribution that need no model: a [`Row`] of logits, sets of tokens ([`TokenSet`]), the steps ([`Transform`],
//! joined in a [`Chain`]), the [`Sampler`] at the end, and the counter-based randomness ([`random`]) that makes every
//! sample reproducible.
//!
//! | module | contents |
//! |---|---|
//! | [`row`] | one row of logits, with the scratch space that steps share |
//! | [`token_set`] | a bitset over a vocabulary |
//! | [`transform`] | the contract of a step, and chains of steps |
//! | [`warp`] | temperature, fixed or dynamic, top-k, top-p, min-p, typical, epsilon, eta, top-a, XTC, mirostat |
//! | [`penalty`] | penalties for tokens that already occurred |
//! | [`sequence_bias`] | sequences of tokens that are favoured, discouraged or forbidden |
//! | [`dry`] | penalties for repeated runs of tokens, which grow with their length |
//! | [`no_repeat_ngram`] | n-grams that may occur only once |
//! | [`min_tokens`] | tokens that are forbidden up to a minimum length |
//! | [`forced_token`] | a token that is forced at one position |
//! | [`steps`] | steps as data, for rows that are elsewhere |
//! | [`forbid`] | tokens that are always forbidden |
//! | [`sampler`] | greedy and categorical sampling |
//! | [`random`] | Philox, keyed by (seed, position, purpose) |
//!
//! ```
//! use verdigris_logits::{Chain, Row, Sampler, Transform, warp::{Temperature, TopP}};
//!
//! let steps = Chain::new().then(Temperature::new(0.8)?).then(TopP::new(0.9)?);
//! let state = steps.start(&[]);
//! let mut row = Row::from(vec![2.0, 1.0, -3.0, 0.5]);
//! steps.apply(&state, &mut row);
//! assert_eq!(Sampler::Greedy.sample(&row, 0.0), Some(0));
//! # Ok::<(), verdigris_logits::warp::OutOfRange>(())
//! ```
#![forbid(unsafe_code)]

mod blocks;
mod dispatch;
pub mod dry;
pub mod forbid;
pub mod forced_token;
pub mod min_tokens;
pub mod no_repeat_ngram;
pub mod penalty;
pub mod random;
pub mod row;
pub mod sampler;
pub mod sequence_bias;
pub mod steps;
pub mod token_set;
pub mod transform;
pub mod warp;

pub use dry::Dry;
pub use forbid::Forbid;
pub use forced_token::ForcedToken;
pub use min_tokens::MinTokens;
pub use no_repeat_ngram::NoRepeatNgram;
pub use penalty::{CountPenalty, RepetitionPenalty};
pub use random::{Purpose, Random};
pub use row::Row;
pub use sampler::Sampler;
pub use sequence_bias::SequenceBias;
pub use steps::Steps;
pub use token_set::TokenSet;
pub use transform::{Chain, Transform};

/// The number of a token in its vocabulary.
pub type TokenId = u32;
