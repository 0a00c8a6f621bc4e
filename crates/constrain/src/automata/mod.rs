//! Automata over bytes and over classes of characters, in which every state can reach the end.

pub(crate) mod alphabet;
pub(crate) mod around;
pub(crate) mod automaton;
pub(crate) mod budget;
pub(crate) mod dfa;
pub(crate) mod distances;
pub(crate) mod lazy;
pub(crate) mod search;
pub(crate) mod self_loop;
pub(crate) mod spelled;
pub(crate) mod syntax;
pub(crate) mod utf8;
