//! A machine that runs a grammar over the tokens of a vocabulary.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use verdigris_logits::{TokenId, TokenSet};

use crate::explain::{Expected, describe};
use crate::grammar::{At, Grammar, NO_END, Step};
use crate::json::fresh::Fresh;
use crate::json::names::Names;
use crate::json::quoted::{Content, Quoted};
use crate::piece::{Ends, Exit, Piece};
use crate::terminal::Terminal;
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
    trie: Arc<Trie>,
    run: RwLock<Run>,
    start: State,
}

/// One of the places in a grammar at which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Thread {
    /// A step that reads.
    at: At,
    /// The state of the terminal that it reads with.
    inner: u32,
    /// Where its rule returns to.
    stack: u32,
}

/// A grammar, as far as it is made, and all states so far. Equal ones are one.
struct Run {
    grammar: Grammar,
    /// Return addresses as linked lists: (the rest, the address). The first is the empty one.
    stacks: Vec<(u32, At)>,
    stack_numbers: HashMap<(u32, At), u32>,
    states: Vec<Entry>,
    state_numbers: HashMap<Arc<Spots>, u32>,
    /// The state after each token that has been written.
    steps: HashMap<(u32, TokenId), u32>,
    /// What each thread allows, as far as it is known.
    allowed: HashMap<Thread, Arc<Allowed>>,
    pieces: HashMap<(u32, u32), Arc<Piece>>,
    /// How trees of ends go on from a state: the tokens that do, and the states that they lead to.
    ends: HashMap<(usize, u32), Arc<Reached>>,
    /// Sets of tokens by what they are made of.
    sets: HashMap<Recipe, Arc<TokenSet>>,
    /// The first terminal of each set of names.
    alike: HashMap<(usize, Vec<u32>, bool), u32>,
}

/// What a state is: its threads in order, and whether the text may end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Spots {
    threads: Vec<Thread>,
    accepts: bool,
}

struct Entry {
    spots: Arc<Spots>,
    /// The state after each byte, as far as it is known.
    next: Vec<(u8, u32)>,
    mask: Option<Arc<Mask>>,
    /// The bytes that may come next.
    first: Option<[u64; 4]>,
    /// The fewest bytes to the end of the text, and a bound on it after any token of the mask, where they have been
    /// asked for.
    to_end: Option<u64>,
    to_end_after: Option<u64>,
}

/// The tokens that a thread allows, and the states that those lead to which leave its piece.
#[derive(Debug)]
struct Allowed {
    /// Many tokens, without some and with others; and whether all schemas share the many.
    many: Option<Arc<TokenSet>>,
    is_shared: bool,
    without: Vec<TokenId>,
    with: Vec<TokenId>,
    reached: Vec<u32>,
}

/// Tokens, and states that they lead to.
#[derive(Debug, Default)]
struct Reached(Vec<TokenId>, Vec<u32>);

impl Reached {
    fn push(&mut self, token: TokenId, state: u32) {
        self.0.push(token);
        if self.1.last() != Some(&state) {
            self.1.push(state);
        }
    }
}

/// What a text may do at a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// The tokens that it can go on with.
    pub tokens: Arc<TokenSet>,
    /// Whether it may end.
    pub accepts: bool,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.read();
        write!(f, "Machine {{ {:?}, {} states so far }}", run.grammar, run.states.len())
    }
}

impl Machine {
    /// The machine of a grammar over a vocabulary.
    pub fn new(grammar: Grammar, trie: Arc<Trie>) -> Self {
        let entry = grammar.entries[0];
        let mut run = Run {
            grammar,
            stacks: vec![(0, Grammar::RETURN)],
            stack_numbers: HashMap::new(),
            states: Vec::new(),
            state_numbers: HashMap::new(),
            steps: HashMap::new(),
            allowed: HashMap::new(),
            pieces: HashMap::new(),
            ends: HashMap::new(),
            sets: HashMap::new(),
            alike: HashMap::new(),
        };
        let dead = run.state(Spots::default());
        debug_assert_eq!(dead, DEAD);
        let mut spots = Spots::default();
        run.enter(entry, 0, &mut spots);
        let start = State(run.state(spots));
        Self { trie, run: RwLock::new(run), start }
    }

