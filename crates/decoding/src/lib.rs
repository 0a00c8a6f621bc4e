//! Decoding: sampling a text from its distribution.
//!
//! A [`Target`] is the distribution of the next token given the tokens so far. Texts are written in [passes](mod@pass),
//! one or several at a time, with or without drafts. [`Plain`] samples from the target one token at a time, and is what
//! tests compare all else with: speed never changes the distribution.
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | the distribution: transforms, sampler, seed |
//! | [`plain`] | one token per step: the definition, for tests |
//! | [`mod@pass`] | one or several texts in one call of the model |
//! | [`speculative`] | one text, with several drafted tokens per step, from the same distribution |
//! | [`draft_length`] | the number of draft tokens that pays off |
//! | [`drafter`] | sources of drafts: a small model, a draft head, or the text itself |
//! | [`tree`] | draft tokens, each with the distribution that it was sampled from |
//! | [`rules`] | acceptance rules for drafts |
//! | [`chance`] | the source of all random decisions |
//! | [`enumerate`] | the exact distribution of a decoder, for tests |
//! | [`guide`] | scorers that adjust the likeliest tokens: reward models, classifiers, language models of classes |
//! | [`search`] | beam search and contrastive search |
//! | [`best_of`] | one of several texts, by their scores |
//! | [`steer`] | a model steered by experts |
//! | [`mod@embeddings`] | vectors of texts: means of a model's hidden states |
//! | [`mod@perplexity`] | a measure of how well a model predicts a text |
//! | [`provenance`] | the origins of tokens |
//! | [`limits`] | the limits that end a text |
#![forbid(unsafe_code)]

pub mod best_of;
pub mod chance;
mod device_sampling;
mod distribution;
pub mod draft_length;
pub mod drafter;
pub mod embeddings;
pub mod enumerate;
pub mod guide;
pub mod limits;
pub mod pass;
pub mod perplexity;
pub mod plain;
pub mod provenance;
pub mod rules;
pub mod search;
pub mod speculative;
pub mod steer;
#[cfg(test)]
mod table;
pub mod target;
pub mod tree;

pub use chance::{Chance, Seeded};
pub use draft_length::{DraftLength, DraftMemory};
pub use drafter::{
    AssistantDrafter, BlockDrafter, Coupling, DraftModel, Drafter, FeatureDrafter, Lookup, LookupOr, Medusa,
};
pub use embeddings::embeddings;
pub use guide::{ClassScorer, Guide, RewardScorer, ScoreKind, Scorer, TextClass};
pub use limits::{Limits, Stop};
pub use pass::{BatchedText, BoxedDrafter, Drafting, Part, pass, pass_in_turn};
pub use perplexity::{Perplexity, perplexity};
pub use plain::Plain;
pub use provenance::Provenance;
pub use rules::Rule;
pub use rules::typical::Typical;
pub use search::{Beams, Contrastive, EarlyStopping};
pub use speculative::{Acceptance, Speculative};
pub use steer::{Alpha, BadAlpha, BaseFilter, ExpertDrafter, OwnPrompts, Pair, Steered};
pub use target::{DecodeError, Target};
pub use tree::{DraftTree, TreeShape};
