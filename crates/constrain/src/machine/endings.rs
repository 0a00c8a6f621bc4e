//! How many tokens a text still needs.
//!
//! The fewest bytes to the end are known everywhere, but a text has room for so many *tokens*. No fewer are needed than the
//! bytes fill if all are of the longest; and those that write the shortest ending are enough. Only where the room lies between
//! the two is there more to know, and then a search finds out, within a budget.
//!
//! What is known holds token by token: where a state has an ending of so many tokens, one of them leads to a state with an
//! ending of one fewer. So a text that keeps to such tokens never loses its end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use verdigris_logits::{TokenId, TokenSet};

use super::run::{DEAD, Run, Spot, Walker};
use crate::grammar::NO_END;
use crate::terminal::Terminal;
use crate::vocabulary::trie::Trie;

/// Longer endings, in bytes, are not written out to be counted.
const LONGEST: u64 = 1 << 16;

/// How many nodes of the vocabulary a search may look at, where a new state counts for 256 and a byte of an ending for 32: a
/// fifth of a second, and 20 MB.
const BUDGET: usize = 1 << 24;

/// How many bytes the endings may have together that are counted for one mask, and how many states may be made for it.
const COUNTED: u64 = 1 << 16;
const STATES: usize = 1 << 13;

/// The endings that are known. What is known does not depend on what has been asked before, so neither do masks.
#[derive(Default)]
pub(super) struct Endings {
    /// The byte that a shortest ending goes on with, and the state after it.
    nearer: HashMap<u32, Option<(u8, u32)>>,
    /// The fewest tokens that write it.
    tokens: HashMap<u32, Option<u64>>,
    /// The most that a token of the mask leaves, by state.
    after: HashMap<u32, u64>,
    /// What searches have found: by state and room, whether there is an ending.
    searched: HashMap<(u32, u64), Option<bool>>,
    /// Endings that a search has found: by room and state, the tokens and the first of them.
    found: HashMap<(u64, u32), (u64, TokenId)>,
}

impl Endings {
    pub(super) fn bytes(&self) -> usize {
        let small = self.nearer.len() + self.tokens.len() + self.after.len() + self.searched.len();
        32 * small + 48 * self.found.len()
    }
}

impl Run {
    /// The fewest tokens that write the shortest ending in bytes; `None` where none do.
    pub(super) fn tokens_to_end(&mut self, trie: &Trie, state: u32) -> Option<u64> {
        if let Some(&known) = self.endings.tokens.get(&state) {
            return known;
        }
        if self.bytes_to_end(state) > LONGEST {
            return None;
        }
        // Along the shortest ending up to what is known, and a token's length farther.
        let (mut states, mut bytes, mut known) = (vec![state], Vec::new(), None);
        let mut at = state;
        while !self.states[at as usize].spots.accepts && known.is_none_or(|known| bytes.len() < known + trie.longest())
        {
            let Some((byte, next)) = self.nearer(at) else { break };
            bytes.push(byte);
            states.push(next);
            at = next;
            if known.is_none() && self.endings.tokens.contains_key(&at) {
                known = Some(bytes.len());
            }
        }
        for place in (0..known.unwrap_or(states.len())).rev() {
            let mut fewest = self.states[states[place] as usize].spots.accepts.then_some(0);
            if fewest.is_none() {
                trie.all().beginnings(&bytes[place..], |length| {
                    let after = self.endings.tokens.get(&states[place + length]).copied().flatten();
                    fewest = fewest.into_iter().chain(after.map(|tokens| tokens + 1)).min();
                });
            }
            self.endings.tokens.entry(states[place]).or_insert(fewest);
        }
        self.endings.tokens[&state]
    }

    /// One more byte of a shortest ending: the same one whenever it is asked for.
    fn nearer(&mut self, state: u32) -> Option<(u8, u32)> {
        if let Some(&known) = self.endings.nearer.get(&state) {
            return known;
        }
        let here = self.bytes_to_end(state);
        let mut nearest: Option<(u64, u8, u32)> = None;
        for byte in 0..=u8::MAX {
            let next = self.next(state, byte);
            let left = if next == DEAD { NO_END } else { self.bytes_to_end(next) };
            if left < nearest.map_or(here, |(left, ..)| left) {
                nearest = Some((left, byte, next));
                if left == here - 1 {
                    break;
                }
            }
        }
        let nearer = nearest.map(|(_, byte, next)| (byte, next));
        self.endings.nearer.insert(state, nearer);
        nearer
    }

