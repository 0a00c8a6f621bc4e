//! Verdigris: text that can be proved and guided.
//!
//! A language model writes text that carries a keyed watermark, and whoever has the key proves it from the
//! text alone.
//!
//! ```no_run
//! use verdigris::{Engine, Key, Marking};
//!
//! let engine = Engine::load("fixtures/models/tale")?;
//! let key = Key::generate(Marking::default(), engine.reader().vocabulary());
//! let written = engine.request("The captain").watermark(&key).max_tokens(200).seed(7).text()?;
//!
//! let evidence = engine.reader().detect(&key, written.text.as_bytes())?;
//! println!("{} of {} tokens are green, p = {:.1e}", evidence.score, evidence.scored, evidence.p());
//! # Ok::<(), verdigris::Error>(())
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Engine`] | a model that is ready to write |
//! | [`Request`] | what is to be written, and how |
//! | [`Reader`] | a tokenizer that is ready to detect: no model is needed for it |
//! | [`Look`], [`Judgement`] | how a text is looked at from every side, and what that shows |
//! | [`Key`], [`Marking`], [`Evidence`], [`Verdict`] | the watermark, from [`watermark`] |
//!
//! The rooms below are open too: [`constrain`], [`decoding`], [`logits`], [`models`], [`text`], [`watermark`].
#![forbid(unsafe_code)]

mod engine;
mod error;
mod judge;
mod reader;
mod request;
mod surprise;
mod typed;

pub use engine::Engine;
pub use error::Error;
pub use judge::{Finding, Judgement, Look, MarkedPassage};
pub use reader::Reader;
pub use request::{Request, Written};

pub use verdigris_constrain::{self as constrain, Constraint, Grammar, Registry, Style};
pub use verdigris_decoding::{self as decoding, Acceptance, DraftLength, Stop};
pub use verdigris_logits as logits;
pub use verdigris_models::{self as models, Device, ModelFolder, device};
pub use verdigris_text::{self as text, Message};
pub use verdigris_watermark::{
    self as watermark, Dialect, Evidence, Gamma, Key, KeyRing, Mark, Marking, Repeats, Strength, Verdict,
};
