//! Regular expressions whose states are created as texts reach them, for expressions with too many states.
//!
//! A state is the set of positions in the expression that a text may be at (the subset construction, Rabin and Scott
//! 1959). `[ab]*a[ab]{40}` has more than 2^40 states; a text reaches one per byte.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;
use regex_automata::nfa::thompson::{NFA, State, Transition};
use regex_automata::util::primitives::StateID;

/// An automaton over bytes that is built while it runs. Every state has a way to the end.
#[derive(Debug)]
pub(crate) struct Lazy {
    nfa: NFA,
    /// The number of classes of bytes.
    stride: usize,
    /// The fewest bytes from each position to the end; [`NONE`] if it cannot be reached.
    to_end: Arc<[u32]>,
    made: Mutex<LazyStates>,
}

#[derive(Debug, Default)]
struct LazyStates {
    /// For each state, the positions that read a byte, in order, and whether it accepts.
    states: Vec<(Arc<[u32]>, bool)>,
    numbers: HashMap<(Arc<[u32]>, bool), u32>,
    /// The state after each (state, class of byte); [`NONE`] if there is none, [`UNMADE`] if it has not been computed.
    next: Vec<u32>,
    /// The last round in which each position was seen.
    seen: Vec<u32>,
    round: u32,
    /// The approximate size of all of this in bytes.
    bytes: usize,
    walk: Option<Walk>,
    /// The last walk that reached each state, and the number of walks so far.
    met: Vec<u32>,
    walks: u32,
}

/// A walk along the vocabulary, which may create a state for each node; most are not needed afterwards.
#[derive(Debug)]
struct Walk {
    /// The number of states before the walk, and their bytes.
    states: usize,
    bytes: usize,
    /// The bytes of the states that the walk reached, whether it created them or not.
    met: usize,
    /// Whether the walk reached its limit.
    is_over: bool,
}

/// The maximum bytes of states that one walk may reach, which also bounds its time to about a second. States that
/// existed before count too, so that the limit does not depend on earlier texts.
const WALK: usize = 64 << 20;

/// Above this many bytes, the states of a walk are dropped when it ends, unless they are few: the next walk often needs
/// those again.
const KEPT: usize = 8 << 20;
const FEW: usize = 1 << 20;

/// Above this many bytes, they are dropped in any case.
const MOST: usize = 64 << 20;

const NONE: u32 = u32::MAX;
const UNMADE: u32 = u32::MAX - 1;

impl Lazy {
    /// Returns `None` if no text matches. `nfa` must have no assertions; `cost` is the cost of a byte.
    pub(crate) fn new(nfa: NFA, cost: impl Fn(u8) -> u32) -> Option<Self> {
        let to_end = distances(&nfa, cost).into();
        Self::unmade(nfa, to_end)
    }

    fn unmade(nfa: NFA, to_end: Arc<[u32]>) -> Option<Self> {
        let start = nfa.start_anchored();
        let seen = vec![0; nfa.states().len()];
        let stride = nfa.byte_classes().alphabet_len();
        let lazy = Self { nfa, stride, to_end, made: Mutex::new(LazyStates { seen, ..LazyStates::default() }) };
        let first = lazy.state(&mut lazy.made(), vec![start]);
        first.map(|_| lazy)
    }

    /// The same automaton without the states created so far.
    pub(crate) fn renewed(&self) -> Self {
        Self::unmade(self.nfa.clone(), self.to_end.clone()).expect("it has a first state")
    }

    /// The approximate number of bytes of the states created so far.
    pub(crate) fn made_bytes(&self) -> usize {
        self.made().bytes
    }

    /// Begins a walk: until it ends, the states that it may reach are limited.
    pub(crate) fn begin_walk(&self) {
        let made = &mut *self.made();
        made.walk = Some(Walk { states: made.states.len(), bytes: made.bytes, met: 0, is_over: false });
        made.walks += 1;
    }

    /// Ends a walk whose states are not needed any more; returns whether it reached its limit.
    pub(crate) fn end_walk(&self) -> bool {
        let made = &mut *self.made();
        let Some(walk) = made.walk.take() else { return false };
        if made.bytes > MOST || made.bytes > KEPT && made.bytes - walk.bytes > FEW {
            for state in made.states.drain(walk.states..) {
                made.numbers.remove(&state);
            }
            made.next.truncate(walk.states * self.stride);
            made.met.truncate(walk.states);
            let is_gone = |next: &&mut u32| **next < UNMADE && **next as usize >= walk.states;
            made.next.iter_mut().filter(is_gone).for_each(|next| *next = UNMADE);
            made.bytes = walk.bytes;
        }
        walk.is_over
    }

    /// Like [`Lazy::end_walk`], but keeps the states of the walk.
    pub(crate) fn end_long_walk(&self) -> bool {
        self.made().walk.take().is_some_and(|walk| walk.is_over)
    }