    /// The states along a shortest ending, as far as a token reaches, with the bytes up to there.
    fn along(&mut self, trie: &Trie, state: u32) -> (Vec<u32>, Vec<u8>) {
        let (mut states, mut bytes) = (Vec::new(), Vec::new());
        let mut at = state;
        while bytes.len() < trie.longest() && !self.states[at as usize].spots.accepts {
            let Some((byte, next)) = self.nearer(at) else { break };
            bytes.push(byte);
            states.push(next);
            at = next;
        }
        (states, bytes)
    }

    /// No token of the mask leads to where only endings of more tokens are known; `u64::MAX` where one leads to where none is,
    /// or there are too many places to ask.
    pub(super) fn tokens_to_end_after(&mut self, trie: &Trie, state: u32) -> u64 {
        if let Some(&known) = self.endings.after.get(&state) {
            return known;
        }
        let after = self.in_string(trie, state).unwrap_or_else(|| {
            let (walker, spots, _) = self.spots_after(trie, state);
            let (mut most, mut left) = (0, COUNTED);
            if spots.len() > STATES {
                return u64::MAX;
            }
            for (spot, _) in spots {
                let next = self.spot_state(&walker, spot);
                match left.checked_sub(self.bytes_to_end(next)) {
                    Some(rest) => left = rest,
                    None => return u64::MAX,
                }
                most = most.max(self.tokens_to_end(trie, next).unwrap_or(u64::MAX));
            }
            most
        });
        self.endings.after.insert(state, after);
        after
    }

    /// As [`Run::tokens_to_end_after`] for a text inside a JSON string: it is closed byte by byte, and what follows follows.
    fn in_string(&mut self, trie: &Trie, state: u32) -> Option<u64> {
        let spots = self.states[state as usize].spots.clone();
        let [thread] = spots.threads[..] else { return None };
        let terminal = self.grammar.terminal_at(thread.at).clone();
        if !matches!(&*terminal, Terminal::Text(_)) || !trie.writes_all_bytes() {
            return None;
        }
        let outside = self.join(DEAD, |run, spots| run.leave(thread, thread.inner, spots));
        let most = self.tokens_to_end(trie, outside)?.saturating_add(terminal.farthest());
        let reached = self.allowed(trie, thread);
        reached.reached().iter().try_fold(most, |most, &state| Some(most.max(self.tokens_to_end(trie, state)?)))
    }

    /// Adds the tokens after which an ending of at most so many tokens is known, to a text that had room for so many.
    pub(super) fn tokens_that_end(&mut self, trie: &Trie, state: u32, most: u64, room: u64, tokens: &mut TokenSet) {
        // Those of the endings that are known, whatever else there is.
        let (states, bytes) = self.along(trie, state);
        let mut lengths = Vec::new();
        trie.all().beginnings(&bytes, |length| lengths.push(length));
        for length in lengths {
            if self.tokens_to_end(trie, states[length - 1]).is_some_and(|tokens| tokens <= most)
                && let Some(node) = trie.all().node(&bytes[..length])
            {
                trie.all().tokens_at(node).iter().for_each(|&token| tokens.insert(token));
            }
        }
        if let Some(&(known, token)) = self.endings.found.get(&(room, state))
            && known <= most.saturating_add(1)
        {
            tokens.insert(token);
        }
        let (walker, spots, all) = self.spots_after(trie, state);
        let mut left = COUNTED;
        let mut fits: HashMap<Spot, bool> = HashMap::with_capacity(spots.len());
        for (spot, _) in spots.into_iter().take(STATES) {
            let next = self.spot_state(&walker, spot);
            let bytes = self.bytes_to_end(next);
            let surely = trie.writes_all_bytes() && bytes <= most;
            let is_counted = !surely && self.may_end_within(trie, next, most) && bytes <= left;
            if is_counted {
                left -= bytes;
            }
            let ends = surely || is_counted && self.tokens_to_end(trie, next).is_some_and(|tokens| tokens <= most);
            fits.insert(spot, ends);
        }
        for (token, spot) in all {
            if fits.get(&spot) == Some(&true) {
                tokens.insert(token);
            }
        }
    }

    /// `false` where it is certain that no ending has as few tokens.
    fn may_end_within(&mut self, trie: &Trie, state: u32, most: u64) -> bool {
        let bytes = self.bytes_to_end(state);
        bytes != NO_END && bytes.div_ceil(trie.longest().max(1) as u64) <= most
    }

