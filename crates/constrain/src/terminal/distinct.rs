//! Items of an array, of any types, that differ from all before them as values.
//!
//! What has been written of an item is kept with its state, so it can be compared with what has come. As long as it can
//! become none of that, it goes on as any value; else an ending is looked for that makes it another value, and where
//! there is none, the text cannot go on so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::{HashMap, HashMapExt};

use super::fresh::Seen;
use super::made::Made;
use super::names_so_far::NamesSoFar;
use super::nested::Nested;
use super::value::Value;
use super::value_search::ValueSearch;

/// So many searches are kept.
const SEARCHES: usize = 16;

/// Endings of so many bytes are tried before a search.
const LONGEST: u64 = 1 << 10;

/// The values that a rule describes, for all items that must be such.
#[derive(Debug)]
pub(crate) struct Values {
    nested: Box<dyn Nested>,
    any_order: bool,
    /// By the text from which on they look for endings.
    searches: Mutex<HashMap<Vec<u8>, ValueSearch>>,
}

/// An item that has not come.
#[derive(Debug)]
pub(crate) struct Distinct {
    /// The rule of the item.
    pub(crate) rule: u32,
    values: Arc<Values>,
    /// What has come, as texts that stand for values, and as values.
    seen: Seen,
    seen_values: Vec<Value>,
    /// Whether one more item than those has come, of which it is not known what it was. Then no item can end here: only
    /// tokens that hold two items come to that.
    pending: bool,
    states: Mutex<States>,
    made: Made,
}

#[derive(Debug)]
struct States {
    states: Vec<Entry>,
    numbers: HashMap<(u32, u8), Option<u32>>,
}

/// What has been written of an item.
#[derive(Clone, Debug)]
struct Entry {
    /// The state of the value by itself.
    inner: u32,
    parent: u32,
    byte: u8,
    names: NamesSoFar,
    /// Which of the values that have come it may still become without a name that comes twice, by their numbers.
    rivals: Arc<[u32]>,
    /// Whether it may become any of them, for a name may come again and change what has been written.
    may_be_any: bool,
    /// The bytes of an ending that makes it none of them, where that had to be looked for.
    ending: Option<Vec<u8>>,
}

impl Entry {
    /// About how many bytes it takes, with the room that a list keeps free.
    fn bytes(&self) -> usize {
        let ending = self.ending.as_ref().map_or(0, Vec::capacity);
        2 * size_of::<Self>() + self.names.bytes() + size_of_val(&self.rivals[..]) + ending
    }
}

impl Values {
    pub(crate) fn new(nested: Box<dyn Nested>, any_order: bool) -> Self {
        Self { nested, any_order, searches: Mutex::default() }
    }

    /// About how many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        let searches = self.searches.lock().unwrap_or_else(PoisonError::into_inner);
        size_of::<Self>() + self.nested.bytes() + searches.values().map(ValueSearch::bytes).sum::<usize>()
    }

    /// The shortest ending of a value in a state, if no name comes twice with it.
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

    /// Asks a search from a text on, which has led to a state.
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
    /// No items where none is left.
    pub(crate) fn new(rule: u32, values: Arc<Values>, seen: Seen, pending: bool, made: Made) -> Option<Self> {
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

    /// What has been written.
    pub(crate) fn text(&self, state: u32) -> Vec<u8> {
        self.states().text(state)
    }

    /// The state before the last byte, and that byte; `None` before the first.
    pub(crate) fn before(&self, state: u32) -> Option<(u32, u8)> {
        let Entry { parent, byte, .. } = self.states().states[state as usize];
        (parent != u32::MAX).then_some((parent, byte))
    }

    /// The text that stands for the value that has been written.
    pub(crate) fn value(&self, state: u32) -> Vec<u8> {
        Value::of(&self.text(state)).text()
    }

    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let mut states = self.states();
        if let Some(&known) = states.numbers.get(&(state, byte)) {
            return known;
        }
        let next = self.entry_after(&states, state, byte);
        self.made.add(Made::NUMBER);
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

    /// An ending that makes a text none of the values that have come, if it has to be looked for; `known` is one, where
    /// there is. No item where there is none.
    fn ending(&self, text: &dyn Fn() -> Vec<u8>, entry: &Entry, known: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
        let Entry { inner, names, rivals, may_be_any, .. } = entry;
        if self.pending {
            // Whatever the last item was, and whichever the others, one more is left.
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

    /// The shortest ending of so many bytes or more that makes a text none of the values that have come.
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

    /// The state of the value by itself.
    fn inner(&self, state: u32) -> u32 {
        self.states().states[state as usize].inner
    }

    /// The bytes that may come next in any item; some of them may lead to nothing but what has come.
    pub(crate) fn first(&self, state: u32) -> [u64; 4] {
        self.values.nested.first(self.inner(state))
    }

    /// Whether other items have come.
    pub(crate) fn has_predecessors(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Whether a text may become a value that has come.
    pub(crate) fn is_careful(&self, state: u32) -> bool {
        let Entry { rivals, may_be_any, .. } = &self.states().states[state as usize];
        self.pending || *may_be_any || !rivals.is_empty()
    }

    /// What a text has come to, to try bytes after it.
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

/// A text in such an item, to try bytes after it without making states.
pub(crate) struct Probe<'d> {
    distinct: &'d Distinct,
    inner: u32,
    names: NamesSoFar,
    /// The values that it may become, with the scalar in each that it has begun and where.
    rivals: Vec<(&'d Value, Option<(&'d Value, usize)>)>,
    text: Vec<u8>,
}

impl Probe<'_> {
    /// Whether the text, with one more byte, may still become a value that has come, or is whole. If neither, it goes on
    /// as in an item before which nothing has come.
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
