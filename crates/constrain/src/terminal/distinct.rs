//! Items of an array, of any types, that must differ as values from all earlier items.
//!
//! The text of an item is kept with its state, so that it can be compared with earlier items. As long as it cannot
//! become equal to any of them, it continues like any value. Otherwise an ending that makes it a different value is
//! searched for, and if there is none, the text cannot continue.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::{HashMap, HashMapExt};

use super::fresh::Seen;
use super::memory_counter::MemoryCounter;
use super::names_so_far::NamesSoFar;
use super::nested::Nested;
use super::value::Value;
use super::value_search::ValueSearch;

/// The maximum number of searches that are kept.
const SEARCHES: usize = 16;

/// The maximum length, in bytes, of endings that are tried before a search.
const LONGEST: u64 = 1 << 10;

/// The values that a rule describes, shared by all items of that rule.
#[derive(Debug)]
pub(crate) struct Values {
    nested: Box<dyn Nested>,
    any_order: bool,
    /// By the text from which they search for endings.
    searches: Mutex<HashMap<Vec<u8>, ValueSearch>>,
}

/// An item that differs from all earlier ones.
#[derive(Debug)]
pub(crate) struct Distinct {
    /// The rule of the item.
    pub(crate) rule: u32,
    values: Arc<Values>,
    /// The earlier items, as canonical texts and as values.
    seen: Seen,
    seen_values: Vec<Value>,
    /// Whether one more item than those was written whose value is not known. Then no item can end here; this only
    /// occurs inside tokens that contain two items.
    pending: bool,
    states: Mutex<States>,
    made: MemoryCounter,
}

#[derive(Debug)]
struct States {
    states: Vec<Entry>,
    numbers: HashMap<(u32, u8), Option<u32>>,
}

/// The progress in an item.
#[derive(Clone, Debug)]
struct Entry {
    /// The state of the value in its own grammar.
    inner: u32,
    parent: u32,
    byte: u8,
    names: NamesSoFar,
    /// The indices of the earlier values that it may still become, unless a name is repeated.
    rivals: Arc<[u32]>,
    /// Whether it may become any of them, because a repeated name could change what was written.
    may_be_any: bool,
    /// The bytes of an ending that makes it differ from all of them, if it had to be searched for.
    ending: Option<Vec<u8>>,
}

impl Entry {
    /// The approximate size in bytes, including the spare capacity of lists.
    fn bytes(&self) -> usize {
        let ending = self.ending.as_ref().map_or(0, Vec::capacity);
        2 * size_of::<Self>() + self.names.bytes() + size_of_val(&self.rivals[..]) + ending
    }
}

impl Values {
    pub(crate) fn new(nested: Box<dyn Nested>, any_order: bool) -> Self {
        Self { nested, any_order, searches: Mutex::default() }
    }

    /// The approximate number of bytes used.
    pub(crate) fn bytes(&self) -> usize {
        let searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        size_of::<Self>() + self.nested.bytes() + searches.values().map(ValueSearch::bytes).sum::<usize>()
    }

    /// The shortest ending of a value in a state, if it repeats no name.
    fn ending_without_repeats(&self, mut state: u32, names: &NamesSoFar) -> Option<Vec<u8>> {
        let (mut names, mut bytes) = (names.clone(), Vec::new());
        let mut left = Some(self.nested.to_end(state)).filter(|&left| left <= LONGEST)?;
        while left > 0 && !names.repeats {
            let (byte, next) = self.nested.ways(state).find(|&(_, next)| self.nested.to_end(next) < left)?;
            names.read(byte);
            bytes.push(byte);
            (state, left) = (next, left - 1);
        }
        (!names.repeats).then_some(bytes)
    }

    /// Runs `ask` on the search for endings of `text`, which has led to `state`.
    fn search<T>(&self, text: &[u8], state: u32, ask: impl FnOnce(&dyn Nested, &mut ValueSearch) -> T) -> T {
        let mut searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        if searches.len() == SEARCHES && !searches.contains_key(text) {
            searches.clear();
        }
        let nested = &*self.nested;
        let new = || ValueSearch::new(nested, text, state, self.any_order);
        ask(nested, searches.entry(text.to_vec()).or_insert_with(new))
    }
}

