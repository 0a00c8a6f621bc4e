//! States that characters lead back to.
//!
//! In `[a-z0-9-]+`, most characters that may come next keep the state, and in `\w{1,20}` each character leads to the
//! next state of a chain. Which tokens consist of such characters depends on nothing else
//! ([`crate::vocabulary::class_tokens`]).

use std::sync::LazyLock;

use super::automaton::Automaton;
use crate::vocabulary::character_set::CharacterSet;

/// A state that some characters keep, or a chain of states that they move along.
#[derive(Clone, Debug)]
pub(crate) struct SelfLoop {
    pub(crate) characters: CharacterSet,
    /// The maximum number of such characters in a row.
    pub(crate) most: u32,
    /// Whether other characters beyond ASCII may come after some of them.
    pub(crate) strangers: bool,
}

/// The characters that lead from a state back to it; those beyond ASCII are included only if all of them do.
pub(crate) fn self_loop_characters(automaton: &Automaton, state: u32, is_in: impl Fn(u8) -> bool) -> CharacterSet {
    let leads_back = |byte| is_in(byte) && automaton.next(state, byte) == Some(state);
    CharacterSet::of_ascii(leads_back, keeps_beyond(automaton, state))
}

/// Whether every character beyond ASCII leads back to a state.
fn keeps_beyond(automaton: &Automaton, state: u32) -> bool {
    let mut pairs = vec![(state, Automaton::START)];
    let mut at = 0;
    while let Some(&(inner, valid)) = pairs.get(at) {
        for byte in 0x80..=0xff {
            let Some(valid) = UTF8.next(valid, byte) else { continue };
            match automaton.next(inner, byte) {
                Some(next) if UTF8.accepts(valid) && next != state => return false,
                Some(next) if !pairs.contains(&(next, valid)) => pairs.push((next, valid)),
                Some(_) => {}
                None => return false,
            }
        }
        at += 1;
        if at > 64 {
            return false;
        }
    }
    true
}

static UTF8: LazyLock<Automaton> = LazyLock::new(Automaton::utf8);
