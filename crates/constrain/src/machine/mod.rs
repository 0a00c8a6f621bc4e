//! A machine that runs a grammar over the tokens of a vocabulary.

mod allowed;
mod endings;
pub(crate) mod piece;
mod run;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use verdigris_logits::{TokenId, TokenSet};

use crate::constraint::explain::{Expected, describe};
use crate::grammar::Grammar;
use crate::vocabulary::trie::Trie;

pub(crate) use allowed::Recipe;
use run::{DEAD, Run};

/// How many bytes masks may take where nothing else is said: those of 2,000 schemas of other people take at most 48.9 MB.
pub(crate) const MEMORY: usize = 64 << 20;

/// Where a text stands in a grammar. Two texts at one state can go on in the same ways.
///
/// A state is a number of its machine: copies and forks cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(u32);

/// A grammar over a vocabulary: which tokens a text may go on with.
///
/// States are made when a text first comes to them, and kept with what follows each byte and with their mask;
/// all texts of one machine share them. They stay valid as long as the machine is there, so a machine only grows, but for its
/// masks: [`Machine::states_memory`] says how far, and a [`crate::Constraint`] begins another one when it is too much.
///
/// # Threads
/// A machine may be used by any number of threads. One lock guards all that it knows: what is known (a mask, the state after a
/// token) is read side by side, and what is met for the first time is worked out by one thread while the others wait.
/// [`Machine::completion`], [`Machine::tokens_to_end`], [`Machine::ends_within`], [`Machine::mask_within`] and
/// [`Machine::mask_ending_within`] always take it for themselves.
pub struct Machine {
    trie: Arc<Trie>,
    run: RwLock<Run>,
    start: State,
    memory: usize,
}

/// What a text may do at a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The tokens that it can go on with.
    pub tokens: Arc<TokenSet>,
    /// Whether it may end.
    pub accepts: bool,
}

/// What may come next takes too much work to find out: a mask would be a second's work, or take 64 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuchWork {
    /// Where in the schema that is; empty for a regular expression.
    pub path: String,
}

impl fmt::Display for TooMuchWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what may come next takes too much work to find out")?;
        match &*self.path {
            "" => f.write_str(": make the regular expression simpler, with fewer repetitions inside each other"),
            path => write!(f, " at {path}: make the pattern there simpler"),
        }
    }
}

impl std::error::Error for TooMuchWork {}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.read();
        write!(f, "Machine {{ {:?}, {} states so far }}", run.grammar, run.states.len())
    }
}

impl Machine {
    /// The machine of a grammar over a vocabulary.
    pub fn new(grammar: Grammar, trie: Arc<Trie>) -> Self {
        Self::with_memory(grammar, trie, MEMORY)
    }

    /// As [`Machine::new`], where masks and what they are made of take up to about so many bytes (64 MiB else). Where they
    /// take more they are forgotten, and made again when texts come to them. States are not counted: they stay.
    pub fn with_memory(grammar: Grammar, trie: Arc<Trie>, bytes: usize) -> Self {
        let (run, start) = Run::new(grammar);
        Self { trie, run: RwLock::new(run), start: State(start), memory: bytes }
    }