    // A panic while the lock is held leaves states that are whole: they are added as the last thing.
    fn read(&self) -> RwLockReadGuard<'_, Run> {
        self.run.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Run> {
        self.run.write().unwrap_or_else(PoisonError::into_inner)
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
        if let Some(&next) = self.read().steps.get(&(state.0, token)) {
            return State(next);
        }
        // Control tokens write nothing.
        if bytes.is_empty() {
            return state;
        }
        let mut run = self.write();
        let next = run.next_all(state.0, bytes);
        run.steps.insert((state.0, token), next);
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
        let of = |thread: &Thread| Expected {
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
        self.write().mask(&self.trie, state.0)
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

/// Where a walk stands: inside the piece that it began in, and in other ways to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    /// The state of the terminal of the walk's main thread; [`UNKNOWN`] where it has left it.
    inner: u32,
    /// The state of all other threads.
    rest: u32,
}

/// What a walk from a state goes by: as long as its main thread stays inside its piece, that alone is asked, and no
/// state is made.
#[derive(Debug)]
struct Walker {
    main: Thread,
    terminal: Arc<Terminal>,
    /// Where it begins. There the other threads have what follows the piece, if it is whole.
    start: Spot,
    /// What follows the piece where it may go on too.
    after: u32,
}

/// What a set of tokens is made of: sets by where they are, without some tokens; and tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recipe {
    many: Vec<(usize, Vec<TokenId>)>,
    with: Vec<TokenId>,
}

impl Recipe {
    fn new(parts: &[Arc<Allowed>]) -> Self {
        let of = |part: &Arc<Allowed>| Some((Arc::as_ptr(part.many.as_ref()?).addr(), part.without.clone()));
        let mut many: Vec<(usize, Vec<TokenId>)> = parts.iter().filter_map(of).collect();
        many.sort_unstable();
        many.dedup();
        let mut with: Vec<TokenId> = Vec::with_capacity(parts.iter().map(|part| part.with.len()).sum());
        parts.iter().for_each(|part| with.extend_from_slice(&part.with));
        // Those of one part come in an order that depends on nothing else.
        if parts.len() > 1 {
            with.sort_unstable();
            with.dedup();
        }
        Self { many, with }
    }
}

fn union(vocabulary: usize, parts: &[Arc<Allowed>]) -> TokenSet {
    let mut set = TokenSet::new(vocabulary);
    for Allowed { many, without, .. } in parts.iter().map(|part| &**part) {
        match (many, &without[..]) {
            (Some(many), []) => set.insert_all(many),
            (Some(many), without) => {
                let mut some = TokenSet::clone(many);
                without.iter().for_each(|&token| some.remove(token));
                set.insert_all(&some);
            }
            (None, _) => {}
        }
    }
    parts.iter().flat_map(|part| &part.with).for_each(|&token| set.insert(token));
    set
}

impl Run {
    /// The number of a state.
    fn state(&mut self, mut spots: Spots) -> u32 {
        spots.threads.sort_unstable();
        spots.threads.dedup();
        if let Some(&number) = self.state_numbers.get(&spots) {
            return number;
        }
        let number = self.states.len() as u32;
        let spots = Arc::new(spots);
        let (mask, first, to_end, to_end_after) = (None, None, None, None);
        self.states.push(Entry { spots: spots.clone(), next: Vec::new(), mask, first, to_end, to_end_after });
        self.state_numbers.insert(spots, number);
        number
    }

    fn push(&mut self, stack: u32, address: At) -> u32 {
        *self.stack_numbers.entry((stack, address)).or_insert_with(|| {
            self.stacks.push((stack, address));
            self.stacks.len() as u32 - 1
        })
    }

