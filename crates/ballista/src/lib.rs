//! Tests texts for marks on a cluster of [Ballista](https://datafusion.apache.org/ballista), with the functions of
//! [`verdigris_datafusion`] registered in all parts of the cluster.
//!
//! | module | contents |
//! |---|---|
//! | `scheduler` | plans queries and assigns tasks; knows the functions by name |
//! | `executor` | judges texts; has the keys |
//! | `client` | sends queries; knows the functions by name |
//!
//! A plan that is sent to another process contains the name of a function and the id of a key. So scheduler and client
//! get functions without keys ([`Judges::none`](verdigris_datafusion::Judges::none)), which know the types of arguments
//! and results but cannot judge. Each executor looks the names up among its own functions, which have the keys of its
//! own folder. If an executor lacks a key, the task fails, and with it the query, with that executor's message.
//!
//! Ballista accepts unencrypted connections from anyone who can reach its ports: keep them on a private network.
#![forbid(unsafe_code)]

mod client;
mod error;
mod executor;
mod scheduler;

pub use client::{client, register_documents};
pub use error::ClusterError;
pub use executor::{Executor, execute};
pub use scheduler::schedule;
