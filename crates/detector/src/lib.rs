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
//! | `look` | how a text is examined: the level, repairs, offsets, passages |
//! | `judge` | a text under several keys and readings, each of which is paid for in the p-value |
//! | `course` | how evidence grew along a text |
//! | `verdict` | the verdict and its figures, as data |
//! | `columns` | the verdicts on many texts as a table; `arrow` (a feature) as Arrow |
//! | [`answer`] | a verdict with tokens and course, for web pages |
//! | `keys` | keys and tokenizers from files |
//! | `hint` | what else to try, where there is no mark |
//! | `identify` | which of many keys marked a text |
//! | `payload` | the number that a mark carries |
//!
//! What a mark is, and how evidence is counted, is in [`watermark`]; how texts become tokens, in [`text`].
#![forbid(unsafe_code)]

pub mod answer;
#[cfg(feature = "arrow")]
pub mod arrow;
mod columns;
mod course;
mod error;
mod evidence;
mod hint;
mod identify;
mod judge;
mod keys;
mod look;
mod manifest;
mod payload;
mod reader;
mod reading;
mod tokens;
mod verdict;
mod versions;
#[cfg(test)]
mod written;

pub use columns::{COLUMNS, Column, Kind, Row, Value};
pub use error::{DetectError, LongText};
pub use hint::Hint;
pub use identify::{Candidate, candidates};
pub use judge::{Judgement, MarkedPassage};
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
    self as watermark, Dialect, Evidence, Gamma, Key, KeyRing, Level, Mark, Marking, Repeats, Strength,
};