    fn bytes_to_end(&mut self, state: u32) -> u64 {
        if let Some(to_end) = self.states[state as usize].to_end {
            return to_end;
        }
        let spots = self.states[state as usize].spots.clone();
        let to_end = match spots.accepts {
            true => 0,
            false => spots.threads.iter().map(|&thread| self.thread_to_end(thread)).min().unwrap_or(NO_END),
        };
        self.states[state as usize].to_end = Some(to_end);
        to_end
    }

    /// The fewest bytes to the end of a text by way of one thread.
    fn thread_to_end(&mut self, Thread { at, inner, stack }: Thread) -> u64 {
        let bytes = self.grammar.terminal_at(at).to_end(inner);
        let bytes = match self.grammar.steps[at as usize] {
            Step::Read { next, .. } => bytes.saturating_add(self.grammar.bytes_to_end(next)),
            // What follows a name is counted with it.
            _ => bytes,
        };
        bytes.saturating_add(self.stack_to_end(stack))
    }

    fn stack_to_end(&mut self, mut stack: u32) -> u64 {
        let mut bytes = 0u64;
        while stack != 0 {
            let (rest, at) = self.stacks[stack as usize];
            bytes = bytes.saturating_add(self.grammar.bytes_to_end(at));
            stack = rest;
        }
        bytes
    }

    /// The state after one more byte, if it has been computed.
    fn known(&self, state: u32, byte: u8) -> Option<u32> {
        let known = &self.states[state as usize].next;
        known.iter().find(|(of, _)| *of == byte).map(|&(_, next)| next)
    }

