//! A machine that runs a grammar over the tokens of a vocabulary.
//!
//! | module | contents |
//! |---|---|
//! | `endings` | the number of tokens that a text still needs |
//! | `entering` | the reading steps that can be reached without reading |
//! | `masks` | computing and caching the masks of states |
//! | [`index`] | data that all machines over one vocabulary share |
//! | `slice`, `closings` | the tokens allowed inside one segment, and after a string |
//! | `allowed`, `groups` | the parts of masks, and the threads that each is of |
//! | `shallow` | masks of deeply nested texts |
//! | `distinct_items` | the tokens allowed in an item that must differ from others |
//! | `nested` | values as one segment |
//! | `run`, `transitions` | the states of a grammar, created as texts reach them, and the state after each byte |
//! | `work` | the work budget of one mask |
//! | [`mask`] | masks, and why one may be unknown |

mod allowed;
mod closings;
mod distinct_items;
mod endings;
mod entering;
mod groups;
pub mod index;
pub mod mask;
mod masks;
mod nested;
mod run;
mod shallow;
mod slice;
mod transitions;
mod work;

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use verdigris_logits::{TokenId, TokenSet};

use self::endings::Endings;
use self::index::TokenIndex;
use self::mask::{Mask, OverBudget};
use self::masks::Masks;
use self::run::{DEAD, Run};
use crate::grammar::Grammar;
use crate::terminal::Terminal;
use crate::vocabulary::trie::Trie;

/// The default limit, in bytes, of masks. The masks of 2,000 schemas collected elsewhere take at most 48.9 MB each.
pub(crate) const MEMORY: usize = 64 << 20;

/// The default limit, in bytes, of states. An endless text keeps reaching new states only if earlier text restricts
/// what may come: 16,000 tokens of numbers that must all differ take this much.
pub(crate) const STATES: usize = 1 << 30;

/// The position of a text in a grammar. Two texts in the same state have the same continuations.
///
/// A state is an index in its machine: copies and forks cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(u32);

/// A grammar over a vocabulary, which determines the tokens that may come next.
///
/// States are created when a text first reaches them, and kept with their transitions and masks; all texts of one
/// machine share them. They stay valid as long as the machine exists, so except for its masks a machine only grows:
/// [`Machine::states_memory`] reports its size, and a [`crate::Constraint`] starts another one when that is too much.
///
/// # Threads
/// A machine may be used by any number of threads. One lock guards all of its data: what is known (a mask, the state
/// after a token) is read concurrently, and what is new is computed by one thread while the others wait.
/// [`Machine::completion`], [`Machine::tokens_to_end`], [`Machine::ends_within`], [`Machine::mask_within`] and
/// [`Machine::mask_ending_within`] always lock exclusively.
pub struct Machine {
    index: Arc<TokenIndex>,
    known: RwLock<Known>,
    start: State,
    memory: usize,
    most_states: usize,
}

/// The data of a machine: states, masks and endings.
struct Known {
    run: Run,
    masks: Masks,
    endings: Endings,
}

impl Known {
    /// The approximate number of bytes of states and endings, which [`Machine::with_states_memory`] limits.
    fn states_bytes(&self) -> usize {
        self.run.bytes() + self.endings.bytes()
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known { run, .. } = &*self.read();
        write!(f, "Machine {{ {:?}, {} states so far }}", run.grammar.grammar(), run.states.len())
    }
}

impl Machine {
    /// Creates the machine of a grammar over a vocabulary.
    pub fn new(grammar: impl Into<Arc<Grammar>>, index: Arc<TokenIndex>) -> Self {
        Self::with_memory(grammar, index, MEMORY)
    }

    /// Like [`Machine::new`], with a limit of about `bytes` bytes (64 MiB by default) on masks and their parts. Above
    /// it they are dropped, and recomputed when texts need them. States are not counted and never dropped.
    pub fn with_memory(grammar: impl Into<Arc<Grammar>>, index: Arc<TokenIndex>, bytes: usize) -> Self {
        let (run, start) = Run::new(grammar.into());
        let known = Known { run, masks: Masks::new(index.clone()), endings: Endings::default() };
        Self { index, known: RwLock::new(known), start: State(start), memory: bytes, most_states: STATES }
    }

    /// The same machine with a limit of about `bytes` bytes (1 GiB by default) on states. Above it, no new masks are
    /// computed, which [`Machine::fault_at`] reports.
    #[must_use]
    pub fn with_states_memory(self, bytes: usize) -> Self {
        Self { most_states: bytes, ..self }
    }

    // A panic while the lock is held leaves consistent states, since they are added last.
    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The vocabulary.
    pub fn index(&self) -> &Arc<TokenIndex> {
        &self.index
    }

    fn trie(&self) -> &Trie {
        self.index.trie()
    }

    /// The state before any text.
    pub fn start(&self) -> State {
        self.start
    }

