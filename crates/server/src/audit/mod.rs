//! The audit log: a record of every answer, on disk before the answer ends.

mod entry;
mod log;

pub(crate) use entry::{Entry, Outcome, TextEntry};
pub(crate) use log::AuditLog;