    /// Whether a byte may come next.
    fn may_begin(&mut self, state: u32, byte: u8) -> bool {
        self.first(state)[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    /// The bytes that may come next.
    fn first(&mut self, state: u32) -> [u64; 4] {
        let entry = &mut self.states[state as usize];
        *entry.first.get_or_insert_with(|| {
            let mut first = [0u64; 4];
            for thread in &entry.spots.threads {
                self.grammar.terminal_at(thread.at).first(thread.inner, &mut first);
            }
            first
        })
    }

    /// The state after one more byte.
    fn next(&mut self, state: u32, byte: u8) -> u32 {
        if let Some(known) = self.known(state, byte) {
            return known;
        }
        if !self.may_begin(state, byte) {
            return DEAD;
        }
        let spots = self.states[state as usize].spots.clone();
        let mut after = Spots::default();
        for thread in &spots.threads {
            let terminal = self.grammar.terminal_at(thread.at);
            let Some(inner) = terminal.next(thread.inner, byte) else { continue };
            let (goes_on, accepts) = (terminal.goes_on(inner), terminal.accepts(inner));
            if goes_on {
                after.threads.push(Thread { inner, ..*thread });
            }
            if accepts {
                let next = self.grammar.after(thread.at, inner);
                self.enter(next, thread.stack, &mut after);
            }
        }
        let next = self.state(after);
        self.states[state as usize].next.push((byte, next));
        next
    }

    /// The state after some more bytes; those on the way are not made where nothing ends there.
    fn next_all(&mut self, state: u32, bytes: &[u8]) -> u32 {
        if let [byte] = bytes {
            return self.next(state, *byte);
        }
        let (walker, mut spot) = self.walker(state);
        for &byte in bytes {
            match self.step(&walker, spot, byte) {
                Some(next) => spot = next,
                None => return DEAD,
            }
        }
        self.spot_state(&walker, spot)
    }

    /// The main thread of a state is the one whose piece is longest to walk in.
    fn walker(&mut self, state: u32) -> (Option<Walker>, Spot) {
        let spots = self.states[state as usize].spots.clone();
        let worth = |thread: &&Thread| match &**self.grammar.terminal_at(thread.at) {
            Terminal::Table(automaton) => u64::from(automaton.states() > 2),
            Terminal::Lazy(_) => 1,
            // Its states are made as they are met, so they are asked one by one.
            Terminal::Fresh(_) => 0,
            // Where anything may follow, the others need not be asked.
            terminal => 2 + u64::from(terminal.free(thread.inner).unwrap_or(0)),
        };
        let Some(&main) = spots.threads.iter().max_by_key(worth).filter(|thread| worth(thread) > 0) else {
            return (None, Spot { inner: UNKNOWN, rest: state });
        };
        let threads = spots.threads.iter().filter(|&&thread| thread != main).copied().collect();
        let rest = self.state(Spots { threads, accepts: false });
        let terminal = self.grammar.terminal_at(main.at).clone();
        let after = match (&*terminal, &self.grammar.steps[main.at as usize]) {
            (Terminal::Table(_) | Terminal::Lazy(_), &Step::Read { next, .. }) => {
                self.join(DEAD, |run, spots| run.enter(next, main.stack, spots))
            }
            _ => DEAD,
        };
        let start = Spot { inner: main.inner, rest };
        (Some(Walker { main, terminal, start, after }), start)
    }

    /// Where a walk stands after one more byte; `None` if no text goes on so.
    #[inline]
    fn step(&mut self, walker: &Option<Walker>, spot: Spot, byte: u8) -> Option<Spot> {
        let Some(Walker { main, terminal, start, after: left }) = walker else {
            return self.outside(spot.rest, byte);
        };
        if spot.inner == UNKNOWN {
            return self.outside(spot.rest, byte);
        }
        let next = terminal.next(spot.inner, byte);
        let leaves = terminal.accepts(spot.inner) && spot != *start;
        if spot.rest == DEAD && !leaves {
            let next = next?;
            if terminal.goes_on(next) {
                return Some(Spot { inner: next, rest: DEAD });
            }
        }
        let mut after = Spot { inner: UNKNOWN, rest: DEAD };
        if spot.rest != DEAD {
            after.rest = self.next(spot.rest, byte);
        }
        match next {
            Some(next) if terminal.goes_on(next) => after.inner = next,
            // What follows it follows at once.
            Some(next) => after.rest = self.join(after.rest, |run, spots| run.leave(*main, next, spots)),
            None => {}
        }
        if leaves {
            let left = self.next(*left, byte);
            after.rest = self.union(after.rest, left);
        }
        (after != Spot { inner: UNKNOWN, rest: DEAD }).then_some(after)
    }

    fn outside(&mut self, rest: u32, byte: u8) -> Option<Spot> {
        let rest = self.next(rest, byte);
        (rest != DEAD).then_some(Spot { inner: UNKNOWN, rest })
    }

    /// Adds what follows the main thread's piece, which is whole in `inner`.
    fn leave(&mut self, main: Thread, inner: u32, spots: &mut Spots) {
        let next = self.grammar.after(main.at, inner);
        self.enter(next, main.stack, spots);
    }

    /// A state with more threads.
    fn join(&mut self, state: u32, add: impl FnOnce(&mut Self, &mut Spots)) -> u32 {
        let mut spots = Spots::clone(&self.states[state as usize].spots);
        add(self, &mut spots);
        self.state(spots)
    }

    fn union(&mut self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (DEAD, other) | (other, DEAD) => other,
            (a, b) if a == b => a,
            (a, b) => {
                let more = self.states[b as usize].spots.clone();
                self.join(a, |_, spots| {
                    spots.threads.extend_from_slice(&more.threads);
                    spots.accepts |= more.accepts;
                })
            }
        }
    }

    /// The state of a walk's spot.
    fn spot_state(&mut self, walker: &Option<Walker>, spot: Spot) -> u32 {
        let Some(Walker { main, terminal, .. }) = walker.as_ref().filter(|_| spot.inner != UNKNOWN) else {
            return spot.rest;
        };
        self.join(spot.rest, |run, spots| {
            spots.threads.push(Thread { inner: spot.inner, ..*main });
            if terminal.accepts(spot.inner) {
                run.leave(*main, spot.inner, spots);
            }
        })
    }

    fn spot_to_end(&mut self, walker: &Option<Walker>, spot: Spot) -> u64 {
        let state = self.spot_state(walker, spot);
        self.bytes_to_end(state)
    }

    /// The mask of a state is what each of its threads allows.
    fn mask(&mut self, trie: &Trie, state: u32) -> Arc<Mask> {
        if let Some(mask) = &self.states[state as usize].mask {
            return mask.clone();
        }
        let spots = self.states[state as usize].spots.clone();
        let mut parts: Vec<Arc<Allowed>> = Vec::with_capacity(spots.threads.len());
        parts.extend(spots.threads.iter().map(|&thread| self.allowed(trie, thread)));
        let mask = Arc::new(Mask { tokens: self.tokens(trie, &parts), accepts: spots.accepts });
        self.states[state as usize].mask.insert(mask).clone()
    }

    /// The tokens that some parts allow. Sets repeat, within a schema and from one to another, so equal ones are one.
    fn tokens(&mut self, trie: &Trie, parts: &[Arc<Allowed>]) -> Arc<TokenSet> {
        if let [part] = parts
            && let (Some(many), [], []) = (&part.many, &part.without[..], &part.with[..])
        {
            return many.clone();
        }
        let recipe = Recipe::new(parts);
        if let Some(known) = self.sets.get(&recipe) {
            return known.clone();
        }
        let is_shared = parts.iter().all(|part| part.is_shared);
        let set = match is_shared.then(|| trie.known_set(&recipe)).flatten() {
            Some(set) => set,
            None => {
                let set = Arc::new(union(trie.vocabulary_size(), parts));
                if is_shared {
                    trie.keep_set(recipe.clone(), &set);
                }
                set
            }
        };
        self.sets.insert(recipe, set.clone());
        set
    }

    /// The tokens that a thread allows: those that stay in its piece, and those that leave it and go on outside.
    fn allowed(&mut self, trie: &Trie, thread: Thread) -> Arc<Allowed> {
        if let Some(allowed) = self.allowed.get(&thread) {
            return allowed.clone();
        }
        let terminal = self.grammar.terminal_at(thread.at).clone();
        if let Terminal::Fresh(fresh) = &*terminal {
            let allowed = Arc::new(self.fresh(trie, thread, fresh));
            self.allowed.insert(thread, allowed.clone());
            return allowed;
        }
        let free = terminal.free_key(thread.inner, trie.reach());
        let piece = match free {
            Some(free) => trie.free(free),
            None => self.piece(trie, thread, &terminal),
        };
        let (many, with) = (piece.many.clone(), piece.few.clone());
        let is_shared = piece.is_shared;
        let mut allowed = Allowed { many, is_shared, with, without: Vec::new(), reached: Vec::new() };
        for Exit { inner, ends } in &piece.exits {
            // What all strings share tells no names apart.
            let inner = match &*terminal {
                Terminal::Names(names) if free.is_some() => names.closed(names.content.other()),
                _ => *inner,
            };
            let outside = self.join(DEAD, |run, spots| run.leave(thread, inner, spots));
            self.go_on_by(trie, ends, outside, &mut allowed);
        }
        if let (Terminal::Names(names), Some(_)) = (&*terminal, free) {
            self.known_names(trie, thread, names, &mut allowed);
        }
        allowed.reached.sort_unstable();
        allowed.reached.dedup();
        let allowed = Arc::new(allowed);
        self.allowed.insert(thread, allowed.clone());
        allowed
    }

    /// Adds the tokens that have left a piece and go on outside.
    fn go_on_by(&mut self, trie: &Trie, ends: &Ends, outside: u32, allowed: &mut Allowed) {
        if self.states[outside as usize].spots.threads.is_empty() {
            return;
        }
        let walked = |run: &mut Self| {
            let mut reached = Reached::default();
            let found = |token, state| reached.push(token, state);
            match ends {
                Ends::Tree(tree) => tree.walk(outside, run.outside_step(), found),
                Ends::Below { nodes, of_rest } => {
                    let tree = if *of_rest { trie.rest() } else { trie.all() };
                    tree.walk_below(nodes.iter().copied(), outside, run.outside_step(), found);
                }
            }
            Arc::new(reached)
        };
        let reached = match ends {
            // All schemas have the same trees.
            Ends::Tree(tree) => {
                let key = (Arc::as_ptr(tree).addr(), outside);
                match self.ends.get(&key) {
                    Some(known) => known.clone(),
                    None => {
                        let reached = walked(self);
                        self.ends.insert(key, reached.clone());
                        reached
                    }
                }
            }
            Ends::Below { .. } => walked(self),
        };
        allowed.with.extend_from_slice(&reached.0);
        allowed.reached.extend_from_slice(&reached.1);
    }

    fn outside_step(&mut self) -> impl FnMut(u32, u8, u32) -> Option<u32> + use<'_> {
        |state, byte, _| Some(self.next(state, byte)).filter(|&next| next != DEAD)
    }

