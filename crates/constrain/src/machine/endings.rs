//! The number of tokens that a text still needs.
//!
//! The fewest bytes to the end are known in every state, but the limit of a text is in *tokens*. A lower bound is the
//! number of bytes divided by the length of the longest token; an upper bound is the number of tokens that write the
//! shortest ending. Only if the limit lies between the two, a search with a budget decides.
//!
//! Known endings hold token by token: if a state has an ending of `n` tokens, one of them leads to a state with an
//! ending of `n - 1`. So a text that keeps to such tokens never loses its ending.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use verdigris_logits::{TokenId, TokenSet};

use super::masks::Masks;
use super::run::{DEAD, Run, Thread, Walk, WalkState};
use crate::grammar::step::NO_END;
use crate::terminal::Terminal;
use crate::terminal::language::Language;
use crate::vocabulary::trie::Trie;

/// The maximum length, in bytes, of endings that are split into tokens.
const LONGEST: u64 = 1 << 16;

/// The budget of a search, in nodes of the vocabulary; a new state counts as 256 and a byte of an ending as 32. It
/// takes about a fifth of a second.
const BUDGET: usize = 1 << 24;

/// The maximum bytes of states, of steps inside objects and arrays, and of names and items that are compared, which a
/// search may create.
const MADE: usize = 16 << 20;

/// The maximum total bytes of the endings that are counted for one mask, and of the states created for it.
const COUNTED: u64 = 1 << 16;
const STATES: usize = 1 << 13;

/// The known endings. They do not depend on earlier requests, so masks do not either.
#[derive(Default)]
pub(super) struct Endings {
    /// By state, the next byte of a shortest ending, and the state after it.
    nearer: HashMap<u32, Option<(u8, u32)>>,
    /// By state, the fewest tokens that write that ending.
    tokens: HashMap<u32, Option<u64>>,
    /// By state, the maximum tokens to the end after any token of the mask.
    after: HashMap<u32, u64>,
    /// Results of searches: by state and limit, whether there is an ending.
    searched: HashMap<(u32, u64), Option<bool>>,
    /// Endings found by searches: by limit and state, the number of tokens and the first of them.
    found: HashMap<(u64, u32), (u64, TokenId)>,
}

impl Endings {
    /// The approximate number of bytes used.
    pub(super) fn bytes(&self) -> usize {
        let small = self.nearer.len() + self.tokens.len() + self.after.len() + self.searched.len();
        32 * small + 48 * self.found.len()
    }
}

impl Endings {
    /// The fewest tokens that write the shortest ending in bytes; `None` if no tokens do.
    pub(super) fn tokens_to_end(&mut self, run: &mut Run, trie: &Trie, state: u32) -> Option<u64> {
        if let Some(&known) = self.tokens.get(&state) {
            return known;
        }
        if run.bytes_to_end(state) > LONGEST {
            return None;
        }
        // Follows the shortest ending to a known state, and the length of a token beyond it.
        let (mut states, mut bytes, mut known) = (vec![state], Vec::new(), None);
        let mut at = state;
        while !run.threads(at).accepts && known.is_none_or(|known| bytes.len() < known + trie.max_token_bytes()) {
            let Some((byte, next)) = self.nearer(run, trie, at) else { break };
            bytes.push(byte);
            states.push(next);
            at = next;
            if known.is_none() && self.tokens.contains_key(&at) {
                known = Some(bytes.len());
            }
        }
        for at in (0..known.unwrap_or(states.len())).rev() {
            let mut fewest = run.threads(states[at]).accepts.then_some(0);
            if fewest.is_none() {
                trie.all().beginnings(&bytes[at..], |length| {
                    let after = self.tokens.get(&states[at + length]).copied().flatten();
                    fewest = fewest.into_iter().chain(after.map(|tokens| tokens + 1)).min();
                });
            }
            self.tokens.entry(states[at]).or_insert(fewest);
        }
        self.tokens[&state]
    }

