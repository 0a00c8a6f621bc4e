//! A machine that runs a grammar over the tokens of a vocabulary.
//!
//! | module | holds |
//! |---|---|
//! | `endings` | how many tokens a text still needs |
//! | `masks` | the masks of states, and what they are made of |
//! | [`index`] | what all machines over one vocabulary share |
//! | `slice`, `closings` | what a vocabulary does inside one segment, and after a string |
//! | `allowed` | the parts of masks |
//! | `distinct_items` | what a text allows in an item that differs from others |
//! | `nested` | values as one segment |
//! | `run` | the states of a grammar, as texts come to them |
//! | `work` | how much work one mask may be |
//! | [`mask`] | what a text may do next |

mod allowed;
mod closings;
mod distinct_items;
mod endings;
pub mod index;
pub mod mask;
mod masks;
mod nested;
mod run;
mod slice;
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

/// How many bytes masks may take where nothing else is said: those of 2,000 schemas of other people take at most 48.9
/// MB.
pub(crate) const MEMORY: usize = 64 << 20;

/// How many bytes states may take where nothing else is said. Text without end comes to new states only where what it
/// has written decides what may come: 16,000 tokens of numbers that are all different take as much.
pub(crate) const STATES: usize = 1 << 30;

/// Where a text stands in a grammar. Two texts at one state can go on in the same ways.
///
/// A state is a number of its machine: copies and forks cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(u32);

/// A grammar over a vocabulary: which tokens a text may go on with.
///
/// States are made when a text first comes to them, and kept with what follows each byte and with their mask; all texts
/// of one machine share them. They stay valid as long as the machine is there, so a machine only grows, but for its
/// masks: [`Machine::states_memory`] says how far, and a [`crate::Constraint`] begins another one when it is too much.
///
/// # Threads
/// A machine may be used by any number of threads. One lock guards all that it knows: what is known (a mask, the state
/// after a token) is read side by side, and what is met for the first time is worked out by one thread while the others
/// wait. [`Machine::completion`], [`Machine::tokens_to_end`], [`Machine::ends_within`], [`Machine::mask_within`] and
/// [`Machine::mask_ending_within`] always take it for themselves.
pub struct Machine {
    index: Arc<TokenIndex>,
    known: RwLock<Known>,
    start: State,
    memory: usize,
    most_states: usize,
}

/// All that a machine knows: of states, of their masks, and of their endings.
struct Known {
    run: Run,
    masks: Masks,
    endings: Endings,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Known { run, .. } = &*self.read();
        write!(f, "Machine {{ {:?}, {} states so far }}", run.grammar.grammar(), run.states.len())
    }
}

impl Machine {
    /// The machine of a grammar over a vocabulary.
    pub fn new(grammar: impl Into<Arc<Grammar>>, index: Arc<TokenIndex>) -> Self {
        Self::with_memory(grammar, index, MEMORY)
    }

    /// As [`Machine::new`], where masks and what they are made of take up to about so many bytes (64 MiB else). Where
    /// they take more they are forgotten, and made again when texts come to them. States are not counted: they stay.
    pub fn with_memory(grammar: impl Into<Arc<Grammar>>, index: Arc<TokenIndex>, bytes: usize) -> Self {
        let (run, start) = Run::new(grammar.into());
        let known = Known { run, masks: Masks::new(index.clone()), endings: Endings::default() };
        Self { index, known: RwLock::new(known), start: State(start), memory: bytes, most_states: STATES }
    }

    /// The same machine, whose states may take about so many bytes (1 GiB else): where they take more, no mask is made
    /// that is not known yet, and [`Machine::fault_at`] says so.
    #[must_use]
    pub fn with_states_memory(self, bytes: usize) -> Self {
        Self { most_states: bytes, ..self }
    }

    // A panic while the lock is held leaves states that are whole: they are added as the last thing.
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

    /// The state after some more bytes; a dead one if no text of the grammar goes on so.
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

    /// The state after a token that writes these bytes: as [`Machine::next`], and remembered.
    pub fn advance(&self, state: State, token: TokenId, bytes: &[u8]) -> State {
        if let Some(next) = self.read().masks.known_step(state.0, token) {
            return State(next);
        }
        // Control tokens write nothing.
        if bytes.is_empty() {
            return state;
        }
        let Known { run, masks, .. } = &mut *self.write();
        let next = run.next_all(state.0, bytes);
        masks.keep_step(state.0, token, next);
        State(next)
    }

    /// Whether the text so far is one of the grammar's.
    pub fn accepts(&self, State(state): State) -> bool {
        self.read().run.threads(state).accepts
    }