    /// Corrects what is allowed where any name may come: after a name of the schema comes what belongs to it, or it may
    /// not come at all.
    fn known_names(&mut self, trie: &Trie, thread: Thread, names: &Quoted<Names>, allowed: &mut Allowed) {
        let mut ends = Vec::new();
        let step = |inner: u32, byte: u8, node: u32| {
            let content = names.content_state(inner);
            let (begins, is_whole) = names.content.known(content);
            if is_whole && byte == b'"' && names.is_open(inner) == Some(false) {
                ends.push((node, content));
                return None;
            }
            // What has left the names of the schema does not come back to them.
            let next = begins.then(|| names.next(inner, byte)).flatten();
            next.filter(|&next| names.content.known(names.content_state(next)).0)
        };
        trie.all().walk(thread.inner, step, |_, _| ());
        let ended = ends.iter().flat_map(|&(node, _)| trie.all().tokens_below(node));
        allowed.without = ended.copied().collect();
        allowed.without.sort_unstable();
        allowed.with.retain(|token| allowed.without.binary_search(token).is_err());
        for (node, content) in ends {
            if names.content.accepts(content) {
                allowed.with.extend(trie.all().tokens_at(node));
                let outside = self.join(DEAD, |run, spots| run.leave(thread, names.closed(content), spots));
                let ends = Ends::Below { nodes: vec![node], of_rest: false };
                self.go_on_by(trie, &ends, outside, allowed);
            }
        }
    }

