//! The server of `verdigris serve`: the protocols of OpenAI, Anthropic and Ollama over HTTP; every answer is marked or
//! says why not.
//!
//! | module | holds |
//! |---|---|
//! | `protocol` | parsing of requests, and refusals; no HTTP and no model |
//! | `calls` | tool calls: their syntax, constraint and parser |
//! | `model_source`, `models`, `totals` | the models: their descriptions, loading and releasing, and their statistics |
//! | `writer` | generation of the texts of all answers of a model |
//! | `constraint_cache` | a cache of compiled constraints |
//! | `options`, `origin` | the options of a server |
//! | `service` | the state that all requests share |
//! | `answer` | response bodies, complete or streamed |
//! | `routes` | HTTP handlers, one file for each kind of address |
//! | `openapi` | the OpenAPI document |
//! | `operator` | the operator's `access` (API keys), `keys` (watermark keys) and `audit` (the audit log) |
//! | `input_marks` | marks in the inputs of a request |
//! | `manifests` | the C2PA manifests of texts |
//! | `ledger` | the operator's record of texts, without the texts |
//! | `record` | the audit entry of an answer in progress |
//! | `caller` | the client of a request, and the report on it for the log |
//! | `metrics` | metrics at `/metrics` |
//! | `limits`, `charge` | limits of a request, and the memory it is charged for |
//! | `shares`, `turns` | fair division among tenants: of requests and memory, and of threads |
//! | `connections`, `patient` | connections, and their timeout for clients that do not read |
//! | `serve` | start and shutdown |
//!
//! Other programs only need [`serve`] and its [`Options`].
#![forbid(unsafe_code)]
#![cfg_attr(not(unix), allow(dead_code, reason = "files are reloaded by a signal that other systems lack"))]

mod access;
mod answer;
mod audit;
mod caller;
mod calls;
mod charge;
mod connections;
mod constraint_cache;
mod input_marks;
mod keys;
mod ledger;
mod limits;
mod manifests;
mod metrics;
mod model_source;
mod models;
mod openapi;
mod operator;
mod options;
mod origin;
mod patient;
mod protocol;
mod record;
mod routes;
mod serve;
mod service;
mod shares;
mod totals;
mod turns;
mod writer;

// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use access::{AccessError, ApiKeys};
pub use keys::{BadKeys, writer_for};
pub use ledger::{Ledger, LedgerEntry, LedgerText};
pub use limits::Limits;
pub use model_source::{LoadModel, LoadedModel, ModelLimits, ModelSource, ServedModels};
pub use options::{Drafts, Options, PrefixStoreOptions, Signer};
pub use origin::{BadOrigin, Origin};
pub use protocol::Refusal;
pub use serve::{ServeError, serve};
