//! Parsing of requests, and refusals.
//!
//! A body is read field by field ([`fields`]): a bad value is refused by its path, an unknown field by its name. So
//! nothing that a client requests is silently ignored.

pub(crate) mod ask;
pub(crate) mod constraint;
pub(crate) mod fields;
pub(crate) mod mark;
pub(crate) mod messages;
pub(crate) mod refusal;
pub(crate) mod responses;
pub(crate) mod sampling;
pub(crate) mod strict;
pub(crate) mod tools;

pub use refusal::Refusal;
