//! Rows of logits and the pure steps that act on them.
//!
//! Everything a request asks for is a law over the next token given a prefix. This crate holds the parts of
//! that law which need no model: a [`Row`] of logits, sets of tokens ([`TokenSet`]), the steps
//! ([`Transform`], joined in a [`Chain`]), the [`Sampler`] at the end, and the counter-based randomness
//! ([`random`]) that makes every draw reproducible.
//!
//! | module | holds |
//! |---|---|
//! | [`row`] | one row of logits with the workspace that transforms share |
//! | [`token_set`] | a bitset over a vocabulary |
//! | [`transform`] | the contract of a step, and chains of steps |
//! | [`warp`] | temperature, fixed or dynamic, top-k, top-p, min-p, typical, epsilon, eta, top-a, XTC, mirostat |
//! | [`penalty`] | tokens that came before become less probable |
//! | [`sequence_bias`] | tokens that are favoured, or never complete a sequence |
//! | [`dry`] | runs of tokens that cost more to repeat the longer they are |
//! | [`no_repeat_ngram`] | runs of tokens that come once |
//! | [`min_tokens`] | tokens that come only after so many others |
//! | [`forced_token`] | a token that must come at one place |
//! | [`steps`] | steps as data, for rows that are elsewhere |
//! | [`forbid`] | tokens that never come |
//! | [`sampler`] | greedy choice and categorical draws |
//! | [`random`] | Philox, keyed by (seed, position, purpose) |
//!
//! ```
//! use verdigris_logits::{Chain, Row, Sampler, Transform, warp::{Temperature, TopP}};
//!
//! let law = Chain::new().then(Temperature::new(0.8)?).then(TopP::new(0.9)?);
//! let state = law.start(&[]);
//! let mut row = Row::from(vec![2.0, 1.0, -3.0, 0.5]);
//! law.apply(&state, &mut row);
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
