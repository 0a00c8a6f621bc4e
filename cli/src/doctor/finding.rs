//! The result of one check, and what to do about it.

use serde::Serialize;

/// The state of a thing that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Nothing to do.
    Fine,
    /// It works, but could be better.
    Better,
    /// It does not work.
    Fault,
}

/// The result of a check.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// The thing that was checked, in a word or two.
    pub(super) name: &'static str,
    pub(super) state: State,
    /// A description of it, or the fault.
    pub(super) value: String,
    /// The remedy: a command, or a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cure: Option<String>,
}

impl Finding {
    pub(super) fn fine(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, state: State::Fine, value: value.into(), cure: None }
    }

    pub(super) fn better(name: &'static str, value: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, state: State::Better, value: value.into(), cure: Some(cure.into()) }
    }

    pub(super) fn fault(name: &'static str, value: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { name, state: State::Fault, value: value.into(), cure: Some(cure.into()) }
    }

    pub(super) fn is_fault(&self) -> bool {
        self.state == State::Fault
    }
}