    /// The state after some bytes; a dead one if no text of the grammar continues with them.
    pub fn next(&self, state: State, bytes: &[u8]) -> State {
        let (mut state, mut read) = (state.0, 0);
        {
            let Known { run, .. } = &*self.read();
            while let Some(&byte) = bytes.get(read)
                && let Some(next) = run.known(state, byte)
            {
                (state, read) = (next, read + 1);
            }
        }
        if read < bytes.len() {
            state = self.write().run.next_all(state, &bytes[read..]);
        }
        State(state)
    }

    /// The state after a token with these bytes: like [`Machine::next`], but cached.
    pub fn advance(&self, state: State, token: TokenId, bytes: &[u8]) -> State {
        if let Some(next) = self.read().masks.known_step(state.0, token) {
            return State(next);
        }
        // Control tokens have no bytes.
        if bytes.is_empty() {
            return state;
        }
        let Known { run, masks, .. } = &mut *self.write();
        let next = run.next_all(state.0, bytes);
        masks.keep_step(state.0, token, next);
        State(next)
    }

    /// Whether the text so far is a complete text of the grammar.
    pub fn accepts(&self, State(state): State) -> bool {
        self.read().run.threads(state).accepts
    }

    /// The fewest bytes that complete the text so far; `None` if there are none, or none shorter than 4 GiB, or if they
    /// need more states than [`Machine::with_states_memory`] allows.
    pub fn completion(&self, State(mut state): State) -> Option<Vec<u8>> {
        let known = &mut *self.write();
        let mut left = Some(known.run.bytes_to_end(state)).filter(|bytes| bytes >> 32 == 0)?;
        let mut bytes = Vec::new();
        while left > 0 {
            if known.states_bytes() > self.most_states {
                return None;
            }
            let run = &mut known.run;
            // Some byte leads one nearer to the end.
            let mut nearer = None;
            for byte in 0..=255 {
                let next = run.next(state, byte);
                if next != DEAD && run.bytes_to_end(next) == left - 1 {
                    nearer = Some((byte, next));
                    break;
                }
            }
            let (byte, next) = nearer?;
            bytes.push(byte);
            (state, left) = (next, left - 1);
        }
        Some(bytes)
    }

    /// The bytes that must come next, at most `most`: as long as only one byte is allowed, and the text may not end.
    pub(crate) fn forced(&self, State(mut state): State, most: usize) -> Vec<u8> {
        let Known { run, .. } = &mut *self.write();
        let mut bytes = Vec::new();
        while bytes.len() < most && !run.threads(state).accepts {
            let first = run.first(state);
            if first.iter().map(|word| word.count_ones()).sum::<u32>() != 1 {
                break;
            }
            let word = first.iter().position(|&word| word != 0).expect("one bit is set");
            let byte = (64 * word as u32 + first[word].trailing_zeros()) as u8;
            bytes.push(byte);
            state = run.next(state, byte);
        }
        bytes
    }

    /// The number of ways in which a text can continue at `state`, counted up to `most`: the end counts as one, and so
    /// does each allowed token that is not a prefix of another one. Tokens that are prefixes of each other can write
    /// the same text.
    pub(crate) fn ways(&self, state: State, most: u32) -> u32 {
        let mask = self.mask(state);
        let (ways, longest) = (Cell::new(u32::from(mask.accepts)), Cell::new(None));
        // The walk is in byte order: the tokens that begin with a token come right after it.
        let close = |depth: usize| {
            if longest.get().is_some_and(|length| depth < length) {
                longest.set(None);
                ways.set(ways.get() + 1);
            }
        };
        let enter = |depth: usize, _, _| {
            close(depth);
            (ways.get() < most).then_some(depth + 1)
        };
        self.trie().all().walk(0, enter, |token, length| {
            if mask.tokens.contains(token) {
                longest.set(Some(length));
            }
        });
        close(0);
        ways.get().min(most)
    }

    /// Whether a longer token that begins with these bytes is allowed.
    pub(crate) fn allows_longer(&self, state: State, begins: &[u8]) -> bool {
        let Some(node) = self.trie().all().node(begins) else { return false };
        let (at, below) = (self.trie().all().tokens_at(node).len(), self.trie().all().tokens_below(node));
        let longer = &below[at..];
        !longer.is_empty() && {
            let mask = self.mask(state);
            longer.iter().any(|&token| mask.tokens.contains(token))
        }
    }

    /// The segments that may be read next: the location in the schema, the terminal that reads them, and its state.
    pub(crate) fn reading(&self, State(state): State) -> Vec<(String, Arc<Terminal>, u32)> {
        let Known { run, .. } = &*self.read();
        let of = |thread: &run::Thread| {
            (run.grammar.path(thread.at).to_owned(), run.grammar.terminal_at(thread.at).clone(), thread.inner)
        };
        run.threads(state).threads.iter().map(of).collect()
    }

    /// Whether the text so far can become a text of the grammar, or is one.
    pub fn goes_on(&self, State(state): State) -> bool {
        state != DEAD
    }

