//! What requests ask for, and why they are refused.
//!
//! A body is read field by field ([`fields`]): what does not fit is refused by its path, and what nobody reads is
//! refused by its name. So nothing that a client asks for is silently left out.

pub(crate) mod ask;
pub(crate) mod fields;
pub(crate) mod form;
pub(crate) mod mark;
pub(crate) mod messages;
pub(crate) mod refusal;
pub(crate) mod responses;
pub(crate) mod sampling;
pub(crate) mod strict;
pub(crate) mod tools;

pub use refusal::Refusal;