    /// The tokens that a thread in an item allows that has not come yet: those of any item, but for what would write one that
    /// has come. A token that ends two items is left out; shorter ones write them too.
    fn fresh(&mut self, trie: &Trie, thread: Thread, fresh: &Fresh) -> Allowed {
        let base = fresh.base_state(thread.inner);
        let piece = match fresh.terminal.free_key(base, trie.reach()) {
            Some(free) => trie.free(free),
            None => self.piece_of(trie, fresh.base, base, &fresh.terminal),
        };
        let (many, with) = (piece.many.clone(), piece.few.clone());
        let is_shared = false;
        let mut allowed = Allowed { many, is_shared, with, without: Vec::new(), reached: Vec::new() };
        let Step::Name { place, .. } = self.grammar.steps[thread.at as usize] else {
            unreachable!("items that are different stand at such steps")
        };
        let next = self.grammar.after_unknown_item(place);
        let outside = self.join(DEAD, |run, spots| run.enter(next, thread.stack, spots));
        for Exit { ends, .. } in &piece.exits {
            self.go_on_by(trie, ends, outside, &mut allowed);
        }
        // Along what has come, token by token as the machine itself goes.
        let text = fresh.text(thread.inner);
        let start = self.join(DEAD, |_, spots| spots.threads.push(thread));
        let (mut wrong, mut right) = (Vec::new(), Vec::new());
        for rest in fresh.after(&text) {
            let along = |depth: usize, byte, _| (rest.get(depth) == Some(&byte)).then_some(depth + 1);
            let mut whole = None;
            let step = |depth, byte, node| {
                let next = along(depth, byte, node)?;
                if next == rest.len() {
                    whole = Some(node);
                }
                Some(next)
            };
            trie.all().walk(0, step, |token, depth| wrong.push((token, rest[..depth].to_vec())));
            for (token, written) in std::mem::take(&mut wrong) {
                allowed.without.push(token);
                if self.next_all(start, &written) != DEAD {
                    right.push(token);
                }
            }
            if let Some(node) = whole {
                allowed.without.extend(trie.all().tokens_below(node));
                let after = self.next_all(start, rest);
                if after != DEAD {
                    let step = |state, byte, _| Some(self.next(state, byte)).filter(|&next| next != DEAD);
                    trie.all().walk_below([node], after, step, |token, state| {
                        right.push(token);
                        allowed.reached.push(state);
                    });
                }
            }
        }
        allowed.without.sort_unstable();
        allowed.with.retain(|token| allowed.without.binary_search(token).is_err());
        allowed.with.append(&mut right);
        allowed.reached.sort_unstable();
        allowed.reached.dedup();
        allowed
    }

