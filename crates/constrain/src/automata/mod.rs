//! Automata over bytes, from every state of which there is a way to the end.

pub(crate) mod alphabet;
pub(crate) mod around;
pub(crate) mod automaton;
pub(crate) mod budget;
pub(crate) mod lazy;
pub(crate) mod spelled;
pub(crate) mod syntax;
