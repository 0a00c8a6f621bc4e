//! Parsing of requests, and refusals.
//!
//! A body is read field by field ([`fields`]): a bad value is refused by its path, and a field of another server that
//! would change the answer by its name ([`foreign`]). An unknown field is reported or refused ([`unknown`]), so nothing
//! that a client requests is silently ignored. Every protocol for texts becomes an [`ask`].

pub(crate) mod anthropic;
pub(crate) mod ask;
pub(crate) mod constraint;
pub(crate) mod embeddings;
pub(crate) mod fields;
pub(crate) mod foreign;
pub(crate) mod mark;
pub(crate) mod messages;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod other_constraints;
pub(crate) mod reasoning;
pub(crate) mod refusal;
pub(crate) mod responses;
pub(crate) mod sampling;
pub(crate) mod strict;
pub(crate) mod tools;
pub(crate) mod unknown;

pub use refusal::Refusal;