    /// What the vocabulary does inside a thread's piece.
    fn piece(&mut self, trie: &Trie, thread: Thread, terminal: &Terminal) -> Arc<Piece> {
        let number = match (&self.grammar.steps[thread.at as usize], terminal) {
            // Different places in an object may allow the same names.
            (&Step::Name { terminal: number, .. }, Terminal::Names(names)) => {
                *self.alike.entry(names.content.identity()).or_insert(number)
            }
            (&Step::Read { terminal: number, .. }, _) => number,
            _ => unreachable!("threads stand at steps that read"),
        };
        self.piece_of(trie, number, thread.inner, terminal)
    }

    fn piece_of(&mut self, trie: &Trie, number: u32, inner: u32, terminal: &Terminal) -> Arc<Piece> {
        let inner = terminal.alike(inner, trie.reach());
        let piece = self.pieces.entry((number, inner));
        piece.or_insert_with(|| Arc::new(Piece::new(trie, terminal, inner))).clone()
    }

    fn bytes_to_end_after(&mut self, trie: &Trie, state: u32) -> u64 {
        let spots = self.states[state as usize].spots.clone();
        let mut bound = 0;
        for &thread in &spots.threads {
            // As long as it stays in its piece.
            let terminal = self.grammar.terminal_at(thread.at).clone();
            let outside = self.thread_to_end(thread).saturating_sub(terminal.to_end(thread.inner));
            bound = bound.max(outside.saturating_add(terminal.farthest()));
            let allowed = self.allowed(trie, thread);
            bound = allowed.reached.iter().map(|&state| self.bytes_to_end(state)).max().unwrap_or(0).max(bound);
        }
        self.states[state as usize].to_end_after = Some(bound);
        bound
    }

    /// Adds the threads of all the ways from a step to one that reads.
    fn enter(&mut self, at: At, stack: u32, spots: &mut Spots) {
        let (mut open, mut seen) = (vec![(at, stack)], HashSet::new());
        while let Some((at, stack)) = open.pop() {
            self.grammar.open(at);
            match &self.grammar.steps[at as usize] {
                Step::Read { next, .. } => {
                    let next = *next;
                    let terminal = self.grammar.terminal_at(at);
                    let inner = terminal.start();
                    let accepts = terminal.accepts(inner);
                    spots.threads.push(Thread { at, inner, stack });
                    if accepts {
                        open.push((next, stack));
                    }
                }
                Step::Name { terminal, .. } => {
                    let inner = self.grammar.terminals[*terminal as usize].start();
                    spots.threads.push(Thread { at, inner, stack });
                }
                // A rule whose caller would only return, returns to the caller's caller.
                Step::Call { rule, next } if *next == Grammar::RETURN => {
                    open.push((self.grammar.entries[*rule as usize], stack));
                }
                Step::Call { rule, next } => {
                    let (entry, next) = (self.grammar.entries[*rule as usize], *next);
                    let stack = self.push(stack, next);
                    open.push((entry, stack));
                }
                // Many ways can lead to one fork.
                Step::Fork(ways) => {
                    if seen.insert((at, stack)) {
                        open.extend(ways.iter().map(|&way| (way, stack)));
                    }
                }
                Step::Return if stack == 0 => spots.accepts = true,
                Step::Return => {
                    let (rest, address) = self.stacks[stack as usize];
                    open.push((address, rest));
                }
                Step::Place(_) => unreachable!("it has been opened"),
            }
        }
    }
}
