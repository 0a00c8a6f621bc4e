//! Any text and a key: is it marked, where, and with what? A tokenizer is needed, and no model.
//!
//! ```
//! use verdigris_detector::{Key, Marking, Reader, Tokenizer};
//!
//! let tokenizer = Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json"))?;
//! let reader = Reader::new(tokenizer);
//! let key = Key::generate(Marking::default(), reader.vocabulary());
//! let evidence = reader.detect(&key, "Nobody has marked this text.".as_bytes())?;
//! assert!(evidence.p() > 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `reader` | a tokenizer that is ready to detect: one text, one look |
//! | `manifest` | C2PA manifests in a text, which are left out before it is read |
//! | `tokens` | the tokens of a text, and where its form left it a choice |
//! | `evidence` | the evidence of tokens under one key |
//! | `versions` | the versions of a text that are looked at: original, and after repair |
//! | `reading` | one way to read a text: a version of it, from a later character |
//! | `judge` | a text under several keys and readings, each of which is paid for in the p-value |
//! | `course` | how evidence grew along a text |
//! | `report` | what a judgement comes to, as data |
//! | [`answer`] | the same with tokens and course, as pages are told it |
//! | `hint` | what else to try, where there is no mark |
//! | `identify` | which of many keys marked a text |
//! | `payload` | the number that a mark carries |
//!
//! What a mark is, and how evidence is counted, is in [`watermark`]; how texts become tokens, in [`text`].
#![forbid(unsafe_code)]

pub mod answer;
mod course;
mod error;
mod evidence;
mod hint;
mod identify;
mod judge;
mod manifest;
mod payload;
mod reader;
mod reading;
mod report;
mod tokens;
mod versions;
#[cfg(test)]
mod written;

pub use error::DetectError;
pub use hint::Hint;
pub use identify::{Finding, candidates};
pub use judge::{Judgement, Look, MarkedPassage};
pub use manifest::{Unwrapped, Unwrapping};
pub use payload::PayloadFinding;
pub use reader::Reader;
pub use report::{Outcome, Report};
pub use versions::{Version, Versions};

pub use verdigris_constrain::{self as constrain, Constraint, Grammar, Style};
pub use verdigris_text::{self as text, Tokenizer};
pub use verdigris_watermark::{
    self as watermark, Dialect, Evidence, Gamma, Key, KeyRing, Mark, Marking, Repeats, Strength, Verdict,
};
