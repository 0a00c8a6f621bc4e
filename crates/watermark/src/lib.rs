//! Watermarks: keys, schemes and dialects, embedding, detection and its statistics.
//!
//! A watermark makes some tokens more probable than others by a secret key: after each context it calls a share of the
//! vocabulary green (Kirchenbauer et al., ICML 2023), or it adds noise that only the key can repeat. The holder of the
//! key adds up the scores of a text's tokens and computes how likely that sum would be by chance. Neither the model nor
//! the prompt is needed.
//!
//! | module | holds |
//! |---|---|
//! | [`key`], [`ring`] | secrets, key files, folders of them |
//! | [`secret_file`] | files that only their owner can read |
//! | [`kdf`] | sub-keys by purpose, key id and tenant |
//! | [`scheme`] | the contract of a watermark |
//! | [`dialect`], [`dialects`] | the registry, and one file a dialect: ours and those of other systems |
//! | [`payload`] | marks that carry a number |
//! | [`context`], [`gamma`], [`green_share`], [`strength`] | parts of a marking, whose values are always in range |
//! | [`vocabulary_id`] | the vocabulary that a key was made for |
//! | [`embed`] | a scheme as a step on logits |
//! | [`detect`], [`several`] | a scheme as a reader of texts, and several at once |
//! | [`windows`] | marked passages inside a longer text |
//! | [`stream`] | evidence that holds at every moment |
//! | [`weighted`] | detection with the help of the model |
//! | [`normalize`], [`attack`] | repairing changes to the characters of a text, and making them |
//! | [`score_distribution`], [`statistics`] | distributions of scores in unmarked text, and of their sums (exact) |
//! | [`real`] | logarithms and exponentials with the same bits everywhere |
//!
//! ```
//! use verdigris_watermark::{Evidence, Key, Level, Marking, VocabularyId};
//!
//! let key = Key::generate(Marking::lists(), VocabularyId::new(4096, "example")?);
//! let evidence = Evidence::of(key.scheme()?, &[17, 4, 99, 1024, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
//! assert!(!evidence.is_marked(Level::DEFAULT)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
// Tests compare with the platform's own functions.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod attack;
pub mod context;
pub mod detect;
pub mod dialect;
pub mod dialects;
mod distinct;
pub mod embed;
pub mod gamma;
pub mod green_share;
pub mod kdf;
pub mod key;
mod level;
pub mod normalize;
pub mod payload;
mod random;
pub mod real;
pub mod ring;
pub mod scheme;
pub mod score_distribution;
pub mod secret_file;
pub mod several;
pub mod statistics;
pub mod stream;
pub mod strength;
pub mod vocabulary_id;
pub mod weighted;
pub mod windows;

pub use context::{Context, ContextFunction};
pub use detect::{Detector, Evidence, Mark, Repeats, TooShort};
pub use dialect::Dialect;
pub use dialects::native::Native;
pub use embed::{Embed, MarkScore};
pub use gamma::Gamma;
pub use green_share::GreenShare;
pub use key::{GreenLists, Key, KeyError, Marking, Period};
pub use level::{BadLevel, Level};
pub use ring::KeyRing;
pub use scheme::{ByPosition, Observation, Scheme};
pub use score_distribution::ScoreDistribution;
pub use several::Detectors;
pub use strength::Strength;
pub use vocabulary_id::VocabularyId;
