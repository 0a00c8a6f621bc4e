//! A machine that runs a grammar over the tokens of a vocabulary.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use verdigris_logits::{TokenId, TokenSet};

use crate::automaton::Automaton;
use crate::grammar::{At, Builder, Grammar, Step};
use crate::trie::Trie;

/// Where a text stands in a grammar. Two texts at one state can go on in the same ways.
///
/// A state is a number of its machine: copies and forks cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State(u32);

/// A number that is no state: what follows has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// The state of a text that cannot become one of the grammar's.
const DEAD: u32 = 0;

/// A grammar over a vocabulary: which tokens a text may go on with.
///
/// States are made when a text first comes to them, and kept with what follows each byte and with their mask;
/// all texts of one machine share them.
pub struct Machine {
    grammar: Grammar,
    trie: Arc<Trie>,
    arena: RwLock<Arena>,
    start: State,
}

/// One of the places in a grammar at which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Thread {
    /// A step that reads.
    at: At,
    /// The state of the automaton that it reads with.
    inner: u32,
    /// Where its rule returns to.
    stack: u32,
}

/// All states so far. Equal ones are one.
#[derive(Default)]
struct Arena {
    /// Return addresses as linked lists: (the rest, the address). The first is the empty one.
    stacks: Vec<(u32, At)>,
    stack_numbers: HashMap<(u32, At), u32>,
    states: Vec<Entry>,
    state_numbers: HashMap<Places, u32>,
}

/// What a state is: its threads in order, and whether the text may end.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Places {
    threads: Box<[Thread]>,
    accepts: bool,
}

struct Entry {
    places: Places,
    /// The state after each byte, as far as it is known.
    next: Option<Box<[u32; 256]>>,
    mask: Option<Arc<Mask>>,
    /// The fewest bytes to the end of the text; `None` for the dead state.
    to_end: Option<u64>,
}

/// What a text may do at a state.
#[derive(Clone, Debug)]
pub struct Mask {
    /// The tokens that it can go on with.
    pub tokens: TokenSet,
    /// Whether it may end.
    pub accepts: bool,
    /// The fewest bytes that make it whole.
    pub to_end: u64,
    /// The fewest bytes that make it whole after the token of `tokens` for which they are most.
    pub to_end_after: u64,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine {{ {:?}, {} states so far }}", self.grammar, self.read().states.len())
    }
}

impl Machine {
    /// The machine of a grammar over a vocabulary.
    pub fn new(grammar: Grammar, trie: Arc<Trie>) -> Self {
        let mut arena = Arena { stacks: vec![(0, Builder::RETURN)], ..Arena::default() };
        let dead = arena.state(&grammar, Vec::new(), false);
        debug_assert_eq!(dead, DEAD);
        let (mut threads, mut accepts) = (Vec::new(), false);
        arena.enter(&grammar, grammar.entries[0], 0, &mut threads, &mut accepts);
        let start = State(arena.state(&grammar, threads, accepts));
        Self { grammar, trie, arena: RwLock::new(arena), start }
    }

