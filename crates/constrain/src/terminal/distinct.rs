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
    /// Which of the values that have come it may still become.
    rivals: Rivals,
    /// The bytes of an ending that makes it none of them, where that had to be looked for.
    ending: Option<Vec<u8>>,
}

impl Entry {
    /// About how many bytes it takes, with the room that a list keeps free.
    fn bytes(&self) -> usize {
        let rivals = match &self.rivals {
            Rivals::All => 0,
            Rivals::Some(rivals) => size_of_val(&rivals[..]),
        };
        2 * size_of::<Self>() + rivals + self.ending.as_ref().map_or(0, Vec::capacity)
    }
}

/// Values that have come, by their numbers.
#[derive(Clone, Debug)]
enum Rivals {
    /// All, for a name may come again and change what has been written.
    All,
    Some(Arc<[u32]>),
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
        let all = Rivals::Some((0..seen_values.len() as u32).collect());
        let distinct = Self { rule, values, seen, seen_values, pending, states, made };
        let inner = distinct.values.nested.start();
        let ending = distinct.ending(&[], inner, &all, None)?;
        let start = Entry { inner, parent: u32::MAX, byte: 0, rivals: all, ending };
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
        if self.seen.is_empty() && !self.pending {
            let rivals = before.rivals.clone();
            return Some(Entry { inner, parent: state, byte, rivals, ending: None });
        }
        let mut text = states.text(state);
        text.push(byte);
        let rivals = self.rivals(&before.rivals, &text);
        let known = before.ending.as_deref().and_then(|ending| ending.strip_prefix(&[byte]));
        let ending = self.ending(&text, inner, &rivals, known)?;
        Some(Entry { inner, parent: state, byte, rivals, ending })
    }

    /// The values that a text may become, where what it began with might have become some.
    fn rivals(&self, before: &Rivals, text: &[u8]) -> Rivals {
        if NamesSoFar::of(text).may_repeat {
            return Rivals::All;
        }
        let may_be = |&rival: &u32| self.seen_values[rival as usize].may_be(text);
        Rivals::Some(match before {
            Rivals::All => (0..self.seen_values.len() as u32).filter(may_be).collect(),
            Rivals::Some(rivals) if rivals.iter().all(may_be) => rivals.clone(),
            Rivals::Some(rivals) => rivals.iter().copied().filter(may_be).collect(),
        })
    }

    /// An ending that makes a text none of the values that have come, if it has to be looked for; `known` is one, where
    /// there is. No item where there is none.
    fn ending(&self, text: &[u8], inner: u32, rivals: &Rivals, known: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
        let rivals = match rivals {
            Rivals::All => self.seen.len(),
            Rivals::Some(rivals) => rivals.len(),
        };
        if self.pending {
            // Whatever the last item was, and whichever the others, one more is left.
            return self.values.search(text, inner, |nested, search| {
                search.ending(nested, rivals + 1)?;
                Some(search.ending(nested, 0).map(|ending| ending.bytes.clone()))
            });
        }
        if rivals == 0 {
            return Some(None);
        }
        if let Some(known) = known {
            return Some(Some(known.to_vec()));
        }
        self.unseen(text, inner, 0).map(Some)
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

    /// The bytes that may come next in any item; some of them may lead to nothing but what has come.
    pub(crate) fn first(&self, state: u32) -> [u64; 4] {
        let inner = self.states().states[state as usize].inner;
        self.values.nested.first(inner)
    }

    /// Whether other items have come.
    pub(crate) fn has_predecessors(&self) -> bool {
        !self.seen.is_empty()
    }

    /// Whether a text may become a value that has come.
    pub(crate) fn is_careful(&self, state: u32) -> bool {
        self.pending
            || match &self.states().states[state as usize].rivals {
                Rivals::All => !self.seen.is_empty(),
                Rivals::Some(rivals) => !rivals.is_empty(),
            }
    }

    pub(crate) fn accepts(&self, state: u32) -> bool {
        let (inner, text) = {
            let states = self.states();
            (states.states[state as usize].inner, states.text(state))
        };
        !self.pending
            && self.values.nested.accepts(inner)
            && (self.seen.is_empty() || !self.has_seen(&Value::of(&text).text()))
    }

    pub(crate) fn goes_on(&self, state: u32) -> bool {
        let Entry { inner, ending, .. } = self.states().states[state as usize].clone();
        self.values.nested.goes_on(inner)
            && (!self.is_careful(state)
                || ending.is_some_and(|ending| !ending.is_empty())
                || self.unseen(&self.text(state), inner, 1).is_some())
    }

    /// The fewest bytes to the end of the array.
    pub(crate) fn to_end(&self, state: u32) -> u64 {
        let Entry { inner, ending, .. } = self.states().states[state as usize].clone();
        ending.map_or_else(|| self.values.nested.to_end(inner), |ending| ending.len() as u64) + 1
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