    /// The next byte of a shortest ending: always the same one, and one that is a token on its own if there is such a
    /// byte.
    fn nearer(&mut self, run: &mut Run, trie: &Trie, state: u32) -> Option<(u8, u32)> {
        if let Some(&known) = self.nearer.get(&state) {
            return known;
        }
        let here = run.bytes_to_end(state);
        let mut nearest: Option<(u64, u8, u32)> = None;
        for byte in trie.bytes_by_tokens() {
            let next = run.next(state, byte);
            let left = if next == DEAD { NO_END } else { run.bytes_to_end(next) };
            if left < nearest.map_or(here, |(left, ..)| left) {
                nearest = Some((left, byte, next));
                if left == here - 1 {
                    break;
                }
            }
        }
        let nearer = nearest.map(|(_, byte, next)| (byte, next));
        self.nearer.insert(state, nearer);
        nearer
    }

    /// The states along a shortest ending, as far as a token reaches, and the bytes that lead there.
    fn along(&mut self, run: &mut Run, trie: &Trie, state: u32) -> (Vec<u32>, Vec<u8>) {
        let (mut states, mut bytes) = (Vec::new(), Vec::new());
        let mut at = state;
        while bytes.len() < trie.max_token_bytes() && !run.threads(at).accepts {
            let Some((byte, next)) = self.nearer(run, trie, at) else { break };
            bytes.push(byte);
            states.push(next);
            at = next;
        }
        (states, bytes)
    }

    /// An upper bound on the tokens to the end after any token of the mask; `u64::MAX` if no ending is known after some
    /// token, or there are too many states to check.
    pub(super) fn tokens_to_end_after(&mut self, run: &mut Run, masks: &mut Masks, trie: &Trie, state: u32) -> u64 {
        if let Some(&known) = self.after.get(&state) {
            return known;
        }
        let known = self.in_string(run, masks, trie, state).or_else(|| self.in_item(run, masks, trie, state));
        let after = known.unwrap_or_else(|| {
            let (walk, ends, _) = walk_states_after(run, trie, state);
            let (mut most, mut left) = (0, COUNTED);
            if ends.len() > STATES {
                return u64::MAX;
            }
            if bytes_are_counted(run, trie, state) {
                return ends.into_iter().map(|(at, _)| run.walk_to_end(&walk, at)).max().unwrap_or(0);
            }
            for (at, _) in ends {
                let next = run.state_of(&walk, at);
                match left.checked_sub(run.bytes_to_end(next)) {
                    Some(rest) => left = rest,
                    None => return u64::MAX,
                }
                most = most.max(self.tokens_to_end(run, trie, next).unwrap_or(u64::MAX));
            }
            most
        });
        self.after.insert(state, after);
        after
    }

    /// Like [`Endings::tokens_to_end_after`] for a text inside a JSON string: the string is closed byte by byte, then
    /// comes what follows it.
    fn in_string(&mut self, run: &mut Run, masks: &mut Masks, trie: &Trie, state: u32) -> Option<u64> {
        let threads = run.threads(state).clone();
        let [thread] = threads.threads[..] else { return None };
        let terminal = run.grammar.terminal_at(thread.at).clone();
        if !matches!(&*terminal, Terminal::Text(_)) || !trie.writes_all_bytes() {
            return None;
        }
        let outside = run.join(DEAD, |run, threads| run.leave(thread, thread.inner, threads));
        let most = self.tokens_to_end(run, trie, outside)?.saturating_add(terminal.farthest());
        let reached = masks.allowed(run, thread);
        reached.reached.iter().try_fold(most, |most, &after| {
            let state = after.reached(run);
            Some(most.max(self.tokens_to_end(run, trie, state)?))
        })
    }

    /// Like [`Endings::tokens_to_end_after`] for a text in an item or a name that must differ from others: except for
    /// the tokens that may lead to one of those, it is treated as any item.
    fn in_item(&mut self, run: &mut Run, masks: &mut Masks, trie: &Trie, state: u32) -> Option<u64> {
        let (thread, any) = self.as_any(run, trie, state)?;
        let tried = masks.tried_anew(run, thread).into_iter().filter(|&(_, state)| state != DEAD);
        let tried = tried.map(|(_, state)| run.bytes_to_end(state)).max();
        Some(self.tokens_to_end_after(run, masks, trie, any).max(tried.unwrap_or(0)))
    }