    /// Whether an ending of at most so many tokens is known, of a text that had room for so many.
    pub(super) fn ends_within(&mut self, trie: &Trie, state: u32, most: u64, room: u64) -> bool {
        let bytes = self.bytes_to_end(state);
        let found = self.endings.found.get(&(room, state)).is_some_and(|&(tokens, _)| tokens <= most);
        self.may_end_within(trie, state, most)
            && (trie.writes_all_bytes() && bytes <= most
                || found
                || self.tokens_to_end(trie, state).is_some_and(|tokens| tokens <= most))
    }

    /// Whether there is an ending of at most so many tokens; `None` where the search for one came to its budget. One that is
    /// found is known from now on to texts that had room for so many.
    ///
    /// States come out of a queue in the order of the tokens so far and the fewest that must follow (Hart, Nilsson and Raphael
    /// 1968).
    pub(super) fn search(&mut self, trie: &Trie, state: u32, most: u64) -> Option<bool> {
        if self.ends_within(trie, state, most, most) {
            return Some(true);
        }
        if let Some(&known) = self.endings.searched.get(&(state, most)) {
            return known;
        }
        let found = self.search_anew(trie, state, most);
        self.endings.searched.insert((state, most), found);
        found
    }

    fn search_anew(&mut self, trie: &Trie, from: u32, most: u64) -> Option<bool> {
        let longest = trie.longest().max(1) as u64;
        let mut left = BUDGET;
        // By state: the fewest tokens that lead there, from where, and the last of them.
        let mut reached: HashMap<u32, (u64, u32, TokenId)> = HashMap::from_iter([(from, (0, from, 0))]);
        let mut open = BinaryHeap::from([(Reverse(0), 0u64, from)]);
        while let Some((_, so_far, state)) = open.pop() {
            if reached[&state].0 < so_far {
                continue;
            }
            left = left.checked_sub(32 * self.bytes_to_end(state).min(LONGEST) as usize)?;
            // From here on an ending is known, or it has come to it.
            if self.ends_within(trie, state, most - so_far, most) {
                let (mut at, mut tokens) = (state, self.tokens_to_end(trie, state)?);
                while at != from {
                    let (_, before, token) = reached[&at];
                    (at, tokens) = (before, tokens + 1);
                    self.endings.found.insert((most, at), (tokens, token));
                }
                return Some(true);
            }
            let (walker, spots, all) = self.spots_after(trie, state);
            left = left.checked_sub(all.len() + 256 * (spots.len() + 1))?;
            for (spot, token) in spots {
                let next = self.spot_state(&walker, spot);
                let bytes = self.bytes_to_end(next);
                let tokens = so_far + 1;
                let fewest = tokens.saturating_add(bytes.div_ceil(longest));
                let is_nearer = reached.get(&next).is_none_or(|&(known, ..)| tokens < known);
                if bytes != NO_END && fewest <= most && is_nearer {
                    reached.insert(next, (tokens, state, token));
                    open.push((Reverse(fewest), tokens, next));
                }
            }
        }
        Some(false)
    }

    /// Where the tokens lead that go on from a state: each place once, with the first token that leads there; and all of them.
    fn spots_after(&mut self, trie: &Trie, state: u32) -> SpotsAfter {
        let (walker, start) = self.walker(state);
        let terminal = walker.as_ref().map(|walker| walker.terminal.clone());
        let lazy = terminal.as_deref().and_then(Terminal::lazy);
        lazy.inspect(|lazy| lazy.begin_walk());
        let mut all: Vec<(TokenId, Spot)> = Vec::new();
        let step = |spot, byte, _| self.step(&walker, spot, byte);
        trie.all().walk(start, step, |token, spot| all.push((token, spot)));
        if lazy.is_some_and(|lazy| lazy.end_long_walk()) {
            all.clear();
        }
        let (mut spots, mut seen, mut last) = (Vec::new(), HashSet::new(), None);
        for &(token, spot) in &all {
            if last != Some(spot) && seen.insert(spot) {
                spots.push((spot, token));
            }
            last = Some(spot);
        }
        (walker, spots, all)
    }
}

/// Of a walk: what it went by, the places that it came to, and each token with its place.
type SpotsAfter = (Option<Walker>, Vec<(Spot, TokenId)>, Vec<(TokenId, Spot)>);
