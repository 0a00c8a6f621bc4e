//! The states of a machine, created as texts reach them.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::entering::Entered;
use super::nested::NestedRun;
pub(super) use super::transitions::DEAD;
use super::transitions::Transitions;
use crate::byte_set::has_byte;
use crate::grammar::Grammar;
use crate::grammar::step::{NO_END, RETURN, Rule, Step, StepIndex};
use crate::grammar::unfold::Unfolding;
use crate::terminal::Terminal;
use crate::terminal::distinct::Distinct;
use crate::terminal::language::Language;

/// Not a state: what follows has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// The stack that returns to an unknown position.
pub(super) const CUT: u32 = 1;

/// One of the positions in a grammar that a text is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Thread {
    /// A reading step.
    pub(super) at: StepIndex,
    /// The state of the step's terminal.
    pub(super) inner: u32,
    /// The stack of return addresses.
    pub(super) stack: u32,
}

/// A stack of return addresses.
///
/// Alternatives that read the same value differ only in their return address. Such threads are merged into one whose
/// stack is any of theirs (Tomita 1985, graph-structured stacks), so the inside of the value is processed once for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stack {
    /// An address, and the stack below it.
    Address(u32, StepIndex),
    /// Any of these stacks, which are sorted and not unions themselves.
    Any(Arc<[u32]>),
    /// A stack that is not known: the part that was cut off.
    Cut,
}

/// A stack without its deepest part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shallow {
    pub(super) stack: u32,
    /// The most bytes that are needed from a part that was cut off to the end of the text.
    pub(super) farthest: u64,
}

/// A grammar, as far as it is unfolded, and all states so far, without duplicates.
pub(super) struct Run {
    pub(super) grammar: Unfolding,
    /// The stacks. The first returns nowhere, and the second to an unknown position.
    pub(super) stacks: Vec<Stack>,
    stack_numbers: HashMap<Stack, u32>,
    /// The fewest bytes from each stack to the end, as far as computed.
    stack_ends: Vec<Option<u64>>,
    pub(super) stack_bytes: usize,
    /// Stacks without their deepest parts, by stack and the number of addresses that are kept.
    pub(super) shallow: HashMap<(u32, u32), Shallow>,
    /// The states of texts in items that must differ, as if they were any items.
    any_items: HashMap<Thread, u32>,
    /// The bytes that may come next in the states of tables, by the reading step.
    first_bytes: HashMap<(StepIndex, u32), [u64; 4]>,
    pub(super) entered: Entered,
    pub(super) states: Vec<Entry>,
    state_numbers: HashMap<Arc<ThreadSet>, u32>,
    /// The approximate number of bytes of the states.
    bytes: usize,
}

/// The contents of a state: its threads in order, whether the text may end, and whether it may continue in the part of
/// a stack that was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ThreadSet {
    pub(super) threads: Vec<Thread>,
    pub(super) accepts: bool,
    pub(super) is_cut: bool,
}

pub(super) struct Entry {
    pub(super) threads: Arc<ThreadSet>,
    /// The state after each byte, as far as computed.
    next: Transitions,
    /// The bytes that may come next.
    first: Option<[u64; 4]>,
    /// The fewest bytes to the end of the text, and an upper bound on it after any token of the mask, as far as
    /// computed.
    pub(super) to_end: Option<u64>,
    pub(super) to_end_after: Option<u64>,
}

/// The position of a walk: inside the segment that it began in, and in the other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WalkState {
    /// The state of the terminal of the walk's main thread; [`UNKNOWN`] once the walk has left it.
    inner: u32,
    /// The state of all other threads.
    rest: u32,
}

/// The data of a walk from a state: as long as its main thread stays inside its segment, only the terminal is run, and
/// no states are created.
#[derive(Debug)]
pub(super) struct Walk {
    main: Thread,
    pub(super) terminal: Arc<Terminal>,
    /// The start. There, the other threads include what follows the segment, if it may end at once.
    start: WalkState,
    /// The state after the segment, for positions at which the segment may also continue.
    after: u32,
}

impl Run {
    /// The run of a grammar, and the state before any text.
    pub(super) fn new(grammar: Arc<Grammar>) -> (Self, u32) {
        Self::of_rule(grammar, 0, 0)
    }

