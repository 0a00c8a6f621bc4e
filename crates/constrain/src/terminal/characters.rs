//! Automata over the contents of strings, with the data needed to count characters.

use std::sync::{Arc, LazyLock};

use foldhash::HashMap;

use super::content::written;
use crate::automata::automaton::Automaton;
use crate::automata::distances::{distances, longest_in_characters};
use crate::automata::utf8::begins_character;

/// All texts, which most strings and names allow.
pub(crate) static ANY: LazyLock<Arc<Characters>> = LazyLock::new(|| Arc::new(Characters::new(Automaton::utf8())));

/// An automaton over contents with the data needed to count characters.
#[derive(Debug)]
pub(crate) struct Characters {
    pub(crate) automaton: Automaton,
    /// The written bytes from each state to an accepting one, on the path with the fewest characters.
    written: Vec<u64>,
    /// The fewest and the most characters from each state to an accepting one; the latter may be unbounded.
    pub(crate) shortest: Vec<u32>,
    pub(crate) longest: Vec<u32>,
    /// The largest value of `shortest`.
    pub(crate) farthest: u32,
    /// Whether any text can continue from each state, and whether any text is accepted from it.
    immortal: Vec<bool>,
    universal: Vec<bool>,
}

impl Characters {
    pub(crate) fn new(automaton: Automaton) -> Self {
        let both = distances(&automaton, |byte| u64::from(begins_character(byte)) << 32 | written(byte));
        let written = both.iter().map(|both| both & u64::from(u32::MAX)).collect();
        let shortest: Vec<u32> = both.iter().map(|both| (both >> 32) as u32).collect();
        let farthest = shortest.iter().copied().max().unwrap_or(0);
        let longest = longest_in_characters(&automaton);
        let (immortal, universal) = freedom(&automaton);
        Self { automaton, written, shortest, longest, farthest, immortal, universal }
    }

    /// The written bytes from a state to the end of a content, on the path with the fewest characters.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        self.written[state as usize]
    }

    /// An upper bound on [`Characters::to_end`].
    pub(crate) fn farthest_end(&self) -> u64 {
        self.written.iter().copied().max().unwrap_or(0)
    }

    /// Whether any text can come next and then be completed.
    pub(crate) fn is_immortal(&self, state: u32) -> bool {
        self.immortal[state as usize]
    }

    /// Whether any text is accepted from here.
    pub(crate) fn is_universal(&self, state: u32) -> bool {
        self.universal[state as usize]
    }
}

/// For each state, whether any text can continue from it, and whether any text is accepted from it.
fn freedom(automaton: &Automaton) -> (Vec<bool>, Vec<bool>) {
    let utf8 = Automaton::utf8();
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.sort_by_key(|&byte| (automaton.class(byte), utf8.class(byte)));
    bytes.dedup_by_key(|byte| (automaton.class(*byte), utf8.class(*byte)));
    // Pairs of a state and a state of UTF-8; those between characters first.
    let states = automaton.states() as u32;
    let mut pairs: Vec<(u32, u32)> = (0..states).map(|state| (state, Automaton::START)).collect();
    let mut numbers: HashMap<(u32, u32), u32> = pairs.iter().copied().zip(0..).collect();
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); pairs.len()];
    let (mut stuck, mut refused) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < pairs.len() {
        let (state, valid) = pairs[at];
        if utf8.accepts(valid) && !automaton.accepts(state) {
            refused.push(at as u32);
        }
        for &byte in &bytes {
            let Some(valid) = utf8.next(valid, byte) else { continue };
            let Some(next) = automaton.next(state, byte) else {
                stuck.push(at as u32);
                continue;
            };
            let number = *numbers.entry((next, valid)).or_insert_with(|| {
                pairs.push((next, valid));
                before.push(Vec::new());
                pairs.len() as u32 - 1
            });
            before[number as usize].push(at as u32);
        }
        at += 1;
    }
    let spread = |open: &[u32]| {
        let (mut open, mut fails) = (open.to_vec(), vec![false; pairs.len()]);
        while let Some(pair) = open.pop() {
            if !std::mem::replace(&mut fails[pair as usize], true) {
                open.extend(&before[pair as usize]);
            }
        }
        fails[..states as usize].iter().map(|fails| !fails).collect::<Vec<bool>>()
    };
    let immortal = spread(&stuck);
    refused.extend(stuck);
    (immortal, spread(&refused))
}