    /// The mask of a state. It is empty if it takes too much to compute, which [`Machine::fault_at`] reports.
    #[doc(alias = "compute_mask")]
    #[doc(alias = "fill_next_token_bitmask")]
    pub fn mask(&self, state: State) -> Arc<Mask> {
        if let Some(mask) = self.read().masks.known_mask(state.0) {
            return mask.clone();
        }
        self.make_mask(&mut self.write(), state)
    }

    fn make_mask(&self, known: &mut Known, State(state): State) -> Arc<Mask> {
        if known.masks.bytes() > self.memory {
            known.masks.forget();
        }
        let is_full = known.masks.known_mask(state).is_none() && known.states_bytes() > self.most_states;
        let Known { run, masks, .. } = known;
        if is_full {
            let path = run.threads(state).threads.first().map_or("", |thread| run.grammar.path(thread.at)).to_owned();
            return masks.give_up(state, OverBudget::Memory { path, most: self.most_states });
        }
        masks.mask(run, state)
    }

    /// The reason why the mask of a state is empty, if it takes too much to compute. Whether the work is too much
    /// depends only on the state, not on earlier requests; memory is that of all texts of the machine.
    pub fn fault_at(&self, state: State) -> Option<OverBudget> {
        {
            let Known { masks, .. } = &*self.read();
            if masks.known_mask(state.0).is_some() {
                return masks.fault_at(state.0).cloned();
            }
        }
        let known = &mut *self.write();
        self.make_mask(known, state);
        known.masks.fault_at(state.0).cloned()
    }

    /// The fault of the first mask that took too much to compute.
    pub fn fault(&self) -> Option<OverBudget> {
        self.read().masks.fault().cloned()
    }

    /// The approximate number of bytes of the cached masks and their parts.
    pub fn memory(&self) -> usize {
        self.read().masks.bytes()
    }

    /// The approximate number of bytes of the states that texts have reached, with the steps inside objects and arrays.
    pub fn states_memory(&self) -> usize {
        self.read().states_bytes()
    }

    /// The fewest bytes to the end of a text at `state`; `u64::MAX` if the end cannot be reached.
    pub fn to_end(&self, State(state): State) -> u64 {
        if let Some(to_end) = self.read().run.states[state as usize].to_end {
            return to_end;
        }
        self.write().run.bytes_to_end(state)
    }

    /// An upper bound on the bytes to the end of the text after any token of the mask.
    pub fn to_end_after(&self, state: State) -> u64 {
        if let Some(bound) = self.read().run.states[state.0 as usize].to_end_after {
            return bound;
        }
        let Known { run, masks, .. } = &mut *self.write();
        masks.bytes_to_end_after(run, state.0)
    }

    /// The number of tokens of a known ending of a text at `state`, which may not be the fewest; `None` if no ending is
    /// known.
    pub fn tokens_to_end(&self, state: State) -> Option<u64> {
        let Known { run, endings, .. } = &mut *self.write();
        endings.tokens_to_end(run, self.trie(), state.0)
    }

    /// Whether the text can be completed with at most `tokens` tokens; `None` if a search reached its budget.
    pub fn ends_within(&self, state: State, tokens: u64) -> Option<bool> {
        let Known { run, endings, .. } = &mut *self.write();
        endings.search(run, self.trie(), state.0, tokens)
    }

    /// Whether it is known without a search that after every token of the mask, at most `tokens` more complete the
    /// text.
    pub(crate) fn always_ends_within(&self, state: State, tokens: u64) -> bool {
        self.trie().writes_all_bytes() && self.to_end_after(state) <= tokens || {
            let Known { run, masks, endings } = &mut *self.write();
            endings.tokens_to_end_after(run, masks, self.trie(), state.0) <= tokens
        }
    }

    /// Whether it is known without a search that at most `tokens` complete a text that began with `room` tokens.
    pub(crate) fn surely_ends_within(&self, state: State, tokens: u64, room: u64) -> bool {
        let Known { run, endings, .. } = &mut *self.write();
        endings.ends_within(run, self.trie(), state.0, tokens, room)
    }

    /// Adds to `allowed` the tokens after which an ending of at most `tokens` more is known, for a text that began with
    /// `room` tokens, which must have been passed to [`Machine::ends_within`]. If an ending of `tokens + 1` is known
    /// for `state`, there is such a token, or the text is complete.
    pub fn mask_ending_within(&self, state: State, tokens: u64, room: u64, allowed: &mut TokenSet) {
        let Known { run, masks, endings } = &mut *self.write();
        endings.tokens_that_end((run, masks), self.trie(), state.0, tokens, room, allowed);
    }

    /// Adds to `tokens` the tokens of the mask after which at most `bytes` more complete the text.
    pub fn mask_within(&self, state: State, bytes: u64, tokens: &mut TokenSet) {
        let Known { run, .. } = &mut *self.write();
        let (walk, start) = run.walk(state.0);
        let mut found = Vec::new();
        let step = |at, byte, _| run.step(&walk, at, byte);
        self.trie().all().walk(start, step, |token, at| found.push((token, at)));
        for (token, at) in found {
            if run.walk_to_end(&walk, at) <= bytes {
                tokens.insert(token);
            }
        }
    }
}