    /// The thread of a text in an item or a name that must differ from others, and the state as if it could be any.
    fn as_any(&self, run: &mut Run, trie: &Trie, state: u32) -> Option<(Thread, u32)> {
        match run.threads(state).threads[..] {
            [thread] if trie.writes_all_bytes() => Some((thread, run.as_any(thread)?)),
            _ => None,
        }
    }

    /// Adds the tokens after which an ending of at most `most` tokens is known, for a text that began with `room`
    /// tokens.
    pub(super) fn tokens_that_end(
        &mut self,
        (run, masks): (&mut Run, &mut Masks),
        trie: &Trie,
        state: u32,
        most: u64,
        room: u64,
        tokens: &mut TokenSet,
    ) {
        let any = self.as_any(run, trie, state);
        if let Some((thread, any)) = any {
            self.tokens_that_end((run, masks), trie, any, most, room, tokens);
            for (token, next) in masks.tried_anew(run, thread) {
                match next != DEAD && run.bytes_to_end(next) <= most {
                    true => tokens.insert(token),
                    false => tokens.remove(token),
                }
            }
        }
        // Tokens of the known endings are always included.
        let (states, bytes) = self.along(run, trie, state);
        let mut lengths = Vec::new();
        trie.all().beginnings(&bytes, |length| lengths.push(length));
        for length in lengths {
            if self.tokens_to_end(run, trie, states[length - 1]).is_some_and(|tokens| tokens <= most)
                && let Some(node) = trie.all().node(&bytes[..length])
            {
                trie.all().tokens_at(node).iter().for_each(|&token| tokens.insert(token));
            }
        }
        if let Some(&(known, token)) = self.found.get(&(room, state))
            && known <= most.saturating_add(1)
        {
            tokens.insert(token);
        }
        if any.is_some() {
            return;
        }
        let (walk, ends, all) = walk_states_after(run, trie, state);
        let mut left = if bytes_are_counted(run, trie, state) { 0 } else { COUNTED };
        let mut fits: HashMap<WalkState, bool> = HashMap::with_capacity(ends.len());
        for (at, _) in ends.into_iter().take(STATES) {
            let next = run.state_of(&walk, at);
            let bytes = run.bytes_to_end(next);
            let surely = trie.writes_all_bytes() && bytes <= most;
            let is_counted = !surely && may_end_within(run, trie, next, most) && bytes <= left;
            if is_counted {
                left -= bytes;
            }
            let ends = surely || is_counted && self.tokens_to_end(run, trie, next).is_some_and(|tokens| tokens <= most);
            fits.insert(at, ends);
        }
        for (token, at) in all {
            if fits.get(&at) == Some(&true) {
                tokens.insert(token);
            }
        }
    }

    /// Whether an ending of at most `most` tokens is known, for a text that began with `room` tokens.
    pub(super) fn ends_within(&mut self, run: &mut Run, trie: &Trie, state: u32, most: u64, room: u64) -> bool {
        let bytes = run.bytes_to_end(state);
        let found = self.found.get(&(room, state)).is_some_and(|&(tokens, _)| tokens <= most);
        may_end_within(run, trie, state, most)
            && (trie.writes_all_bytes() && bytes <= most
                || found
                || self.tokens_to_end(run, trie, state).is_some_and(|tokens| tokens <= most))
    }

    /// Searches for an ending of at most `most` tokens; `None` if the search reached its budget. An ending that is
    /// found is then known for texts that began with `most` tokens.
    ///
    /// States are taken from a queue in the order of the tokens so far plus the fewest that must follow (A*; Hart,
    /// Nilsson and Raphael 1968).
    pub(super) fn search(&mut self, run: &mut Run, trie: &Trie, state: u32, most: u64) -> Option<bool> {
        if self.ends_within(run, trie, state, most, most) {
            return Some(true);
        }
        if let Some(&known) = self.searched.get(&(state, most)) {
            return known;
        }
        let found = self.search_anew(run, trie, state, most);
        self.searched.insert((state, most), found);
        found
    }