impl Distinct {
    /// Returns `None` if no different item is left.
    pub(crate) fn new(rule: u32, values: Arc<Values>, seen: Seen, pending: bool, made: MemoryCounter) -> Option<Self> {
        let seen_values: Vec<Value> = seen.iter().map(|text| Value::of(text)).collect();
        let states = Mutex::new(States { states: Vec::new(), numbers: HashMap::new() });
        let rivals = (0..seen_values.len() as u32).collect();
        let distinct = Self { rule, values, seen, seen_values, pending, states, made };
        let (inner, names) = (distinct.values.nested.start(), NamesSoFar::default());
        let mut start = Entry { inner, parent: u32::MAX, byte: 0, names, rivals, may_be_any: false, ending: None };
        start.ending = distinct.ending(&Vec::new, &start, None)?;
        distinct.states().states.push(start);
        Some(distinct)
    }

    fn states(&self) -> MutexGuard<'_, States> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text so far.
    pub(crate) fn text(&self, state: u32) -> Vec<u8> {
        self.states().text(state)
    }

    /// The state before the last byte, and that byte; `None` at the start.
    pub(crate) fn before(&self, state: u32) -> Option<(u32, u8)> {
        let Entry { parent, byte, .. } = self.states().states[state as usize];
        (parent != u32::MAX).then_some((parent, byte))
    }

    /// The canonical text of the value that was written.
    pub(crate) fn value(&self, state: u32) -> Vec<u8> {
        Value::of(&self.text(state)).text()
    }

    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let mut states = self.states();
        if let Some(&known) = states.numbers.get(&(state, byte)) {
            return known;
        }
        let next = self.entry_after(&states, state, byte);
        self.made.add(MemoryCounter::NUMBER);
        let number = next.map(|entry| {
            self.made.add(entry.bytes());
            states.states.push(entry);
            states.states.len() as u32 - 1
        });
        states.numbers.insert((state, byte), number);
        number
    }

    fn entry_after(&self, states: &States, state: u32, byte: u8) -> Option<Entry> {
        let before = &states.states[state as usize];
        let inner = self.values.nested.next(before.inner, byte)?;
        let (mut names, rivals) = (before.names.clone(), before.rivals.clone());
        let entry =
            |names, rivals, may_be_any| Entry { inner, parent: state, byte, names, rivals, may_be_any, ending: None };
        if self.seen.is_empty() && !self.pending {
            return Some(entry(names, rivals, false));
        }
        let text = || {
            let mut text = states.text(state);
            text.push(byte);
            text
        };
        names.read(byte);
        let may_be_any = names.may_repeat() && !self.seen.is_empty();
        let mut entry = entry(names, rivals, may_be_any);
        if !entry.rivals.is_empty() {
            let text = text();
            let may_be = |&rival: &u32| self.seen_values[rival as usize].may_be(&text);
            if !entry.rivals.iter().all(may_be) {
                entry.rivals = entry.rivals.iter().copied().filter(may_be).collect();
            }
        }
        let known = before.ending.as_deref().and_then(|ending| ending.strip_prefix(&[byte]));
        entry.ending = self.ending(&text, &entry, known)?;
        Some(entry)
    }

    /// An ending that makes the text differ from all earlier values, if it has to be searched for (else `Some(None)`);
    /// `None` if that is impossible. `known` is an ending that is known already.
    fn ending(&self, text: &dyn Fn() -> Vec<u8>, entry: &Entry, known: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
        let Entry { inner, names, rivals, may_be_any, .. } = entry;
        if self.pending {
            // Whatever the unknown item and the others were, one more ending is left.
            let rivals = if *may_be_any { self.seen.len() } else { rivals.len() };
            return self.values.search(&text(), *inner, |nested, search| {
                search.ending(nested, rivals + 1)?;
                Some(search.ending(nested, 0).map(|ending| ending.bytes.clone()))
            });
        }
        if rivals.is_empty() && !may_be_any {
            return Some(None);
        }
        if let Some(known) = known {
            return Some(Some(known.to_vec()));
        }
        if rivals.is_empty()
            && let Some(shortest) = self.values.ending_without_repeats(*inner, names)
        {
            return Some(Some(shortest));
        }
        self.unseen(&text(), *inner, 0).map(Some)
    }

    /// The shortest ending of at least `least` bytes that makes the text differ from all earlier values.
    fn unseen(&self, text: &[u8], inner: u32, least: usize) -> Option<Vec<u8>> {
        self.values.search(text, inner, |nested, search| {
            (0..).map_while(|number| search.ending(nested, number).cloned()).find_map(|ending| {
                (ending.bytes.len() >= least && !self.has_seen(&ending.value)).then_some(ending.bytes)
            })
        })
    }

    fn has_seen(&self, value: &[u8]) -> bool {
        self.seen.binary_search_by(|seen| (**seen).cmp(value)).is_ok()
    }

    /// The state of the value in its own grammar.
    fn inner(&self, state: u32) -> u32 {
        self.states().states[state as usize].inner
    }

    /// The bytes that may come next in any item; some of them may only lead to earlier values.
    pub(crate) fn first(&self, state: u32) -> [u64; 4] {
        self.values.nested.first(self.inner(state))
    }

    /// Whether there are earlier items.
    pub(crate) fn has_predecessors(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Whether the text may become an earlier value.
    pub(crate) fn is_careful(&self, state: u32) -> bool {
        let Entry { rivals, may_be_any, .. } = &self.states().states[state as usize];
        self.pending || *may_be_any || !rivals.is_empty()
    }

    /// A probe at a state, for trying bytes after it.
    pub(crate) fn probe(&self, state: u32) -> Probe<'_> {
        let states = self.states();
        let Entry { inner, names, rivals, .. } = states.states[state as usize].clone();
        let text = states.text(state);
        let rival = |&rival: &u32| {
            let value = &self.seen_values[rival as usize];
            (value, value.begun_scalar(&text))
        };
        Probe { distinct: self, inner, names, rivals: rivals.iter().map(rival).collect(), text }
    }

    pub(crate) fn accepts(&self, state: u32) -> bool {
        !self.pending
            && self.values.nested.accepts(self.inner(state))
            && (self.seen.is_empty() || !self.has_seen(&self.value(state)))
    }

    pub(crate) fn goes_on(&self, state: u32) -> bool {
        let inner = self.inner(state);
        let has_ending =
            || self.states().states[state as usize].ending.as_ref().is_some_and(|ending| !ending.is_empty());
        self.values.nested.goes_on(inner)
            && (!self.is_careful(state) || has_ending() || self.unseen(&self.text(state), inner, 1).is_some())
    }

    /// The fewest bytes to the end of the array.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let known = self.states().states[state as usize].ending.as_ref().map(|ending| ending.len() as u64);
        known.unwrap_or_else(|| self.values.nested.to_end(self.inner(state))) + 1
    }
}

