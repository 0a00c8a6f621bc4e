//! Items of an array whose items must all differ, and names that count towards a minimum number of properties: items
//! that were written before may not be repeated.
//!
//! Only scalars are compared in this way, since each has one spelling. The text of an item is kept with its state, so
//! that it can be looked up when it is complete.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use crate::terminal::language::Language;
use crate::terminal::memory_counter::MemoryCounter;

/// The number of texts up to which they are searched one by one, which takes time for each.
const SEARCHED: usize = 32;

/// The most states of texts of one length that are counted.
const COUNTED: usize = 1 << 10;

/// The texts of the earlier items, in order.
pub(crate) type Seen = Arc<Vec<Box<[u8]>>>;

/// Scalars of one type, which a terminal `T` reads, that differ from the earlier ones.
#[derive(Debug)]
pub(crate) struct Fresh<T> {
    /// The index among several kinds.
    pub(crate) kind: u32,
    /// The index of the terminal without exclusions, and the terminal.
    pub(crate) base: u32,
    pub(crate) terminal: Arc<T>,
    seen: Seen,
    /// Whether one more item than those was written whose text is not known. Then no item can end here; this only
    /// occurs inside tokens that contain two items.
    pending: bool,
    ends: Ends,
    states: Mutex<States>,
    made: MemoryCounter,
}

/// The bytes that must follow an item.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The costs of the cheapest unseen items: one more than must still follow this one.
    pub(crate) cheapest: Vec<u64>,
    /// The cost of an item in addition to its own text.
    pub(crate) beside: u64,
    /// The bytes that follow in any case.
    pub(crate) rest: u64,
}

#[derive(Debug)]
struct States {
    states: Vec<Entry>,
    numbers: HashMap<(u32, u8), Option<u32>>,
    /// With an unknown earlier item: the fewest bytes to an end, by state of the terminal without exclusions, as far as
    /// computed.
    pending_ends: HashMap<u32, Option<u64>>,
}

/// The progress in an item.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The state of the terminal without exclusions.
    base: u32,
    parent: u32,
    byte: u8,
    length: u32,
}

impl<T: Language> Fresh<T> {
    /// Returns `None` if no unseen item is left.
    pub(crate) fn new(
        (kind, (base, terminal)): (u32, (u32, Arc<T>)),
        seen: Seen,
        pending: bool,
        ends: Ends,
        made: MemoryCounter,
    ) -> Option<Self> {
        let start = Entry { base: terminal.start(), parent: u32::MAX, byte: 0, length: 0 };
        let states = Mutex::new(States { states: vec![start], numbers: HashMap::new(), pending_ends: HashMap::new() });
        let fresh = Self { kind, base, terminal, seen, pending, ends, states, made };
        let is_some = fresh.completion(&mut fresh.states(), start.base, &[]).is_some();
        is_some.then_some(fresh)
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the terminal without exclusions.
    pub(crate) fn base_state(&self, state: u32) -> u32 {
        self.states().states[state as usize].base
    }

    /// The text so far.
    pub(crate) fn text(&self, state: u32) -> Vec<u8> {
        self.states().text(state)
    }

    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let mut states = self.states();
        if let Some(&known) = states.numbers.get(&(state, byte)) {
            return known;
        }
        let Entry { base, length, .. } = states.states[state as usize];
        let next = self.terminal.next(base, byte).filter(|&base| {
            let mut text = states.text(state);
            text.push(byte);
            self.completion(&mut states, base, &text).is_some()
        });
        self.made.add(MemoryCounter::NUMBER);
        let number = next.map(|base| {
            self.made.add(2 * size_of::<Entry>());
            states.states.push(Entry { base, parent: state, byte, length: length + 1 });
            states.states.len() as u32 - 1
        });
        states.numbers.insert((state, byte), number);
        number
    }

    pub(crate) fn accepts(&self, state: u32) -> bool {
        !self.pending && self.terminal.accepts(self.base_state(state)) && !self.has_seen(&self.text(state))
    }