    fn search_anew(&mut self, run: &mut Run, trie: &Trie, from: u32, most: u64) -> Option<bool> {
        let longest = trie.max_token_bytes().max(1) as u64;
        let (mut left, before) = (BUDGET, run.bytes());
        // By state: the fewest tokens that lead to it, the state before it, and the last token.
        let mut reached: HashMap<u32, (u64, u32, TokenId)> = HashMap::from_iter([(from, (0, from, 0))]);
        let mut open = BinaryHeap::from([(Reverse(0), 0u64, from)]);
        while let Some((_, so_far, state)) = open.pop() {
            if run.bytes() - before > MADE {
                return None;
            }
            if reached[&state].0 < so_far {
                continue;
            }
            left = left.checked_sub(32 * run.bytes_to_end(state).min(LONGEST) as usize)?;
            // An ending is known from here on, or reached.
            if self.ends_within(run, trie, state, most - so_far, most) {
                let (mut at, mut tokens) = (state, self.tokens_to_end(run, trie, state)?);
                while at != from {
                    let (_, before, token) = reached[&at];
                    (at, tokens) = (before, tokens + 1);
                    self.found.insert((most, at), (tokens, token));
                }
                return Some(true);
            }
            let (walk, ends, all) = walk_within(run, trie, state, MADE)?;
            left = left.checked_sub(all.len() + 256 * (ends.len() + 1))?;
            for (at, token) in ends {
                let next = run.state_of(&walk, at);
                let bytes = run.bytes_to_end(next);
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
}

/// Whether endings are assumed to take one token per byte: where texts are compared, as with items that must differ,
/// each text leads to states of its own, and splitting the ending of each would take too long.
fn bytes_are_counted(run: &Run, trie: &Trie, state: u32) -> bool {
    let is_fresh =
        |thread: &Thread| matches!(&**run.grammar.terminal_at(thread.at), Terminal::Fresh(_) | Terminal::Distinct(_));
    trie.writes_all_bytes() && run.threads(state).threads.iter().any(is_fresh)
}

/// Returns `false` if it is certain that no ending has at most `most` tokens.
fn may_end_within(run: &mut Run, trie: &Trie, state: u32, most: u64) -> bool {
    let bytes = run.bytes_to_end(state);
    bytes != NO_END && bytes.div_ceil(trie.max_token_bytes().max(1) as u64) <= most
}

/// The states that tokens lead to from a state: each state once, with the first token that leads to it; and all tokens
/// with their states.
fn walk_states_after(run: &mut Run, trie: &Trie, state: u32) -> WalkStatesAfter {
    walk_within(run, trie, state, usize::MAX).expect("it may make whatever it needs")
}

/// Like [`walk_states_after`]; `None` if it creates more than `most` bytes of states.
fn walk_within(run: &mut Run, trie: &Trie, state: u32, most: usize) -> Option<WalkStatesAfter> {
    let before = run.walked_bytes();
    let (walk, start) = run.walk(state);
    let terminal = walk.as_ref().map(|walk| walk.terminal.clone());
    let lazy = terminal.as_deref().and_then(Terminal::lazy);
    lazy.inspect(|lazy| lazy.begin_walk());
    let mut all: Vec<(TokenId, WalkState)> = Vec::new();
    let mut is_cut = false;
    let step = |at, byte, _| {
        is_cut |= run.walked_bytes() - before > most;
        if is_cut { None } else { run.step(&walk, at, byte) }
    };
    trie.all().walk(start, step, |token, at| all.push((token, at)));
    if lazy.is_some_and(|lazy| lazy.end_long_walk()) {
        all.clear();
    }
    if is_cut {
        return None;
    }
    let (mut ends, mut seen, mut last) = (Vec::new(), HashSet::new(), None);
    for &(token, at) in &all {
        if last != Some(at) && seen.insert(at) {
            ends.push((at, token));
        }
        last = Some(at);
    }
    Some((walk, ends, all))
}

/// The walk, the states that it reached, and each token with its state.
type WalkStatesAfter = (Option<Walk>, Vec<(WalkState, TokenId)>, Vec<(TokenId, WalkState)>);
