//! The states of a machine, as texts come to them.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::allowed::Memo;
use super::endings::Endings;
use super::{Mask, TooMuchWork};
use crate::grammar::{At, Grammar, NO_END, Step};
use crate::terminal::Terminal;

/// A number that is no state: what follows has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// The state of a text that cannot become one of the grammar's.
pub(super) const DEAD: u32 = 0;

/// One of the places in a grammar at which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Thread {
    /// A step that reads.
    pub(super) at: At,
    /// The state of the terminal that it reads with.
    pub(super) inner: u32,
    /// Where its rule returns to.
    pub(super) stack: u32,
}

/// A grammar, as far as it is made, and all states so far. Equal ones are one.
pub(super) struct Run {
    pub(super) grammar: Grammar,
    /// Return addresses as linked lists: (the rest, the address). The first is the empty one.
    stacks: Vec<(u32, At)>,
    stack_numbers: HashMap<(u32, At), u32>,
    pub(super) states: Vec<Entry>,
    state_numbers: HashMap<Arc<Spots>, u32>,
    pub(super) memo: Memo,
    pub(super) endings: Endings,
    /// Whether a walk came to its bound, and where in the schema.
    pub(super) is_too_much: bool,
    pub(super) fault: Option<TooMuchWork>,
    /// Terminals that grow with texts.
    growing: Vec<Arc<Terminal>>,
    /// About how many bytes the states take, and what the grammar took before it had any.
    bytes: usize,
    before: usize,
}

/// What a state is: its threads in order, and whether the text may end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Spots {
    pub(super) threads: Vec<Thread>,
    pub(super) accepts: bool,
}

pub(super) struct Entry {
    pub(super) spots: Arc<Spots>,
    /// The state after each byte, as far as it is known.
    next: Vec<(u8, u32)>,
    pub(super) mask: Option<Arc<Mask>>,
    /// The bytes that may come next.
    first: Option<[u64; 4]>,
    /// The fewest bytes to the end of the text, and a bound on it after any token of the mask, where they have been
    /// asked for.
    pub(super) to_end: Option<u64>,
    pub(super) to_end_after: Option<u64>,
}

/// Where a walk stands: inside the piece that it began in, and in other ways to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spot {
    /// The state of the terminal of the walk's main thread; [`UNKNOWN`] where it has left it.
    inner: u32,
    /// The state of all other threads.
    rest: u32,
}

/// What a walk from a state goes by: as long as its main thread stays inside its piece, that alone is asked, and no
/// state is made.
#[derive(Debug)]
pub(super) struct Walker {
    main: Thread,
    pub(super) terminal: Arc<Terminal>,
    /// Where it begins. There the other threads have what follows the piece, if it is whole.
    start: Spot,
    /// What follows the piece where it may go on too.
    after: u32,
}

impl Run {
    /// That of a grammar, and the state before any text.
    pub(super) fn new(grammar: Grammar) -> (Self, u32) {
        let entry = grammar.entries[0];
        let growing = grammar.terminals.iter().filter(|terminal| terminal.made_bytes() > 0).cloned().collect();
        let before = grammar.bytes();
        let mut run = Self {
            grammar,
            stacks: vec![(0, Grammar::RETURN)],
            stack_numbers: HashMap::new(),
            states: Vec::new(),
            state_numbers: HashMap::new(),
            memo: Memo::default(),
            endings: Endings::default(),
            is_too_much: false,
            fault: None,
            growing,
            bytes: 0,
            before,
        };
        let dead = run.state(Spots::default());
        debug_assert_eq!(dead, DEAD);
        let mut spots = Spots::default();
        run.enter(entry, 0, &mut spots);
        let start = run.state(spots);
        (run, start)
    }

