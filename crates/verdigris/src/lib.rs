//! Verdigris: text that can be proved and guided.
//!
//! A language model writes text that carries a keyed watermark, which anyone with the key can prove from the text
//! alone.
//!
//! ```no_run
//! use verdigris::{Engine, Key, Marking};
//!
//! let engine = Engine::load("fixtures/models/tale")?;
//! let key = Key::generate(Marking::default(), engine.reader().vocabulary());
//! let written = engine.request("The captain").watermark(&key).max_tokens(200).seed(7).text()?;
//!
//! let evidence = engine.reader().detect(&key, written.text.as_bytes())?;
//! println!("{} tokens are scored, p = {:.1e}", evidence.scored, evidence.p());
//! # Ok::<(), verdigris::Error>(())
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Engine`] | a loaded model |
//! | [`Request`] | a request for a text, with all its options |
//! | [`Service`] | an engine that writes many texts concurrently |
//! | [`PromptCache`], [`PrefixFolder`] | files with what a model computed from prompts |
//! | [`Steering`] | small models and other prompts that steer a model |
//! | [`Reward`] | a model that scores texts, to choose among them |
//! | [`Classes`] | language models that distinguish classes of texts, to guide a model |
//! | [`Reader`] | a tokenizer for detection, which needs no model |
//! | [`Look`], [`Judgement`] | the options of a thorough detection, and its result |
//! | [`label`] | labels that people see, with metadata, as China's standard requires |
//! | [`Key`], [`Marking`], [`Evidence`], [`Level`] | the watermark, from [`watermark`] |
//!
//! # Threads and async
//!
//! All calls are synchronous and compute for seconds or minutes. An [`Engine`], a [`Reader`] and a [`Key`] are `Send`
//! and `Sync`, and are never changed by a request: put an engine into an [`Arc`](std::sync::Arc) and share it. One
//! request uses all cores, so running several on separate threads is not much faster than running them in sequence. Use
//! [`Request::texts`] and [`Request::prompts`] instead, which write several texts in the same calls of the model.
//!
//! In async code, run a request on a thread for blocking work, such as that of `tokio::task::spawn_blocking`, and send
//! its pieces through a channel. The text ends early if the closure of [`Request::stream`] breaks, as it does here when
//! the receiver is dropped:
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use std::sync::{Arc, mpsc};
//! use verdigris::Engine;
//!
//! let engine = Arc::new(Engine::load("fixtures/models/tale")?);
//! let (sender, pieces) = mpsc::sync_channel(16);
//! // With tokio: its own channel with `blocking_send`, and `spawn_blocking`.
//! std::thread::spawn(move || {
//!     engine.request("The captain").stream(|piece| match sender.send(piece.to_owned()) {
//!         Ok(()) => ControlFlow::Continue(()),
//!         Err(_) => ControlFlow::Break(()),
//!     })
//! });
//! for piece in pieces {
//!     print!("{piece}");
//! }
//! # Ok::<(), verdigris::Error>(())
//! ```
//!
//! The underlying crates are re-exported: [`constrain`], [`decoding`], [`detector`], [`logits`], [`models`],
//! [`schedule`], [`text`], [`watermark`]. For detection alone, `verdigris-detector` is enough.
#![forbid(unsafe_code)]

mod backend;
mod classes;
mod draft_memories;
mod engine;
mod error;
pub mod label;
mod mark_status;
mod prompt;
mod request;
mod reward;
mod sampling;
mod service;
mod steering;
mod stored;
mod surprise;
mod token_class;
mod typed;

pub use backend::device;
pub use classes::Classes;
pub use engine::Engine;
pub use error::Error;
pub use mark_status::{MarkCheck, MarkStatus};
pub use prompt::Prompt;
pub use request::{
    BestOf, ControlTokens, Ending, Explained, Hypothesis, Logprob, LogprobsMode, Piece, ReasoningEffort,
    ReasoningFormat, Request, ServedEvent, StepEffect, TextEvent, TokenLogprobs, TokenOrigin, UnknownName, Written,
};
pub use reward::Reward;
pub use sampling::{BadSampling, Field, Range, Sampling};
pub use service::Service;
pub use steering::Steering;
pub use stored::cache::PromptCache;
pub use stored::folder::{FaultReader, PendingStates, PrefixFolder};
pub use surprise::Weighed;
pub use token_class::{BadTokenClass, TokenClass};

#[cfg(feature = "candle")]
pub use verdigris_candle::Candle;
pub use verdigris_constrain::{self as constrain, Constraint, Grammar, Registry, Style};
pub use verdigris_decoding::{self as decoding, Acceptance, Alpha, Beams, DraftLength, EarlyStopping, Stop, TreeShape};
pub use verdigris_detector::{
    self as detector, DetectError, Hint, Judgement, Look, MAX_TEXT, MarkedPassage, Offsets, Outcome, Reader, Verdict,
};
pub use verdigris_logits as logits;
pub use verdigris_models::{self as models, Device, ModelFolder};
pub use verdigris_schedule::{self as schedule, Event, Storing};
pub use verdigris_text::{self as text, Conversation, Message, ReasoningSyntax, Section, Tokenizer, Turn};
pub use verdigris_watermark::{
    self as watermark, Dialect, Evidence, Gamma, GreenLists, Key, KeyRing, Level, Mark, MarkScore, Marking, Repeats,
    Strength,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The types that the documentation calls `Send + Sync`.
    #[test]
    fn threads_share_what_does_not_change() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<Engine>();
        is_shared::<Reader>();
        is_shared::<Key>();
        is_shared::<Request<'_>>();
        is_shared::<Error>();
    }
}