    pub(crate) fn goes_on(&self, state: u32) -> bool {
        let base = self.base_state(state);
        if !self.terminal.goes_on(base) {
            return false;
        }
        let mut longer = self.after(&self.text(state));
        if longer.is_empty() {
            return true;
        }
        longer.insert(&[]);
        self.search(base, &longer).is_some()
    }

    /// The fewest bytes to the end of the array or object.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let mut states = self.states();
        let Entry { base, length, .. } = states.states[state as usize];
        let text = states.text(state);
        let bytes = self.completion(&mut states, base, &text).unwrap_or(0);
        // This item is not one of those that follow.
        let Ends { cheapest, beside, rest } = &self.ends;
        let all = cheapest.iter().copied().fold(0, u64::saturating_add);
        let dearest = cheapest[cheapest.len() - 1];
        (all - dearest.min(u64::from(length) + bytes + beside)).saturating_add(bytes + rest)
    }

    /// An upper bound on the bytes to the end from any state, also with a few more items.
    pub(crate) fn farthest(&self) -> u64 {
        // An infinite language has a text in every range of as many lengths as its automaton has states.
        let states = self.terminal.farthest() + 1;
        let all = self.ends.cheapest.iter().copied().fold(self.ends.rest, u64::saturating_add);
        states.saturating_mul(self.seen.len() as u64 + 4).saturating_add(all).saturating_add(8)
    }

    fn has_seen(&self, text: &[u8]) -> bool {
        self.seen.binary_search_by(|seen| (**seen).cmp(text)).is_ok()
    }

    /// Whether there is an earlier item that is not known.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Whether the text cannot become an item that was seen.
    pub(crate) fn is_apart(&self, state: u32) -> bool {
        !self.pending && self.after(&self.text(state)).is_empty()
    }

    /// The remainders of the seen texts that begin with some bytes.
    pub(crate) fn after(&self, text: &[u8]) -> HashSet<&[u8]> {
        let from = self.seen.partition_point(|seen| **seen < *text);
        let begun = self.seen[from..].iter().take_while(|seen| seen.starts_with(text));
        begun.map(|seen| &seen[text.len()..]).collect()
    }

    /// The fewest bytes that complete the text to an unseen one, if any do.
    fn completion(&self, states: &mut States, base: u32, text: &[u8]) -> Option<u64> {
        if self.pending {
            return *states.pending_ends.entry(base).or_insert_with(|| {
                // Whatever the unknown item was, one more text is left.
                let left = lengths(&[(&*self.terminal, base)], &HashSet::new(), self.seen.len() + 2)?;
                left.first().copied()
            });
        }
        let seen = self.after(text);
        if seen.is_empty() {
            return Some(self.terminal.to_end(base));
        }
        self.search(base, &seen)
    }

    fn search(&self, base: u32, except: &HashSet<&[u8]>) -> Option<u64> {
        lengths(&[(&*self.terminal, base)], except, 1).map(|lengths| lengths[0])
    }
}

impl States {
    fn text(&self, mut state: u32) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.states[state as usize].length as usize);
        while let Entry { parent, byte, .. } = self.states[state as usize]
            && parent != u32::MAX
        {
            text.push(byte);
            state = parent;
        }
        text.reverse();
        text
    }
}

/// The lengths of the `wanted` shortest unseen texts that some terminals accept; `None` if there are fewer.
pub(crate) fn shortest<T: Language>(alternatives: &[(u32, Arc<T>)], seen: &Seen, wanted: usize) -> Option<Vec<u64>> {
    let starts: Vec<(&T, u32)> = alternatives.iter().map(|(_, terminal)| (&**terminal, terminal.start())).collect();
    lengths(&starts, &seen.iter().map(|text| &**text).collect(), wanted)
}

