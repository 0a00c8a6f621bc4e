//! `verdigris serve`: OpenAI's protocol over HTTP, every answer marked or the request refused.
//!
//! | module | holds |
//! |---|---|
//! | `protocol` | what requests ask for, and why they are refused; no HTTP and no model |
//! | `calls` | calls of tools: how a model writes them, and how they are read |
//! | `writer` | answers as they are written, side by side |
//! | `forms` | forms that were asked for lately, worked out |
//! | `service` | what all requests share |
//! | `answer` | what is sent back, whole or piece by piece |
//! | `routes` | one file for each address |
//! | `openapi` | all of them as a document |
//! | `operator` | what an operator gives beside the model: `access` (who may ask), `keys` (what marks), `audit` (the record) |
//! | `record` | an answer on its way to the audit log |
//! | `caller` | who asks, and what is told of it |
//! | `metrics` | what an operator sees |
//! | `limits` | what a request may take |
//! | `connections`, `patient` | connections, and those whose other end reads no more |
//! | `serve` | from the beginning to the end |
//!
//! [`serve`] with its [`Options`] is all that a program of one's own needs.
#![forbid(unsafe_code)]

mod access;
mod answer;
mod audit;
mod caller;
mod calls;
mod charge;
mod connections;
mod forms;
mod keys;
mod limits;
mod metrics;
mod openapi;
mod operator;
mod patient;
mod protocol;
mod record;
mod routes;
mod serve;
mod service;
mod shares;
mod turns;
mod writer;

// So that its program stays one that compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use access::{AccessError, ApiKeys};
pub use limits::Limits;
pub use protocol::Refusal;
pub use serve::{ServeError, serve};
pub use service::{Drafts, Options};
