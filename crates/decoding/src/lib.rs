//! Decoding: drawing a text from its law.
//!
//! A [`Target`] is the law of the next token given the tokens so far. [`Plain`] draws from it one token at a
//! time, [`Speculative`] several. Whatever draws faster must draw from the same target: speed never changes
//! the law.
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | the law: model, transforms, sampler, seed |
//! | [`plain`] | one token a step |
//! | [`mod@pass`] | several texts in one call of the model |
//! | [`speculative`] | several drafted tokens a step, and the same law |
//! | [`draft_length`] | how many guesses pay |
//! | [`drafter`] | who guesses: a small model, a draft head, or the text itself |
//! | [`tree`] | what is guessed: tokens, each with the law that it was drawn from |
//! | [`rules`] | which guesses stand |
//! | [`chance`] | where every random decision goes through |
//! | [`enumerate`] | the exact law of a decoder, for tests |
//! | [`guide`] | judges that move the likeliest tokens: reward models, classifiers, language models of classes |
//! | [`search`] | beams, and contrastive search |
//! | [`best_of`] | one of several texts, by their scores |
//! | [`steer`] | a model moved by experts |
//! | [`mod@perplexity`] | how well a model predicts a text |
//! | [`writing`] | what all ways to write have in common |
//! | [`limits`] | when a text ends |
#![forbid(unsafe_code)]

pub mod best_of;
pub mod chance;
mod device_sampling;
pub mod draft_length;
pub mod drafter;
pub mod enumerate;
pub mod guide;
mod law;
pub mod limits;
pub mod pass;
pub mod perplexity;
pub mod plain;
pub mod rules;
pub mod search;
pub mod speculative;
pub mod steer;
#[cfg(test)]
mod table;
pub mod target;
pub mod tree;
pub mod writing;

pub use chance::{Chance, Seeded};
pub use draft_length::{DraftLength, DraftMemory};
pub use drafter::{Coupling, DraftModel, Drafter, FeatureDrafter, Lookup, LookupOr, Medusa};
pub use guide::{ClassScorer, Guide, RewardScorer, ScoreKind, Scorer, TextClass};
pub use limits::{Limits, Stop};
pub use pass::{BatchedText, BoxedDrafter, Drafting, Part, pass, pass_in_turn};
pub use perplexity::{Perplexity, perplexity};
pub use plain::Plain;
pub use rules::Rule;
pub use rules::typical::Typical;
pub use search::{Beams, Contrastive, EarlyStopping};
pub use speculative::{Acceptance, Speculative};
pub use steer::{Alpha, BadAlpha, BaseFilter, ExpertDrafter, OwnPrompts, Pair, Steered};
pub use target::{DecodeError, Target};
pub use tree::{DraftTree, TreeShape};
pub use writing::{Provenance, Writing};