/// The `wanted` shortest texts that a terminal accepts, in order; all if there are fewer.
pub(crate) fn shortest_texts<T: Language>(terminal: &T, wanted: usize) -> Vec<Vec<u8>> {
    best_first(&[(terminal, terminal.start())], &HashSet::new(), wanted)
}

/// The lengths of the `wanted` shortest texts from some states of terminals, other than those of `except`; `None` if
/// there are fewer.
fn lengths<T: Language>(starts: &[(&T, u32)], except: &HashSet<&[u8]>, wanted: usize) -> Option<Vec<u64>> {
    if except.len() + wanted > SEARCHED
        && let Some(counted) = counted(starts, except, wanted)
    {
        return counted;
    }
    let texts = best_first(starts, except, wanted);
    (texts.len() == wanted).then(|| texts.iter().map(|text| text.len() as u64).collect())
}

/// The bytes that lead on from states of several terminals. Many texts lead to the same state, from which few bytes do.
struct Ways<'a, T> {
    terminals: Vec<&'a T>,
    known: HashMap<(usize, u32), Vec<(u8, u32)>>,
}

impl<'a, T: Language> Ways<'a, T> {
    fn new(starts: &[(&'a T, u32)]) -> Self {
        Self { terminals: starts.iter().map(|&(terminal, _)| terminal).collect(), known: HashMap::new() }
    }

    /// The bytes that may follow in a state of the terminal at an index, and the states that they lead to.
    fn from(&mut self, (which, state): (usize, u32)) -> &[(u8, u32)] {
        let next = |byte| Some((byte, self.terminals[which].next(state, byte)?));
        self.known.entry((which, state)).or_insert_with(|| (0..=255).filter_map(next).collect())
    }
}

/// Like [`lengths`], from the number of texts of each length instead of the texts. `None` if some text may belong to
/// two of the terminals, or if there are too many states.
#[expect(clippy::option_option, reason = "not counted, or counted and too few")]
fn counted<T: Language>(starts: &[(&T, u32)], except: &HashSet<&[u8]>, wanted: usize) -> Option<Option<Vec<u64>>> {
    let mut ways = Ways::new(starts);
    // Texts of two terminals differ if their first bytes do.
    let mut first = HashSet::new();
    for (which, &(terminal, state)) in starts.iter().enumerate() {
        let is_apart = ways.from((which, state)).iter().all(|(byte, _)| first.insert(*byte));
        if starts.len() > 1 && (!is_apart || terminal.accepts(state)) {
            return None;
        }
    }
    let mut taken: HashMap<usize, u64> = HashMap::new();
    for text in except {
        let ends = |&(terminal, state): &(&T, u32)| {
            let end = text.iter().try_fold(state, |state, &byte| terminal.next(state, byte));
            end.is_some_and(|end| terminal.accepts(end))
        };
        *taken.entry(text.len()).or_default() += u64::from(starts.iter().any(ends));
    }
    // The number of texts that lead to each state.
    let mut level: HashMap<(usize, u32), u64> =
        starts.iter().enumerate().map(|(which, &(_, state))| ((which, state), 1)).collect();
    let mut found = Vec::new();
    for length in 0.. {
        let accepted = level.iter().filter(|((which, state), _)| starts[*which].0.accepts(*state));
        let all = accepted.fold(0u64, |all, (_, texts)| all.saturating_add(*texts));
        let left = all - taken.get(&length).copied().unwrap_or(0).min(all);
        let some = usize::try_from(left).unwrap_or(usize::MAX).min(wanted - found.len());
        found.resize(found.len() + some, length as u64);
        if found.len() == wanted {
            return Some(Some(found));
        }
        let mut next: HashMap<(usize, u32), u64> = HashMap::new();
        for ((which, state), texts) in level {
            for &(_, to) in ways.from((which, state)) {
                let sum = next.entry((which, to)).or_default();
                *sum = sum.saturating_add(texts);
            }
        }
        if next.len() > COUNTED {
            return None;
        }
        if next.is_empty() {
            return Some(None);
        }
        level = next;
    }
    unreachable!("the lengths are not bounded")
}

/// Searches for the shortest texts, in the order of the bytes written plus the bytes missing (A*; Hart, Nilsson and
/// Raphael 1968).
fn best_first<T: Language>(starts: &[(&T, u32)], except: &HashSet<&[u8]>, wanted: usize) -> Vec<Vec<u8>> {
    let begun = |which: usize, state: u32, text: Vec<u8>| {
        Reverse((text.len() as u64 + starts[which].0.to_end(state), text, which, state))
    };
    let mut open: BinaryHeap<_> =
        starts.iter().enumerate().map(|(which, &(_, state))| begun(which, state, Vec::new())).collect();
    let (mut found, mut texts) = (HashSet::new(), Vec::new());
    let mut ways = Ways::new(starts);
    while let Some(Reverse((_, text, which, state))) = open.pop() {
        if texts.len() == wanted {
            break;
        }
        if starts[which].0.accepts(state) && !except.contains(&text[..]) && found.insert(text.clone()) {
            texts.push(text.clone());
        }
        let ways = ways.from((which, state)).iter();
        open.extend(ways.map(|&(byte, next)| begun(which, next, [&text[..], &[byte]].concat())));
    }
    texts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A small automaton, from each of whose states the end is reached.
    #[derive(Debug)]
    struct Small {
        next: Vec<[Option<u32>; 3]>,
        accepts: Vec<bool>,
        to_end: Vec<u64>,
    }

    impl Language for Small {
        fn start(&self) -> u32 {
            0
        }

        fn next(&self, state: u32, byte: u8) -> Option<u32> {
            self.next[state as usize].get(usize::from(byte.wrapping_sub(b'a'))).copied().flatten()
        }

        fn accepts(&self, state: u32) -> bool {
            self.accepts[state as usize]
        }

        fn goes_on(&self, state: u32) -> bool {
            self.next[state as usize].iter().any(Option::is_some)
        }

        fn to_end(&self, state: u32) -> u64 {
            self.to_end[state as usize]
        }

        fn farthest(&self) -> u64 {
            self.to_end.iter().copied().max().unwrap_or(0)
        }
    }

    /// Removes the ways to states that do not reach the end; `None` if the first does not.
    fn small(mut next: Vec<[Option<u32>; 3]>, accepts: Vec<bool>) -> Option<Small> {
        let count = next.len();
        let mut to_end: Vec<u64> = accepts.iter().map(|&accepts| if accepts { 0 } else { u64::MAX }).collect();
        for _ in 0..count {
            for state in 0..count {
                let ways = next[state].iter().flatten().map(|&to| to_end[to as usize].saturating_add(1));
                to_end[state] = ways.chain([to_end[state]]).min().unwrap_or(u64::MAX);
            }
        }
        next.iter_mut().flatten().for_each(|way| *way = way.filter(|&to| to_end[to as usize] != u64::MAX));
        (to_end[0] != u64::MAX).then_some(Small { next, accepts, to_end })
    }

    proptest! {
        /// Counting finds what the search finds.
        #[test]
        fn counted_lengths_are_those_of_the_texts(
            next in proptest::collection::vec(proptest::array::uniform3(proptest::option::of(0u32..5)), 5),
            accepts in proptest::collection::vec(any::<bool>(), 5),
            except in proptest::collection::vec("[a-c]{0,4}", 0..30),
            wanted in 1usize..20,
        ) {
            let Some(small) = small(next, accepts) else { return Ok(()) };
            let starts = [(&small, 0)];
            let except: HashSet<&[u8]> = except.iter().map(|text| text.as_bytes()).collect();
            let texts = best_first(&starts, &except, wanted);
            let searched = (texts.len() == wanted).then(|| texts.iter().map(|text| text.len() as u64).collect());
            prop_assert_eq!(counted(&starts, &except, wanted), Some(searched));
        }
    }
}