    /// The fewest bytes that make the text so far one of the grammar's; `None` if nothing does, or nothing
    /// shorter than 4 GiB.
    pub fn completion(&self, State(mut state): State) -> Option<Vec<u8>> {
        let Known { run, .. } = &mut *self.write();
        let mut left = Some(run.bytes_to_end(state)).filter(|bytes| bytes >> 32 == 0)?;
        let mut bytes = Vec::new();
        while left > 0 {
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

    /// What comes next for certain, up to so many bytes: as long as one byte alone may come, and no end.
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

    /// In how many ways a text can go on at `state`, counted up to `most`: an end is one, and so is each allowed token
    /// that is not the beginning of another allowed one. Tokens that begin each other write the same text.
    pub(crate) fn ways(&self, state: State, most: u32) -> u32 {
        let mask = self.mask(state);
        let (ways, longest) = (Cell::new(u32::from(mask.accepts)), Cell::new(None));
        // The walk is in the order of the bytes: what begins with a token comes right after it.
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

    /// Whether a token is allowed that begins so and is longer.
    pub(crate) fn allows_longer(&self, state: State, begins: &[u8]) -> bool {
        let Some(node) = self.trie().all().node(begins) else { return false };
        let (at, below) = (self.trie().all().tokens_at(node).len(), self.trie().all().tokens_below(node));
        let longer = &below[at..];
        !longer.is_empty() && {
            let mask = self.mask(state);
            longer.iter().any(|&token| mask.tokens.contains(token))
        }
    }

    /// What may be read next: where in a schema that is asked for, the terminal that reads it, and its state.
    pub(crate) fn reading(&self, State(state): State) -> Vec<(String, Arc<Terminal>, u32)> {
        let Known { run, .. } = &*self.read();
        let of = |thread: &run::Thread| {
            (run.grammar.path(thread.at).to_owned(), run.grammar.terminal_at(thread.at).clone(), thread.inner)
        };
        run.threads(state).threads.iter().map(of).collect()
    }

    /// Whether the text so far can become one of the grammar's, or is one.
    pub fn goes_on(&self, State(state): State) -> bool {
        state != DEAD
    }

    /// What a text at `state` can go on with; nothing where that takes too much to find out, and then
    /// [`Machine::fault_at`] says so.
    #[doc(alias = "compute_mask")]
    #[doc(alias = "fill_next_token_bitmask")]
    pub fn mask(&self, state: State) -> Arc<Mask> {
        if let Some(mask) = self.read().masks.known_mask(state.0) {
            return mask.clone();
        }
        self.make_mask(&mut self.write(), state)
    }

    fn make_mask(&self, known: &mut Known, State(state): State) -> Arc<Mask> {
        let Known { run, masks, endings } = known;
        if masks.bytes() > self.memory {
            masks.forget();
        }
        if masks.known_mask(state).is_none() && run.bytes() + endings.bytes() > self.most_states {
            let path = run.threads(state).threads.first().map_or("", |thread| run.grammar.path(thread.at)).to_owned();
            return masks.give_up(state, OverBudget::Memory { path, most: self.most_states });
        }
        masks.mask(run, state)
    }

    /// Why the mask of a state is empty where it takes too much to make. Whether work is too much depends on the state
    /// alone, and not on what has been asked before; memory is that of all texts of the machine.
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

    /// Why some mask was empty that took too much to make: the first one.
    pub fn fault(&self) -> Option<OverBudget> {
        self.read().masks.fault().cloned()
    }

    /// About how many bytes the masks take that are kept, and what they are made of.
    pub fn memory(&self) -> usize {
        self.read().masks.bytes()
    }

    /// About how many bytes the states take that texts have come to, with the steps inside objects and arrays.
    pub fn states_memory(&self) -> usize {
        let Known { run, endings, .. } = &*self.read();
        run.bytes() + endings.bytes()
    }

    /// The fewest bytes to the end of a text at `state`; `u64::MAX` where there is none.
    pub fn to_end(&self, State(state): State) -> u64 {
        if let Some(to_end) = self.read().run.states[state as usize].to_end {
            return to_end;
        }
        self.write().run.bytes_to_end(state)
    }

    /// No token of the mask leads farther from the end of the text than so many bytes.
    pub fn to_end_after(&self, state: State) -> u64 {
        if let Some(bound) = self.read().run.states[state.0 as usize].to_end_after {
            return bound;
        }
        let Known { run, masks, .. } = &mut *self.write();
        masks.bytes_to_end_after(run, state.0)
    }

    /// The tokens of an ending of a text at `state` that is known, though there may be one of fewer; `None` where none
    /// is.
    pub fn tokens_to_end(&self, state: State) -> Option<u64> {
        let Known { run, endings, .. } = &mut *self.write();
        endings.tokens_to_end(run, self.trie(), state.0)
    }

    /// Whether the text can be made whole with at most so many tokens; `None` where that is not known: a search has a
    /// budget.
    pub fn ends_within(&self, state: State, tokens: u64) -> Option<bool> {
        let Known { run, endings, .. } = &mut *self.write();
        endings.search(run, self.trie(), state.0, tokens)
    }

    /// Whether it is known without a search that after every token of the mask at most so many make the text whole.
    pub(crate) fn always_ends_within(&self, state: State, tokens: u64) -> bool {
        self.trie().writes_all_bytes() && self.to_end_after(state) <= tokens || {
            let Known { run, masks, endings } = &mut *self.write();
            endings.tokens_to_end_after(run, masks, self.trie(), state.0) <= tokens
        }
    }

    /// Whether it is known without a search that at most so many make a text whole that had `room` for so many.
    pub(crate) fn surely_ends_within(&self, state: State, tokens: u64, room: u64) -> bool {
        let Known { run, endings, .. } = &mut *self.write();
        endings.ends_within(run, self.trie(), state.0, tokens, room)
    }

    /// Adds to `allowed` the tokens after which an ending of at most `tokens` more is known, to a text that had `room`
    /// for so many, which [`Machine::ends_within`] has been asked about. Where one of `tokens + 1` is known for
    /// `state`, there is such a token, or the text is whole.
    pub fn mask_ending_within(&self, state: State, tokens: u64, room: u64, allowed: &mut TokenSet) {
        let Known { run, masks, endings } = &mut *self.write();
        endings.tokens_that_end((run, masks), self.trie(), state.0, tokens, room, allowed);
    }

    /// Fills `tokens` with those of the mask after which at most `bytes` more make the text whole.
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