    // A panic while the lock is held leaves an arena that is whole: states are added as the last thing.
    fn read(&self) -> RwLockReadGuard<'_, Arena> {
        self.arena.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Arena> {
        self.arena.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state before any text.
    pub fn start(&self) -> State {
        self.start
    }

    /// The state after some more bytes; a dead one if no text of the grammar goes on so.
    pub fn next(&self, state: State, bytes: &[u8]) -> State {
        let (mut state, mut read) = (state.0, 0);
        {
            let arena = self.read();
            while let Some(&byte) = bytes.get(read)
                && let Some(next) = arena.known(state, byte)
            {
                (state, read) = (next, read + 1);
            }
        }
        if read < bytes.len() {
            let mut arena = self.write();
            state = bytes[read..].iter().fold(state, |state, &byte| arena.next(&self.grammar, state, byte));
        }
        State(state)
    }

    /// Whether the text so far is one of the grammar's.
    pub fn accepts(&self, State(state): State) -> bool {
        self.read().states[state as usize].places.accepts
    }

    /// The fewest bytes that make the text so far one of the grammar's; `None` if nothing does, or nothing
    /// shorter than 4 GiB.
    pub fn completion(&self, State(mut state): State) -> Option<Vec<u8>> {
        let mut arena = self.write();
        let mut left = arena.states[state as usize].to_end.filter(|bytes| bytes >> 32 == 0)?;
        let mut bytes = Vec::new();
        while left > 0 {
            // Some byte leads one nearer to the end.
            let mut nearer = None;
            for byte in 0..=255 {
                let next = arena.next(&self.grammar, state, byte);
                if arena.states[next as usize].to_end == Some(left - 1) {
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

    /// Whether the text so far can become one of the grammar's, or is one.
    pub fn goes_on(&self, State(state): State) -> bool {
        state != DEAD
    }

    /// What a text at `state` can go on with.
    pub fn mask(&self, state: State) -> Arc<Mask> {
        if let Some(mask) = &self.read().states[state.0 as usize].mask {
            return mask.clone();
        }
        let mut tokens = TokenSet::new(self.trie.vocabulary_size());
        let mut to_end_after = 0;
        let mut arena = self.write();
        self.walk(&mut arena, state, |token, to_end| {
            tokens.insert(token);
            to_end_after = to_end_after.max(to_end);
        });
        let Entry { places: Places { accepts, .. }, to_end, mask, .. } = &mut arena.states[state.0 as usize];
        let new = Mask { tokens, accepts: *accepts, to_end: to_end.unwrap_or(u64::MAX), to_end_after };
        mask.insert(Arc::new(new)).clone()
    }

    /// Fills `tokens` with those of the mask after which at most `bytes` more make the text whole.
    pub fn mask_within(&self, state: State, bytes: u64, tokens: &mut TokenSet) {
        self.walk(&mut self.write(), state, |token, to_end| {
            if to_end <= bytes {
                tokens.insert(token);
            }
        });
    }

    /// Hands over each token that a text at `state` can go on with, and the fewest bytes to the end after it.
    fn walk(&self, arena: &mut Arena, State(state): State, mut found: impl FnMut(TokenId, u64)) {
        let alone = match &arena.states[state as usize].places {
            Places { threads, accepts: false } if threads.len() == 1 => {
                Some(Alone::new(&self.grammar, arena, threads[0]))
            }
            _ => None,
        };
        let start = alone.as_ref().map_or(Place::State(state), |alone| Place::Inside(alone.thread.inner));
        self.trie.walk(
            (start, u64::MAX),
            |(place, _), byte| {
                let state = match (place, &alone) {
                    (Place::Inside(inner), Some(alone)) => {
                        let next = alone.automaton.next(inner, byte)?;
                        if !alone.automaton.accepts(next) {
                            return Some((Place::Inside(next), alone.to_end(next)));
                        }
                        // What comes after it may go on too.
                        arena.state(&self.grammar, vec![Thread { inner, ..alone.thread }], false)
                    }
                    (Place::Inside(_), None) => unreachable!("only a thread that is alone is inside"),
                    (Place::State(state), _) => state,
                };
                let next = arena.next(&self.grammar, state, byte);
                // A dead state has no way to the end.
                arena.states[next as usize].to_end.map(|to_end| (Place::State(next), to_end))
            },
            |token, (_, to_end)| found(token, to_end),
        );
    }
}

/// Where a walk stands: as long as the only thread stays inside its automaton, that alone is asked, and no
/// state is made.
#[derive(Clone, Copy)]
enum Place {
    Inside(u32),
    State(u32),
}

/// The only thread of a state, with its automaton and the fewest bytes that follow it.
struct Alone<'a> {
    thread: Thread,
    automaton: &'a Automaton,
    after: u64,
}

impl<'a> Alone<'a> {
    fn new(grammar: &'a Grammar, arena: &Arena, thread: Thread) -> Self {
        let (automaton, _) = grammar.read_at(thread.at);
        let to_end = arena.to_end_of(grammar, thread);
        Self { thread, automaton, after: to_end - u64::from(automaton.to_end(thread.inner)) }
    }

    fn to_end(&self, inner: u32) -> u64 {
        self.after.saturating_add(self.automaton.to_end(inner).into())
    }
}

impl Arena {
    /// The number of a state.
    fn state(&mut self, grammar: &Grammar, mut threads: Vec<Thread>, accepts: bool) -> u32 {
        threads.sort_unstable();
        threads.dedup();
        let places = Places { threads: threads.into(), accepts };
        if let Some(&number) = self.state_numbers.get(&places) {
            return number;
        }
        let number = self.states.len() as u32;
        let to_end = self.to_end(grammar, &places);
        self.states.push(Entry { places: places.clone(), next: None, mask: None, to_end });
        self.state_numbers.insert(places, number);
        number
    }

    fn push(&mut self, stack: u32, address: At) -> u32 {
        *self.stack_numbers.entry((stack, address)).or_insert_with(|| {
            self.stacks.push((stack, address));
            self.stacks.len() as u32 - 1
        })
    }

    /// The fewest bytes to the end of a text that stands at these places.
    fn to_end(&self, grammar: &Grammar, Places { threads, accepts }: &Places) -> Option<u64> {
        if *accepts { Some(0) } else { threads.iter().map(|&thread| self.to_end_of(grammar, thread)).min() }
    }

    /// The fewest bytes to the end of a text by way of one thread.
    fn to_end_of(&self, grammar: &Grammar, Thread { at, inner, stack }: Thread) -> u64 {
        let (automaton, next) = grammar.read_at(at);
        let mut bytes = u64::from(automaton.to_end(inner));
        let (mut at, mut stack) = (next, stack);
        loop {
            bytes = bytes.saturating_add(grammar.to_end[at as usize]);
            if stack == 0 {
                return bytes;
            }
            (stack, at) = self.stacks[stack as usize];
        }
    }

    /// The state after one more byte, if it has been computed.
    fn known(&self, state: u32, byte: u8) -> Option<u32> {
        let next = self.states[state as usize].next.as_ref()?[usize::from(byte)];
        (next != UNKNOWN).then_some(next)
    }

    /// The state after one more byte.
    fn next(&mut self, grammar: &Grammar, state: u32, byte: u8) -> u32 {
        if let Some(known) = self.known(state, byte) {
            return known;
        }
        let (mut threads, mut accepts) = (Vec::new(), false);
        for i in 0..self.states[state as usize].places.threads.len() {
            let thread = self.states[state as usize].places.threads[i];
            let (automaton, next) = grammar.read_at(thread.at);
            let Some(inner) = automaton.next(thread.inner, byte) else { continue };
            if automaton.goes_on(inner) {
                threads.push(Thread { inner, ..thread });
            }
            if automaton.accepts(inner) {
                self.enter(grammar, next, thread.stack, &mut threads, &mut accepts);
            }
        }
        let next = self.state(grammar, threads, accepts);
        let row = self.states[state as usize].next.get_or_insert_with(|| Box::new([UNKNOWN; 256]));
        row[usize::from(byte)] = next;
        next
    }

    /// Adds the threads of all the ways from a step to one that reads.
    fn enter(&mut self, grammar: &Grammar, at: At, stack: u32, threads: &mut Vec<Thread>, accepts: &mut bool) {
        let (mut open, mut seen) = (vec![(at, stack)], HashSet::new());
        while let Some((at, stack)) = open.pop() {
            match &grammar.steps[at as usize] {
                Step::Read { automaton, next } => {
                    let automaton = &grammar.automata[*automaton as usize];
                    threads.push(Thread { at, inner: Automaton::START, stack });
                    if automaton.accepts(Automaton::START) {
                        open.push((*next, stack));
                    }
                }
                // A rule whose caller would only return, returns to the caller's caller.
                Step::Call { rule, next } if *next == Builder::RETURN => {
                    open.push((grammar.entries[*rule as usize], stack));
                }
                Step::Call { rule, next } => {
                    let stack = self.push(stack, *next);
                    open.push((grammar.entries[*rule as usize], stack));
                }
                // Many ways can lead to one fork.
                Step::Fork(ways) => {
                    if seen.insert((at, stack)) {
                        open.extend(ways.iter().map(|&way| (way, stack)));
                    }
                }
                Step::Return if stack == 0 => *accepts = true,
                Step::Return => {
                    let (rest, address) = self.stacks[stack as usize];
                    open.push((address, rest));
                }
            }
        }
    }
}