    // A panic while the lock is held leaves states that are whole: they are added as the last thing.
    fn read(&self) -> RwLockReadGuard<'_, Run> {
        self.run.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Run> {
        self.run.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The vocabulary.
    pub fn trie(&self) -> &Arc<Trie> {
        &self.trie
    }

    /// The state before any text.
    pub fn start(&self) -> State {
        self.start
    }

    /// The state after some more bytes; a dead one if no text of the grammar goes on so.
    pub fn next(&self, state: State, bytes: &[u8]) -> State {
        let (mut state, mut read) = (state.0, 0);
        {
            let run = self.read();
            while let Some(&byte) = bytes.get(read)
                && let Some(next) = run.known(state, byte)
            {
                (state, read) = (next, read + 1);
            }
        }
        if read < bytes.len() {
            state = self.write().next_all(state, &bytes[read..]);
        }
        State(state)
    }

    /// The state after a token that writes these bytes: as [`Machine::next`], and remembered.
    pub fn advance(&self, state: State, token: TokenId, bytes: &[u8]) -> State {
        if let Some(next) = self.read().memo.step(state.0, token) {
            return State(next);
        }
        // Control tokens write nothing.
        if bytes.is_empty() {
            return state;
        }
        let mut run = self.write();
        let next = run.next_all(state.0, bytes);
        run.memo.keep_step(state.0, token, next);
        State(next)
    }

    /// Whether the text so far is one of the grammar's.
    pub fn accepts(&self, State(state): State) -> bool {
        self.read().states[state as usize].spots.accepts
    }

    /// The fewest bytes that make the text so far one of the grammar's; `None` if nothing does, or nothing
    /// shorter than 4 GiB.
    pub fn completion(&self, State(mut state): State) -> Option<Vec<u8>> {
        let mut run = self.write();
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
        let mut run = self.write();
        let mut bytes = Vec::new();
        while bytes.len() < most && !run.states[state as usize].spots.accepts {
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

    /// Whether a token is allowed that begins so and is longer.
    pub(crate) fn allows_longer(&self, state: State, begins: &[u8]) -> bool {
        let Some(node) = self.trie.all().node(begins) else { return false };
        let (at, below) = (self.trie.all().tokens_at(node).len(), self.trie.all().tokens_below(node));
        let longer = &below[at..];
        !longer.is_empty() && {
            let mask = self.mask(state);
            longer.iter().any(|&token| mask.tokens.contains(token))
        }
    }

    /// What may come next, with where in a schema it is asked for.
    pub(crate) fn expected(&self, State(state): State) -> Vec<Expected> {
        let run = self.read();
        let of = |thread: &run::Thread| Expected {
            path: run.grammar.paths[run.grammar.origins[thread.at as usize] as usize].to_string(),
            next: describe(run.grammar.terminal_at(thread.at), thread.inner),
        };
        run.states[state as usize].spots.threads.iter().map(of).filter(|expected| !expected.next.is_empty()).collect()
    }

    /// Whether the text so far can become one of the grammar's, or is one.
    pub fn goes_on(&self, State(state): State) -> bool {
        state != DEAD
    }

    /// What a text at `state` can go on with.
    pub fn mask(&self, state: State) -> Arc<Mask> {
        if let Some(mask) = &self.read().states[state.0 as usize].mask {
            return mask.clone();
        }
        let mut run = self.write();
        if run.memo.bytes() > self.memory {
            run.forget();
        }
        run.mask(&self.trie, state.0)
    }

    /// Why a mask was empty, where it would have been too much work. Then so are all that are not known yet.
    pub fn fault(&self) -> Option<TooMuchWork> {
        self.read().fault.clone()
    }

    /// About how many bytes the masks take that are kept, and what they are made of.
    pub fn memory(&self) -> usize {
        self.read().memo.bytes()
    }

    /// About how many bytes the states take that texts have come to, with the places in objects and arrays.
    pub fn states_memory(&self) -> usize {
        self.read().bytes()
    }

    /// The fewest bytes to the end of a text at `state`; `u64::MAX` where there is none.
    pub fn to_end(&self, State(state): State) -> u64 {
        if let Some(to_end) = self.read().states[state as usize].to_end {
            return to_end;
        }
        self.write().bytes_to_end(state)
    }

    /// No token of the mask leads farther from the end of the text than so many bytes.
    pub fn to_end_after(&self, state: State) -> u64 {
        if let Some(bound) = self.read().states[state.0 as usize].to_end_after {
            return bound;
        }
        self.write().bytes_to_end_after(&self.trie, state.0)
    }

    /// The tokens of an ending of a text at `state` that is known, though there may be one of fewer; `None` where none is.
    pub fn tokens_to_end(&self, state: State) -> Option<u64> {
        self.write().tokens_to_end(&self.trie, state.0)
    }

    /// Whether the text can be made whole with at most so many tokens; `None` where that is not known: a search has a budget.
    pub fn ends_within(&self, state: State, tokens: u64) -> Option<bool> {
        self.write().search(&self.trie, state.0, tokens)
    }

    /// Whether it is known without a search that after every token of the mask at most so many make the text whole.
    pub(crate) fn always_ends_within(&self, state: State, tokens: u64) -> bool {
        self.trie.writes_all_bytes() && self.to_end_after(state) <= tokens
            || self.write().tokens_to_end_after(&self.trie, state.0) <= tokens
    }

    /// Whether it is known without a search that at most so many make a text whole that had `room` for so many.
    pub(crate) fn surely_ends_within(&self, state: State, tokens: u64, room: u64) -> bool {
        self.write().ends_within(&self.trie, state.0, tokens, room)
    }

    /// Adds to `allowed` the tokens after which an ending of at most `tokens` more is known, to a text that had `room` for so
    /// many, which [`Machine::ends_within`] has been asked about. Where one of `tokens + 1` is known for `state`, there is such
    /// a token, or the text is whole.
    pub fn mask_ending_within(&self, state: State, tokens: u64, room: u64, allowed: &mut TokenSet) {
        self.write().tokens_that_end(&self.trie, state.0, tokens, room, allowed);
    }

    /// Fills `tokens` with those of the mask after which at most `bytes` more make the text whole.
    pub fn mask_within(&self, state: State, bytes: u64, tokens: &mut TokenSet) {
        let mut run = self.write();
        let (walker, start) = run.walker(state.0);
        let mut found = Vec::new();
        let step = |spot, byte, _| run.step(&walker, spot, byte);
        self.trie.all().walk(start, step, |token, spot| found.push((token, spot)));
        for (token, spot) in found {
            if run.spot_to_end(&walker, spot) <= bytes {
                tokens.insert(token);
            }
        }
    }
}
