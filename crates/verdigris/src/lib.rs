//! Verdigris: text that can be proved and guided.
//!
//! A language model writes text that carries a keyed watermark, and whoever has the key proves it from the text
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
//! println!("{} of {} tokens are green, p = {:.1e}", evidence.score, evidence.scored, evidence.p());
//! # Ok::<(), verdigris::Error>(())
//! ```
//!
//! | type | is |
//! |---|---|
//! | [`Engine`] | a model that is ready to write |
//! | [`Request`] | what is to be written, and how |
//! | [`Service`] | an engine that writes for many at a time |
//! | [`Steering`] | what small models, and other prompts, move a model by |
//! | [`Reward`] | a model that judges texts, and so chooses among them |
//! | [`Classes`] | language models that tell classes of texts apart, and so guide |
//! | [`Reader`] | a tokenizer that is ready to detect: no model is needed for it |
//! | [`Look`], [`Judgement`] | how a text is looked at from every side, and what that shows |
//! | [`Key`], [`Marking`], [`Evidence`], [`Level`] | the watermark, from [`watermark`] |
//!
//! # Threads and async
//!
//! Everything here computes where it is called, for seconds or minutes, and waits for nothing. An [`Engine`], a
//! [`Reader`] and a [`Key`] are `Send + Sync` and are never changed by a request: put an engine into an
//! [`Arc`](std::sync::Arc) and share it. One request uses all cores, so that several on threads of their own are not
//! much faster than one after the other; [`Request::texts`] and [`Request::prompts`], which write several texts in
//! the same calls of the model, are.
//!
//! In async code a request belongs on a thread for work that blocks, as `tokio::task::spawn_blocking` has them, and
//! its pieces into a channel. It ends early where the closure of [`Request::stream`] breaks, as it does when nobody
//! reads any more:
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
//! The rooms below are open too: [`constrain`], [`decoding`], [`detector`], [`logits`],
//! [`models`], [`schedule`], [`text`], [`watermark`]. Who only detects needs no more than `verdigris-detector`.
#![forbid(unsafe_code)]

mod backend;
mod classes;
mod draft_memories;
mod engine;
mod error;
mod mark_status;
mod prompt;
mod request;
mod reward;
mod sampling;
mod service;
mod steering;
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
    BestOf, Ending, Event, Explained, Hypothesis, Logprob, LogprobsMode, Piece, Request, StepEffect, TokenLogprobs,
    TokenOrigin, Written,
};
pub use reward::Reward;
pub use sampling::{BadSampling, Field, Range, Sampling};
pub use service::Service;
pub use steering::Steering;
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
pub use verdigris_schedule as schedule;
pub use verdigris_text::{self as text, Conversation, Message, Tokenizer};
pub use verdigris_watermark::{
    self as watermark, Dialect, Evidence, Gamma, Key, KeyRing, Level, Mark, MarkScore, Marking, Repeats, Strength,
};

#[cfg(test)]
mod tests {
    use super::*;

    /// What the documentation promises to those with several threads.
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