    fn made(&self) -> MutexGuard<'_, LazyStates> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a text that may be at any of the given positions; `None` if none leads to the end.
    fn state(&self, made: &mut LazyStates, mut open: Vec<StateID>) -> Option<u32> {
        made.round += 1;
        let (mut positions, mut accepts) = (Vec::new(), false);
        while let Some(position) = open.pop() {
            let is_alive = self.to_end[position.as_usize()] != NONE;
            if !is_alive || std::mem::replace(&mut made.seen[position.as_usize()], made.round) == made.round {
                continue;
            }
            match self.nfa.state(position) {
                State::Union { alternates } => open.extend_from_slice(alternates),
                State::BinaryUnion { alt1, alt2 } => open.extend([*alt1, *alt2]),
                State::Capture { next, .. } => open.push(*next),
                State::Match { .. } => accepts = true,
                _ => positions.push(position.as_u32()),
            }
        }
        if positions.is_empty() && !accepts {
            return None;
        }
        positions.sort_unstable();
        let state = (positions.into(), accepts);
        let next = made.states.len() as u32;
        let number = *made.numbers.entry(state.clone()).or_insert(next);
        if number == next {
            made.bytes += self.bytes_of(&state.0);
            made.states.push(state);
            made.met.push(0);
            made.next.resize(made.next.len() + self.stride, UNMADE);
        }
        Some(number)
    }

    /// The approximate number of bytes of a state.
    fn bytes_of(&self, positions: &[u32]) -> usize {
        96 + size_of_val(positions) + self.stride * size_of::<u32>()
    }

    /// The state after one more byte, if any text continues with it.
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let made = &mut *self.made();
        if made.walk.as_ref().is_some_and(|walk| walk.is_over) {
            return None;
        }
        let at = state as usize * self.stride + usize::from(self.nfa.byte_classes().get(byte));
        let next = match made.next[at] {
            UNMADE => self.make_next(made, state, byte, at)?,
            NONE => return None,
            next => next,
        };
        let LazyStates { states, walk: Some(walk), met, walks, .. } = made else { return Some(next) };
        if std::mem::replace(&mut met[next as usize], *walks) != *walks {
            walk.met += self.bytes_of(&states[next as usize].0);
            walk.is_over = walk.met > WALK;
        }
        (!walk.is_over).then_some(next)
    }

    fn make_next(&self, made: &mut LazyStates, state: u32, byte: u8, at: usize) -> Option<u32> {
        let positions = made.states[state as usize].0.clone();
        let after = |&position: &u32| match self.nfa.state(StateID::must(position as usize)) {
            State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
            State::Sparse(sparse) => sparse.matches_byte(byte),
            State::Dense(dense) => dense.matches_byte(byte),
            _ => None,
        };
        let next = self.state(made, positions.iter().filter_map(after).collect());
        made.next[at] = next.unwrap_or(NONE);
        next
    }

    /// Whether the text so far matches.
    pub(crate) fn accepts(&self, state: u32) -> bool {
        self.made().states[state as usize].1
    }

    /// Whether the text so far can continue.
    pub(crate) fn goes_on(&self, state: u32) -> bool {
        !self.made().states[state as usize].0.is_empty()
    }

    /// The fewest bytes that complete the text so far.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let (positions, accepts) = self.made().states[state as usize].clone();
        let nearest = positions.iter().map(|&position| self.to_end[position as usize]).min();
        if accepts { 0 } else { nearest.unwrap_or(0).into() }
    }

    /// An upper bound on the bytes from any state to the end.
    pub(crate) fn farthest(&self) -> u64 {
        self.to_end.iter().copied().filter(|&bytes| bytes != NONE).max().unwrap_or(0).into()
    }
}

/// The least cost from each position to the end (Dijkstra).
fn distances(nfa: &NFA, cost: impl Fn(u8) -> u32) -> Vec<u32> {
    let mut before: Vec<Vec<(u32, u32)>> = vec![Vec::new(); nfa.states().len()];
    let mut open = BinaryHeap::new();
    for (position, state) in (0u32..).zip(nfa.states()) {
        let mut lead = |to: StateID, cost| before[to.as_usize()].push((position, cost));
        let least = |trans: &Transition| (trans.start..=trans.end).map(&cost).min().unwrap_or(NONE);
        match state {
            State::ByteRange { trans } => lead(trans.next, least(trans)),
            State::Sparse(sparse) => sparse.transitions.iter().for_each(|trans| lead(trans.next, least(trans))),
            State::Dense(dense) => (0..=255).zip(&dense.transitions).for_each(|(byte, &to)| lead(to, cost(byte))),
            State::Union { alternates } => alternates.iter().for_each(|&to| lead(to, 0)),
            State::BinaryUnion { alt1, alt2 } => [*alt1, *alt2].into_iter().for_each(|to| lead(to, 0)),
            State::Capture { next, .. } => lead(*next, 0),
            State::Match { .. } => open.push(Reverse((0, position))),
            State::Look { .. } | State::Fail => {}
        }
    }
    let mut distances = vec![NONE; before.len()];
    while let Some(Reverse((distance, position))) = open.pop() {
        if distances[position as usize] == NONE {
            distances[position as usize] = distance;
            let further = |&(from, cost): &(u32, u32)| Reverse((distance.saturating_add(cost), from));
            open.extend(before[position as usize].iter().map(further));
        }
    }
    distances
}
