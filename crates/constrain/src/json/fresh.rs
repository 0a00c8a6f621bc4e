//! Items of an array whose items are all different: those that have been written may not come again.
//!
//! Scalars alone are told apart so, for a scalar is written in one way. What has been written of an item is kept with its
//! state, so an item can be looked up when it is whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::terminal::Terminal;

/// The texts of the items so far, in order.
pub(crate) type Seen = Arc<Vec<Box<[u8]>>>;

/// Scalars of one type that have not been seen.
#[derive(Debug)]
pub(crate) struct Fresh {
    /// The number of the terminal without exceptions, and itself.
    pub(crate) base: u32,
    pub(crate) terminal: Arc<Terminal>,
    seen: Seen,
    /// Whether one more item than those has been written, of which it is not known what it was. Then no item can end here:
    /// only tokens that hold two items come to that.
    pending: bool,
    /// The lengths of the shortest texts that have not been seen: one more than items must still follow.
    shortest: Vec<u64>,
    width: u64,
    states: Mutex<States>,
}

#[derive(Debug)]
struct States {
    states: Vec<Entry>,
    numbers: HashMap<(u32, u8), Option<u32>>,
}

/// What has been written of an item.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The state of the terminal without exceptions.
    base: u32,
    parent: u32,
    byte: u8,
    length: u32,
}

impl Fresh {
    /// No items where none is left. `more` is how many must follow this one, `width` the fewest bytes between two.
    pub(crate) fn new(
        alternatives: &[(u32, Arc<Terminal>)],
        which: usize,
        seen: Seen,
        pending: bool,
        (more, width): (u32, u64),
    ) -> Option<Self> {
        let (base, terminal) = alternatives[which].clone();
        let shortest = shortest(alternatives, &seen, more as usize + 1)?;
        let start = Entry { base: terminal.start(), parent: u32::MAX, byte: 0, length: 0 };
        let states = Mutex::new(States { states: vec![start], numbers: HashMap::new() });
        let fresh = Self { base, terminal, seen, pending, shortest, width, states };
        fresh.completion(start.base, &[]).is_some().then_some(fresh)
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of the terminal without exceptions.
    pub(crate) fn base_state(&self, state: u32) -> u32 {
        self.states().states[state as usize].base
    }

    /// What has been written.
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
            self.completion(base, &text).is_some()
        });
        let number = next.map(|base| {
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

    /// The fewest bytes to the end of the array.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let Entry { base, length, .. } = self.states().states[state as usize];
        let bytes = self.completion(base, &self.text(state)).unwrap_or(0);
        let more = self.shortest.len() as u64 - 1;
        // This item is none of those that follow.
        let all: u64 = self.shortest.iter().sum();
        let longest = self.shortest[self.shortest.len() - 1];
        bytes + (all - longest.min(u64::from(length) + bytes)) + more * self.width + 1
    }

    /// No state is farther from the end of the array, or of one with some more items, than so many bytes.
    pub(crate) fn farthest(&self) -> u64 {
        // A language without end has a text in every stretch of as many lengths as its automaton has states.
        let states = self.terminal.farthest() + 1;
        states.saturating_mul(self.seen.len() as u64 + 4) + self.shortest.iter().sum::<u64>() + 8
    }

    fn has_seen(&self, text: &[u8]) -> bool {
        self.seen.binary_search_by(|seen| (**seen).cmp(text)).is_ok()
    }

    /// How the texts that have been seen go on after some bytes.
    pub(crate) fn after(&self, text: &[u8]) -> HashSet<&[u8]> {
        let from = self.seen.partition_point(|seen| **seen < *text);
        let begun = self.seen[from..].iter().take_while(|seen| seen.starts_with(text));
        begun.map(|seen| &seen[text.len()..]).collect()
    }

    /// The fewest bytes that make a text one that has not been seen, if any do.
    fn completion(&self, base: u32, text: &[u8]) -> Option<u64> {
        if self.pending {
            // Whatever the last item was, one more is left.
            let left = shortest_from(&self.terminal, base, &HashSet::new(), self.seen.len() + 2)?;
            return left.first().copied();
        }
        let seen = self.after(text);
        if seen.is_empty() {
            return Some(self.terminal.to_end(base));
        }
        self.search(base, &seen)
    }

    fn search(&self, base: u32, except: &HashSet<&[u8]>) -> Option<u64> {
        shortest_from(&self.terminal, base, except, 1).map(|lengths| lengths[0])
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

/// The lengths of the shortest texts that some terminals accept and that have not been seen: so many, if there are.
pub(crate) fn shortest(alternatives: &[(u32, Arc<Terminal>)], seen: &Seen, wanted: usize) -> Option<Vec<u64>> {
    let starts = alternatives.iter().map(|(_, terminal)| (&**terminal, terminal.start()));
    best_first(starts, &seen.iter().map(|text| &**text).collect(), wanted)
}

fn shortest_from(terminal: &Terminal, state: u32, except: &HashSet<&[u8]>, wanted: usize) -> Option<Vec<u64>> {
    best_first(std::iter::once((terminal, state)), except, wanted)
}

/// The shortest texts come first out of a queue in the order of what has been written and what is missing (Hart, Nilsson and
/// Raphael 1968).
fn best_first<'a>(
    starts: impl Iterator<Item = (&'a Terminal, u32)>,
    except: &HashSet<&[u8]>,
    wanted: usize,
) -> Option<Vec<u64>> {
    let starts: Vec<(&Terminal, u32)> = starts.collect();
    let begun = |which: usize, state: u32, text: Vec<u8>| {
        Reverse((text.len() as u64 + starts[which].0.to_end(state), text, which, state))
    };
    let mut open: BinaryHeap<_> =
        starts.iter().enumerate().map(|(which, &(_, state))| begun(which, state, Vec::new())).collect();
    let (mut found, mut lengths) = (HashSet::new(), Vec::new());
    while let Some(Reverse((length, text, which, state))) = open.pop() {
        let terminal = starts[which].0;
        if terminal.accepts(state) && !except.contains(&text[..]) && found.insert(text.clone()) {
            lengths.push(length);
            if lengths.len() == wanted {
                return Some(lengths);
            }
        }
        for byte in 0..=255 {
            if let Some(next) = terminal.next(state, byte) {
                open.push(begun(which, next, [&text[..], &[byte]].concat()));
            }
        }
    }
    None
}