    /// The run of one rule, nested in `level` others.
    pub(super) fn of_rule(grammar: Arc<Grammar>, rule: Rule, level: u32) -> (Self, u32) {
        let grammar = Unfolding::new(grammar, NestedRun::begin, level);
        let entry = grammar.entry(rule);
        let mut run = Self {
            grammar,
            stacks: vec![Stack::Address(0, RETURN), Stack::Cut],
            stack_numbers: HashMap::new(),
            stack_ends: vec![Some(0); 2],
            stack_bytes: 0,
            shallow: HashMap::new(),
            any_items: HashMap::new(),
            first_bytes: HashMap::new(),
            entered: Entered::default(),
            states: Vec::new(),
            state_numbers: HashMap::new(),
            bytes: 0,
        };
        let dead = run.state(ThreadSet::default());
        debug_assert_eq!(dead, DEAD);
        let mut threads = ThreadSet::default();
        run.enter(entry, 0, &mut threads);
        let start = run.state(threads);
        (run, start)
    }

    /// The index of a state.
    pub(super) fn state(&mut self, mut threads: ThreadSet) -> u32 {
        threads.threads.sort_unstable();
        threads.threads.dedup();
        self.unite_stacks(&mut threads.threads);
        if let Some(&number) = self.state_numbers.get(&threads) {
            return number;
        }
        let number = self.states.len() as u32;
        // The entry and its index, with the spare capacity of lists and tables; and its threads.
        self.bytes += 2 * size_of::<Entry>() + 48 + 2 * size_of::<ThreadSet>() + size_of_val(&threads.threads[..]);
        let threads = Arc::new(threads);
        let (first, to_end, to_end_after) = (None, None, None);
        self.states.push(Entry { threads: threads.clone(), next: Transitions::default(), first, to_end, to_end_after });
        self.state_numbers.insert(threads, number);
        number
    }

