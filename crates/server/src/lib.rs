//! `verdigris serve`: OpenAI's protocol over HTTP, every answer marked or the request refused.
//!
//! | module | holds |
//! |---|---|
//! | `protocol` | what requests ask for, and why they are refused; no HTTP and no model |
//! | `writer` | answers as they are written, side by side |
//! | `forms` | forms that were asked for lately, worked out |
//! | `service` | what all requests share |
//! | `answer` | what is sent back, whole or piece by piece |
//! | `routes` | one file for each address |
//! | `access` | who may ask |
//! | `metrics` | what an operator sees |
//! | `serve` | from the first connection to the last |
//!
//! [`serve`] with its [`Options`] is all that a program of one's own needs.
#![forbid(unsafe_code)]

mod access;
mod answer;
mod forms;
mod metrics;
mod protocol;
mod routes;
mod serve;
mod service;
mod writer;

pub use access::{AccessError, ApiKeys};
pub use protocol::Refusal;
pub use serve::{ServeError, serve};
pub use service::{Drafts, Options};