    /// The number of a state.
    fn state(&mut self, mut spots: Spots) -> u32 {
        spots.threads.sort_unstable();
        spots.threads.dedup();
        if let Some(&number) = self.state_numbers.get(&spots) {
            return number;
        }
        let number = self.states.len() as u32;
        // The entry, its key and its number.
        self.bytes += size_of::<Entry>() + 2 * size_of::<Spots>() + size_of_val(&spots.threads[..]);
        let spots = Arc::new(spots);
        let (mask, first, to_end, to_end_after) = (None, None, None, None);
        self.states.push(Entry { spots: spots.clone(), next: Vec::new(), mask, first, to_end, to_end_after });
        self.state_numbers.insert(spots, number);
        number
    }

    /// About how many bytes all that takes which texts have come to, but for masks and what they are made of.
    pub(super) fn bytes(&self) -> usize {
        let growing: usize = self.growing.iter().map(|terminal| terminal.made_bytes()).sum();
        // A stack, and its number.
        let stacks = 3 * size_of::<(u32, At)>() * self.stacks.len();
        self.bytes + stacks + self.endings.bytes() + growing + (self.grammar.bytes() - self.before)
    }

    fn push(&mut self, stack: u32, address: At) -> u32 {
        *self.stack_numbers.entry((stack, address)).or_insert_with(|| {
            self.stacks.push((stack, address));
            self.stacks.len() as u32 - 1
        })
    }

    pub(super) fn bytes_to_end(&mut self, state: u32) -> u64 {
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
    pub(super) fn thread_to_end(&mut self, Thread { at, inner, stack }: Thread) -> u64 {
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
    pub(super) fn known(&self, state: u32, byte: u8) -> Option<u32> {
        let known = &self.states[state as usize].next;
        known.iter().find(|(of, _)| *of == byte).map(|&(_, next)| next)
    }

    /// Whether a byte may come next.
    fn may_begin(&mut self, state: u32, byte: u8) -> bool {
        self.first(state)[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    /// The bytes that may come next.
    pub(super) fn first(&mut self, state: u32) -> [u64; 4] {
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
    pub(super) fn next(&mut self, state: u32, byte: u8) -> u32 {
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
        self.bytes += size_of::<(u8, u32)>();
        self.states[state as usize].next.push((byte, next));
        next
    }

    /// The state after some more bytes; those on the way are not made where nothing ends there.
    pub(super) fn next_all(&mut self, state: u32, bytes: &[u8]) -> u32 {
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
    pub(super) fn walker(&mut self, state: u32) -> (Option<Walker>, Spot) {
        let spots = self.states[state as usize].spots.clone();
        let worth = |thread: &&Thread| match &**self.grammar.terminal_at(thread.at) {
            Terminal::Table(automaton) => u64::from(automaton.states() > 2),
            Terminal::Lazy(_) | Terminal::Spelled(_) => 1,
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
            (Terminal::Table(_) | Terminal::Lazy(_) | Terminal::Spelled(_), &Step::Read { next, .. }) => {
                self.join(DEAD, |run, spots| run.enter(next, main.stack, spots))
            }
            _ => DEAD,
        };
        let start = Spot { inner: main.inner, rest };
        (Some(Walker { main, terminal, start, after }), start)
    }

    /// Where a walk stands after one more byte; `None` if no text goes on so.
    #[inline]
    pub(super) fn step(&mut self, walker: &Option<Walker>, spot: Spot, byte: u8) -> Option<Spot> {
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
    pub(super) fn leave(&mut self, main: Thread, inner: u32, spots: &mut Spots) {
        let next = self.grammar.after(main.at, inner);
        self.enter(next, main.stack, spots);
    }

    /// A state with more threads.
    pub(super) fn join(&mut self, state: u32, add: impl FnOnce(&mut Self, &mut Spots)) -> u32 {
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
    pub(super) fn spot_state(&mut self, walker: &Option<Walker>, spot: Spot) -> u32 {
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

    pub(super) fn spot_to_end(&mut self, walker: &Option<Walker>, spot: Spot) -> u64 {
        let state = self.spot_state(walker, spot);
        self.bytes_to_end(state)
    }

    /// Adds the threads of all the ways from a step to one that reads.
    pub(super) fn enter(&mut self, at: At, stack: u32, spots: &mut Spots) {
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
