//! Regular expressions whose states are made as texts come to them, where all of them together would be too many.
//!
//! A state is the set of places in the expression at which a text may stand (the subset construction, Rabin and Scott 1959).
//! `[ab]*a[ab]{40}` has more than 2^40 of them; a text meets one a byte.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use regex_automata::nfa::thompson::{NFA, State, Transition};
use regex_automata::util::primitives::StateID;

/// An automaton over bytes that is made while it runs. There is no state without a way to the end.
#[derive(Debug)]
pub(crate) struct Lazy {
    nfa: NFA,
    /// How many classes of bytes there are.
    stride: usize,
    /// The fewest bytes from each place to the end; [`NONE`] where there is no way.
    to_end: Vec<u32>,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    /// The places of each state that read, in order, and whether it accepts.
    states: Vec<(Arc<[u32]>, bool)>,
    numbers: HashMap<(Arc<[u32]>, bool), u32>,
    /// The state after each (state, class of byte); [`NONE`] where there is none, [`UNMADE`] where it has not been made.
    next: Vec<u32>,
    /// Which places the last round has seen.
    seen: Vec<u32>,
    round: u32,
}

const NONE: u32 = u32::MAX;
const UNMADE: u32 = u32::MAX - 1;

impl Lazy {
    /// `None` where no text matches, or where it depends on what surrounds a place. `cost` is how far a byte is.
    pub(crate) fn new(nfa: NFA, cost: impl Fn(u8) -> u32) -> Option<Self> {
        if !nfa.look_set_any().is_empty() {
            return None;
        }
        let to_end = distances(&nfa, cost);
        let start = nfa.start_anchored();
        let seen = vec![0; nfa.states().len()];
        let stride = nfa.byte_classes().alphabet_len();
        let lazy = Self { nfa, stride, to_end, made: Mutex::new(Made { seen, ..Made::default() }) };
        let first = lazy.state(&mut lazy.made(), vec![start]);
        first.map(|_| lazy)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a text that stands at some places; none where nothing leads to an end.
    fn state(&self, made: &mut Made, mut open: Vec<StateID>) -> Option<u32> {
        made.round += 1;
        let (mut places, mut accepts) = (Vec::new(), false);
        while let Some(place) = open.pop() {
            let is_alive = self.to_end[place.as_usize()] != NONE;
            if !is_alive || std::mem::replace(&mut made.seen[place.as_usize()], made.round) == made.round {
                continue;
            }
            match self.nfa.state(place) {
                State::Union { alternates } => open.extend_from_slice(alternates),
                State::BinaryUnion { alt1, alt2 } => open.extend([*alt1, *alt2]),
                State::Capture { next, .. } => open.push(*next),
                State::Match { .. } => accepts = true,
                _ => places.push(place.as_u32()),
            }
        }
        if places.is_empty() && !accepts {
            return None;
        }
        places.sort_unstable();
        let state = (places.into(), accepts);
        let next = made.states.len() as u32;
        let number = *made.numbers.entry(state.clone()).or_insert(next);
        if number == next {
            made.states.push(state);
            made.next.resize(made.next.len() + self.stride, UNMADE);
        }
        Some(number)
    }

    /// The state after one more byte, if a text can go on so.
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let made = &mut *self.made();
        let at = state as usize * self.stride + usize::from(self.nfa.byte_classes().get(byte));
        match made.next[at] {
            UNMADE => {}
            NONE => return None,
            next => return Some(next),
        }
        let places = made.states[state as usize].0.clone();
        let after = |&place: &u32| match self.nfa.state(StateID::must(place as usize)) {
            State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
            State::Sparse(sparse) => sparse.matches_byte(byte),
            State::Dense(dense) => dense.matches_byte(byte),
            _ => None,
        };
        let next = self.state(made, places.iter().filter_map(after).collect());
        made.next[at] = next.unwrap_or(NONE);
        next
    }

    /// Whether the text so far matches as a whole.
    pub(crate) fn accepts(&self, state: u32) -> bool {
        self.made().states[state as usize].1
    }

    /// Whether the text so far can go on.
    pub(crate) fn goes_on(&self, state: u32) -> bool {
        !self.made().states[state as usize].0.is_empty()
    }

    /// The fewest bytes that make the text so far one that matches.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let (places, accepts) = self.made().states[state as usize].clone();
        let nearest = places.iter().map(|&place| self.to_end[place as usize]).min();
        if accepts { 0 } else { nearest.unwrap_or(0).into() }
    }

    /// No state is farther from the end than so many bytes.
    pub(crate) fn farthest(&self) -> u64 {
        self.to_end.iter().copied().filter(|&bytes| bytes != NONE).max().unwrap_or(0).into()
    }
}

/// The least cost from each place to the end (Dijkstra).
fn distances(nfa: &NFA, cost: impl Fn(u8) -> u32) -> Vec<u32> {
    let mut before: Vec<Vec<(u32, u32)>> = vec![Vec::new(); nfa.states().len()];
    let mut open = BinaryHeap::new();
    for (place, state) in (0u32..).zip(nfa.states()) {
        let mut lead = |to: StateID, cost| before[to.as_usize()].push((place, cost));
        let least = |trans: &Transition| (trans.start..=trans.end).map(&cost).min().unwrap_or(NONE);
        match state {
            State::ByteRange { trans } => lead(trans.next, least(trans)),
            State::Sparse(sparse) => sparse.transitions.iter().for_each(|trans| lead(trans.next, least(trans))),
            State::Dense(dense) => (0..=255).zip(&dense.transitions).for_each(|(byte, &to)| lead(to, cost(byte))),
            State::Union { alternates } => alternates.iter().for_each(|&to| lead(to, 0)),
            State::BinaryUnion { alt1, alt2 } => [*alt1, *alt2].into_iter().for_each(|to| lead(to, 0)),
            State::Capture { next, .. } => lead(*next, 0),
            State::Match { .. } => open.push(Reverse((0, place))),
            State::Look { .. } | State::Fail => {}
        }
    }
    let mut distances = vec![NONE; before.len()];
    while let Some(Reverse((distance, place))) = open.pop() {
        if distances[place as usize] == NONE {
            distances[place as usize] = distance;
            let further = |&(from, cost): &(u32, u32)| Reverse((distance.saturating_add(cost), from));
            open.extend(before[place as usize].iter().map(further));
        }
    }
    distances
}
