//! Many texts on one model, which come and go: continuous batching (Orca, Yu et al., 2022), with prompts in pieces
//! (Sarathi-Serve, Agrawal et al., 2024) and pages that texts share (vLLM, Kwon et al., 2023; SGLang, Zheng et al.,
//! 2024).
//!
//! | module | holds |
//! |---|---|
//! | [`policy`] | what the next pass holds, and in whose memory: a state machine that knows no model |
//! | [`schedule`] | the loop: does with a model what the policy says |
//! | [`service`] | the loop on a thread of its own, for those who ask from others |
//! | [`rows`] | how many tokens a pass should read, from how long passes take |
//!
//! A text is the one that is written alone, whatever is written beside it: a model gives each row the same bits in
//! every batch, a draw is a function of seed and position, and how many drafts a text has does not depend on others.
//! Only [`DraftLength::Auto`](verdigris_decoding::DraftLength::Auto), which goes by the clock, is not so.
#![forbid(unsafe_code)]

pub mod policy;
mod rereading;
pub mod rows;
pub mod schedule;
pub mod service;
mod spaces;

pub use policy::{Account, TextId, TooLong};
pub use rereading::RowReader;
pub use schedule::{Ask, Capacity, Ended, Refused, Schedule, Statistics, Told};
pub use service::{Gone, Handle, NotTaken, Reader, Service};