    /// The approximate number of bytes of everything that texts have reached.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.stack_bytes + self.entered.bytes() + self.grammar.bytes()
    }

    /// The part of [`Run::bytes`] that a walk over a vocabulary may increase much, in constant time.
    pub(super) fn walked_bytes(&self) -> usize {
        self.bytes + self.entered.bytes() + self.grammar.told_apart_bytes()
    }

    /// The threads of a state.
    pub(super) fn threads(&self, state: u32) -> &Arc<ThreadSet> {
        &self.states[state as usize].threads
    }

    /// Whether a text may continue in a part of a stack that was cut off.
    pub(super) fn is_cut(&self, state: u32) -> bool {
        self.threads(state).is_cut
    }

    /// A stack by its index.
    pub(super) fn stack_at(&self, stack: u32) -> &Stack {
        &self.stacks[stack as usize]
    }

    pub(super) fn push(&mut self, stack: u32, address: StepIndex) -> u32 {
        self.stack(Stack::Address(stack, address))
    }

    /// The index of a stack.
    fn stack(&mut self, stack: Stack) -> u32 {
        if let Some(&number) = self.stack_numbers.get(&stack) {
            return number;
        }
        let number = self.stacks.len() as u32;
        let members = if let Stack::Any(stacks) = &stack { size_of_val(&stacks[..]) } else { 0 };
        // It is stored in the list and as a key, with their spare capacity, and its distance to the end.
        self.stack_bytes += 4 * size_of::<Stack>() + 2 * size_of::<Option<u64>>() + members;
        self.stacks.push(stack.clone());
        self.stack_ends.push(None);
        self.stack_numbers.insert(stack, number);
        number
    }

    /// Merges sorted threads that differ only in their stacks.
    fn unite_stacks(&mut self, threads: &mut Vec<Thread>) {
        let place = |thread: &Thread| (thread.at, thread.inner);
        if threads.windows(2).all(|pair| place(&pair[0]) != place(&pair[1])) {
            return;
        }
        let united = threads.chunk_by(|a, b| place(a) == place(b)).map(|alike| {
            let stack = match alike {
                [thread] => thread.stack,
                alike => self.any_stack(alike.iter().map(|thread| thread.stack)),
            };
            Thread { stack, ..alike[0] }
        });
        *threads = united.collect();
    }

    /// The stack that is any of these.
    pub(super) fn any_stack(&mut self, stacks: impl Iterator<Item = u32>) -> u32 {
        let mut members = Vec::new();
        for stack in stacks {
            match &self.stacks[stack as usize] {
                Stack::Any(stacks) => members.extend_from_slice(stacks),
                Stack::Address(..) | Stack::Cut => members.push(stack),
            }
        }
        members.sort_unstable();
        members.dedup();
        match members[..] {
            [stack] => stack,
            _ => self.stack(Stack::Any(members.into())),
        }
    }

    pub(super) fn bytes_to_end(&mut self, state: u32) -> u64 {
        if let Some(to_end) = self.states[state as usize].to_end {
            return to_end;
        }
        let threads = self.states[state as usize].threads.clone();
        let to_end = match threads.accepts || threads.is_cut {
            true => 0,
            false => threads.threads.iter().map(|&thread| self.thread_to_end(thread)).min().unwrap_or(NO_END),
        };
        self.states[state as usize].to_end = Some(to_end);
        to_end
    }

    /// The fewest bytes to the end of a text along one thread.
    pub(super) fn thread_to_end(&mut self, Thread { at, inner, stack }: Thread) -> u64 {
        let bytes = self.grammar.terminal_at(at).to_end(inner);
        let bytes = match *self.grammar.step(at) {
            Step::Read { next, .. } => bytes.saturating_add(self.grammar.bytes_to_end(next)),
            // The distances of names include what follows.
            _ => bytes,
        };
        bytes.saturating_add(self.stack_to_end(stack))
    }

    /// The fewest bytes from a stack to the end of the text. Stacks are as deep as texts nest, so this is not
    /// recursive.
    pub(super) fn stack_to_end(&mut self, stack: u32) -> u64 {
        let mut open = vec![stack];
        while let Some(&top) = open.last() {
            let bytes = match self.stacks[top as usize].clone() {
                _ if self.stack_ends[top as usize].is_some() => {
                    open.pop();
                    continue;
                }
                Stack::Address(rest, at) => match self.stack_ends[rest as usize] {
                    Some(bytes) => self.grammar.bytes_to_end(at).saturating_add(bytes),
                    None => {
                        open.push(rest);
                        continue;
                    }
                },
                Stack::Any(stacks) => {
                    let unknown = stacks.iter().copied().filter(|&stack| self.stack_ends[stack as usize].is_none());
                    let before = open.len();
                    open.extend(unknown);
                    if open.len() > before {
                        continue;
                    }
                    stacks.iter().filter_map(|&stack| self.stack_ends[stack as usize]).min().unwrap_or(NO_END)
                }
                Stack::Cut => 0,
            };
            self.stack_ends[top as usize] = Some(bytes);
        }
        self.stack_ends[stack as usize].unwrap_or(NO_END)
    }

    /// The state after one more byte, if it has been computed.
    pub(super) fn known(&self, state: u32, byte: u8) -> Option<u32> {
        self.states[state as usize].next.get(byte)
    }

    /// The bytes that may come next.
    pub(super) fn first(&mut self, state: u32) -> [u64; 4] {
        let entry = &mut self.states[state as usize];
        *entry.first.get_or_insert_with(|| {
            let mut first = [0u64; 4];
            for thread in &entry.threads.threads {
                let terminal = self.grammar.terminal_at(thread.at);
                if !matches!(**terminal, Terminal::Table(_)) {
                    terminal.first(thread.inner, &mut first);
                    continue;
                }
                let of_thread = self.first_bytes.entry((thread.at, thread.inner)).or_insert_with(|| {
                    self.bytes += 2 * size_of::<((StepIndex, u32), [u64; 4])>();
                    let mut first = [0; 4];
                    terminal.first(thread.inner, &mut first);
                    first
                });
                first.iter_mut().zip(of_thread).for_each(|(first, more)| *first |= *more);
            }
            first
        })
    }

    /// Whether some text continues with a byte.
    pub(super) fn may_read(&mut self, state: u32, byte: u8) -> bool {
        match self.known(state, byte) {
            Some(next) => next != DEAD,
            None => has_byte(&self.first(state), byte),
        }
    }

    /// The state after one more byte.
    pub(super) fn next(&mut self, state: u32, byte: u8) -> u32 {
        // Most steps of a walk end here.
        if self.states[state as usize].first.is_some_and(|first| !has_byte(&first, byte)) {
            return DEAD;
        }
        if let Some(known) = self.known(state, byte) {
            return known;
        }
        let first = self.first(state);
        if !has_byte(&first, byte) {
            return DEAD;
        }
        let threads = self.states[state as usize].threads.clone();
        let mut after = ThreadSet::default();
        for thread in &threads.threads {
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
        self.bytes += self.states[state as usize].next.insert(byte, next, first);
        next
    }

    /// The state after some bytes; states on the way are not created unless a segment ends there.
    pub(super) fn next_all(&mut self, state: u32, bytes: &[u8]) -> u32 {
        if let [byte] = bytes {
            return self.next(state, *byte);
        }
        let (walk, mut at) = self.walk(state);
        for &byte in bytes {
            match self.step(&walk, at, byte) {
                Some(next) => at = next,
                None => return DEAD,
            }
        }
        self.state_of(&walk, at)
    }

    /// Starts a walk. Its main thread is the one with the longest segment to walk in.
    pub(super) fn walk(&mut self, state: u32) -> (Option<Walk>, WalkState) {
        let threads = self.states[state as usize].threads.clone();
        let worth = |thread: &&Thread| match &**self.grammar.terminal_at(thread.at) {
            Terminal::Table(automaton) => u64::from(automaton.states() > 2),
            Terminal::Lazy(_) | Terminal::Spelled(_) => 1,
            // Its states are created as they are reached, so there is nothing to save.
            Terminal::Fresh(_) | Terminal::Distinct(_) => 0,
            // If anything may follow, the plain tokens need no walk.
            terminal => 2 + u64::from(terminal.free(thread.inner).unwrap_or(0)),
        };
        let Some(&main) = threads.threads.iter().max_by_key(worth).filter(|thread| worth(thread) > 0) else {
            return (None, WalkState { inner: UNKNOWN, rest: state });
        };
        let threads = threads.threads.iter().filter(|&&thread| thread != main).copied().collect();
        let rest = self.state(ThreadSet { threads, ..ThreadSet::default() });
        let terminal = self.grammar.terminal_at(main.at).clone();
        let after = match (self.automaton(&main), self.grammar.step(main.at)) {
            (Some(_), &Step::Read { next, .. }) => self.join(DEAD, |run, threads| run.enter(next, main.stack, threads)),
            _ => DEAD,
        };
        let start = WalkState { inner: main.inner, rest };
        (Some(Walk { main, terminal, start, after }), start)
    }

    /// The position after one more byte; `None` if no text continues with it.
    #[inline]
    pub(super) fn step(&mut self, walk: &Option<Walk>, at: WalkState, byte: u8) -> Option<WalkState> {
        let Some(Walk { main, terminal, start, after: left }) = walk else {
            return self.outside(at.rest, byte);
        };
        if at.inner == UNKNOWN {
            return self.outside(at.rest, byte);
        }
        let next = terminal.next(at.inner, byte);
        let leaves = terminal.accepts(at.inner) && at != *start;
        if at.rest == DEAD && !leaves {
            let next = next?;
            if terminal.goes_on(next) {
                return Some(WalkState { inner: next, rest: DEAD });
            }
        }
        let mut after = WalkState { inner: UNKNOWN, rest: DEAD };
        if at.rest != DEAD {
            after.rest = self.next(at.rest, byte);
        }
        match next {
            Some(next) if terminal.goes_on(next) => after.inner = next,
            // A segment that cannot continue is followed by the next step at once.
            Some(next) => after.rest = self.join(after.rest, |run, threads| run.leave(*main, next, threads)),
            None => {}
        }
        if leaves {
            let left = self.next(*left, byte);
            after.rest = self.union(after.rest, left);
        }
        (after != WalkState { inner: UNKNOWN, rest: DEAD }).then_some(after)
    }

    fn outside(&mut self, rest: u32, byte: u8) -> Option<WalkState> {
        let rest = self.next(rest, byte);
        (rest != DEAD).then_some(WalkState { inner: UNKNOWN, rest })
    }

    /// Adds the threads after the main thread's segment, which is complete in `inner`.
    pub(super) fn leave(&mut self, main: Thread, inner: u32, threads: &mut ThreadSet) {
        let next = self.grammar.after(main.at, inner);
        self.enter(next, main.stack, threads);
    }

    /// The state with more threads.
    pub(super) fn join(&mut self, state: u32, add: impl FnOnce(&mut Self, &mut ThreadSet)) -> u32 {
        let mut threads = ThreadSet::clone(&self.states[state as usize].threads);
        add(self, &mut threads);
        self.state(threads)
    }

    fn union(&mut self, a: u32, b: u32) -> u32 {
        match (a, b) {
            (DEAD, other) | (other, DEAD) => other,
            (a, b) if a == b => a,
            (a, b) => {
                let more = self.states[b as usize].threads.clone();
                self.join(a, |_, threads| {
                    threads.threads.extend_from_slice(&more.threads);
                    threads.accepts |= more.accepts;
                    threads.is_cut |= more.is_cut;
                })
            }
        }
    }

    /// The state at a position of a walk.
    pub(super) fn state_of(&mut self, walk: &Option<Walk>, at: WalkState) -> u32 {
        let Some(Walk { main, terminal, .. }) = walk.as_ref().filter(|_| at.inner != UNKNOWN) else {
            return at.rest;
        };
        self.join(at.rest, |run, threads| {
            threads.threads.push(Thread { inner: at.inner, ..*main });
            if terminal.accepts(at.inner) {
                run.leave(*main, at.inner, threads);
            }
        })
    }

    pub(super) fn walk_to_end(&mut self, walk: &Option<Walk>, at: WalkState) -> u64 {
        let state = self.state_of(walk, at);
        self.bytes_to_end(state)
    }

    /// The state of a text in an item or name that must differ from others, without comparing it; its value is not
    /// recorded. `None` if the thread is not in such an item, or in a scalar after an unknown one. Tokens
    /// along which it may still equal an earlier item are handled by
    /// [`Masks::tried_anew`](super::masks::Masks::tried_anew).
    pub(super) fn as_any(&mut self, thread: Thread) -> Option<u32> {
        let terminal = self.grammar.terminal_at(thread.at).clone();
        match &*terminal {
            Terminal::Distinct(distinct) => Some(self.as_any_item(thread, distinct)),
            Terminal::Fresh(fresh) if !fresh.is_pending() => {
                let Step::Name { state, .. } = *self.grammar.step(thread.at) else {
                    unreachable!("items that must differ are read at such steps")
                };
                let next = self.grammar.after_item(state, fresh.kind, None);
                let at = self.grammar.read(fresh.base, next);
                let inner = fresh.base_state(thread.inner);
                Some(self.join(DEAD, |run, threads| {
                    threads.threads.push(Thread { at, inner, stack: thread.stack });
                    if fresh.terminal.accepts(inner) {
                        run.enter(next, thread.stack, threads);
                    }
                }))
            }
            _ => None,
        }
    }

    /// Like [`Run::as_any`] for an item that is compared as a value.
    pub(super) fn as_any_item(&mut self, thread: Thread, distinct: &Distinct) -> u32 {
        if let Some(&any) = self.any_items.get(&thread) {
            return any;
        }
        // Goes back from the last byte to a known state, or to the beginning.
        let (mut known, mut inner, mut text) = (None, thread.inner, Vec::new());
        while known.is_none()
            && let Some((before, byte)) = distinct.before(inner)
        {
            text.push(byte);
            inner = before;
            known = self.any_items.get(&Thread { inner, ..thread }).copied();
        }
        text.reverse();
        let begin = known.unwrap_or_else(|| {
            let Step::Name { state, .. } = *self.grammar.step(thread.at) else {
                unreachable!("items that must differ are read at such steps")
            };
            let next = self.grammar.after_item(state, 0, None);
            let (entry, stack) = (self.grammar.entry(distinct.rule), self.push(thread.stack, next));
            self.join(DEAD, |run, threads| run.enter(entry, stack, threads))
        });
        let any = if text.is_empty() { begin } else { self.next_all(begin, &text) };
        self.any_items.insert(thread, any);
        self.bytes += 2 * size_of::<(Thread, u32)>();
        any
    }
}
