//! One thing that was looked at: how it is, and what to do about it.

use serde::Serialize;

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Nothing to do.
    Fine,
    /// All works, and would be better otherwise.
    Better,
    /// Something does not work.
    Fault,
}

/// What was found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// What was looked at, in a word or two.
    name: &'static str,
    state: State,
    /// What is there, or what is wrong.
    value: String,
    /// What to do about it: a command, or a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
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

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn value(&self) -> &str {
        &self.value
    }

    pub(super) fn cure(&self) -> Option<&str> {
        self.cure.as_deref()
    }
}