/// The text of such an item, for trying bytes after it without creating states.
pub(crate) struct Probe<'d> {
    distinct: &'d Distinct,
    inner: u32,
    names: NamesSoFar,
    /// The values that it may become, each with the scalar that the text is inside of, and the position where that
    /// begins.
    rivals: Vec<(&'d Value, Option<(&'d Value, usize)>)>,
    text: Vec<u8>,
}

impl Probe<'_> {
    /// Whether the text with one more byte may still become an earlier value, or is complete. If neither, it continues
    /// like an item without earlier ones.
    pub(crate) fn is_decisive(&mut self, byte: u8) -> bool {
        let Self { distinct, inner, names, rivals, text } = self;
        let nested = &distinct.values.nested;
        let mut names = names.clone();
        names.read(byte);
        text.push(byte);
        let may_be = |(rival, scalar): &(&Value, Option<(&Value, usize)>)| {
            let of_scalar = scalar.and_then(|(scalar, from)| scalar.may_be_begun(&text[from..]));
            of_scalar.unwrap_or_else(|| rival.may_be(text))
        };
        let is_decisive = distinct.pending
            || names.may_repeat()
            || rivals.iter().any(may_be)
            || nested.next(*inner, byte).is_some_and(|next| nested.accepts(next));
        text.pop();
        is_decisive
    }
}

impl States {
    fn text(&self, mut state: u32) -> Vec<u8> {
        let mut text = Vec::new();
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
