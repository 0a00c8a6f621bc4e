//! Is a text marked? On a cluster of [Ballista](https://datafusion.apache.org/ballista), with the functions of
//! [`verdigris_datafusion`] in all places that must know them.
//!
//! | module | holds |
//! |---|---|
//! | `scheduler` | plans queries and hands out tasks; knows the functions by name |
//! | `executor` | judges texts; has the keys |
//! | `client` | asks; knows the functions by name |
//!
//! A plan that travels names a function and the id of a key. So scheduler and client are given functions that have no
//! key ([`Judges::none`](verdigris_datafusion::Judges::none)): they tell which types are in and out, and cannot judge.
//! Each executor looks the names up among its own functions, which have the keys of its own folder. A task that fails
//! for want of a key fails the query with the words of the executor on which it ran.
//!
//! Ballista speaks to whoever reaches its ports, in the clear: keep them on a network of your own.
#![forbid(unsafe_code)]

mod client;
mod error;
mod executor;
mod scheduler;

pub use client::{client, register_documents};
pub use error::ClusterError;
pub use executor::{Executor, execute};
pub use scheduler::{Scheduler, schedule};
