//! Tests texts for the mark of a key: whether, where and with which key they are marked. Needs a tokenizer, but no
//! model.
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
//! | module | contents |
//! |---|---|
//! | `reader` | a tokenizer ready for detection: one text, one look |
//! | `manifest` | C2PA manifests in a text, which are removed before it is read |
//! | `tokens` | the tokens of a text, and where its constraint left a choice |
//! | `evidence` | the evidence of tokens under one key |
//! | `versions` | the versions of a text that are tested: original and repaired |
//! | `reading` | one way to read a text: a version of it, starting at one of its first characters |
//! | `look` | the options of an examination: level, repairs, offsets, passages |
//! | `judge` | a text under several keys and readings, with a p-value corrected for all of them |
//! | `course` | the growth of the evidence along a text |
//! | `verdict` | the verdict and its figures, as data |
//! | `columns` | verdicts on many texts as a table; `arrow` (a feature) in Arrow format |
//! | [`answer`] | a verdict with tokens and course, for web pages |
//! | `report` (a feature) | signed reports on verdicts |
//! | `keys` | keys and tokenizers from files |
//! | `hint` | suggestions for texts in which no mark was found |
//! | `identify` | finding the key, among many, that marked a text |
//! | `identified` | the result of that, as data |
//! | `payload` | the number that a mark carries |
//!
//! Marks and the statistics of evidence are described in [`watermark`], tokenizers in [`text`].
#![forbid(unsafe_code)]

pub mod answer;
#[cfg(feature = "arrow")]
pub mod arrow;
mod columns;
mod course;
mod error;
mod evidence;
mod forged;
mod hint;
mod identified;
mod identify;
mod judge;
mod keys;
mod look;
mod manifest;
mod obeyed;
mod payload;
mod reader;
mod reading;
#[cfg(feature = "report")]
pub mod report;
mod tokens;
mod verdict;
mod versions;
#[cfg(test)]
mod written;

pub use columns::{COLUMNS, Column, Kind, Value, VerdictRow};
pub use error::{DetectError, LongText};
pub use hint::Hint;
pub use identified::Identified;
pub use identify::{Candidate, candidates};
pub use judge::{Judgement, MarkedPassage, TriedReading};
pub use keys::{FittingKeys, KeyFiles, KeysError};
pub use look::{BadOffsets, Look, MAX_TEXT, Offsets};
pub use manifest::{Unwrapped, Unwrapping};
pub use payload::{PayloadFinding, PayloadVerdict};
pub use reader::Reader;
pub use verdict::{Outcome, PassageVerdict, Verdict, p_value};
pub use versions::{Version, Versions};

pub use verdigris_constrain::{self as constrain, Constraint, Grammar, Style};
pub use verdigris_text::{self as text, Tokenizer};
pub use verdigris_watermark::{
    self as watermark, Dialect, Evidence, Gamma, GreenLists, Key, KeyRing, Level, Mark, Marking, Repeats, Strength,
};
