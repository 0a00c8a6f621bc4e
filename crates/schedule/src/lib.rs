//! Many texts on one model, which arrive and end at any time: continuous batching (Orca, Yu et al., 2022), with chunked
//! prompts (Sarathi-Serve, Agrawal et al., 2024) and pages that texts share (vLLM, Kwon et al., 2023; SGLang, Zheng et
//! al., 2024).
//!
//! | module | holds |
//! |---|---|
//! | [`policy`] | the contents of the next pass, and the memory for it: a state machine without a model |
//! | [`schedule`] | the loop: carries out the policy's plans with a model |
//! | [`service`] | the loop on its own thread, for callers on others |
//! | [`prefix_store`] | states of prompts outside of memory |
//! | [`rows`] | the number of tokens that a pass should read, from how long passes take |
//!
//! A text is the same as when it is written alone, whatever else is written at the same time: a model gives each row
//! the same bits in every batch, a sample is a function of seed and position, and the number of drafts of a text does
//! not depend on others. The exception is [`DraftLength::Auto`](verdigris_decoding::DraftLength::Auto), which depends
//! on the clock.
#![forbid(unsafe_code)]

mod ended;
mod event;
mod kept;
pub mod policy;
pub mod prefix_store;
mod rereading;
pub mod rows;
pub mod schedule;
pub mod service;
mod spaces;
mod storing;

pub use ended::Ended;
pub use event::{Event, TokenEvent};
pub use policy::{Account, TextId, TooLong};
pub use prefix_store::{PrefixStore, StoredTexts, Storing};
pub use rereading::RowReader;
pub use schedule::{Ask, Capacity, Refused, Schedule, Statistics};
pub use service::{Gone, Handle, NotTaken, Reader, Service};
