//! Finds the shortest endings of an incomplete value, one for each resulting value.
//!
//! Texts are taken from a queue in the order of the bytes written plus the bytes missing (A*; Hart, Nilsson and Raphael
//! 1968). Of the many texts of one value only one is followed: without optional white space, and with new names in
//! sorted order if properties may come in any order.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::{HashSet, HashSetExt};

use super::json_text::{Quotes, is_space};
use super::names_so_far::NamesSoFar;
use super::nested::Nested;
use super::value::Value;

/// The maximum number of texts in one search, including nested searches: about ten milliseconds of work.
const TEXTS: u32 = 1 << 16;

thread_local! {
    /// The texts left for the running search.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A search that can be resumed.
#[derive(Debug)]
pub(super) struct ValueSearch {
    begun: Vec<u8>,
    any_order: bool,
    texts: Vec<SearchNode>,
    /// By the minimum final length, then longer texts first.
    open: BinaryHeap<(Reverse<u64>, u32, Reverse<u32>)>,
    found: Vec<Ending>,
    values: HashSet<Vec<u8>>,
}

/// A way to end a value.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) bytes: Vec<u8>,
    /// The canonical text of the resulting value.
    pub(super) value: Vec<u8>,
}

/// A text, as its last byte and the text before it.
#[derive(Clone, Copy, Debug)]
struct SearchNode {
    before: u32,
    byte: u8,
    quotes: Quotes,
    length: u32,
    state: u32,
}

impl ValueSearch {
    /// Creates a search for the endings of `begun`, which has led to `state`.
    pub(super) fn new(nested: &dyn Nested, begun: &[u8], state: u32, any_order: bool) -> Self {
        let mut quotes = Quotes::default();
        begun.iter().for_each(|&byte| quotes.read(byte));
        let start = SearchNode { before: 0, byte: 0, quotes, length: 0, state };
        let open = BinaryHeap::from([(Reverse(nested.to_end(state)), 0, Reverse(0))]);
        let (found, values) = (Vec::new(), HashSet::new());
        Self { begun: begun.to_vec(), any_order, texts: vec![start], open, found, values }
    }

    /// The ending with the given index, in order of length; `None` if there are no more or it would take too much work.
    pub(super) fn ending(&mut self, nested: &dyn Nested, number: usize) -> Option<&Ending> {
        let outer = LEFT.get();
        if outer.is_none() {
            LEFT.set(Some(TEXTS));
        }
        while self.found.len() <= number && LEFT.get() != Some(0) && self.step(nested) {}
        if outer.is_none() {
            LEFT.set(None);
        }
        self.found.get(number)
    }

    /// The approximate number of bytes used.
    pub(super) fn bytes(&self) -> usize {
        let found: usize = self.found.iter().map(|ending| 2 * ending.value.len() + ending.bytes.len() + 128).sum();
        size_of::<SearchNode>() * self.texts.capacity() + 24 * self.open.capacity() + found
    }

    /// Extends the first text of the queue; false if the queue is empty.
    fn step(&mut self, nested: &dyn Nested) -> bool {
        let Some((_, _, Reverse(number))) = self.open.pop() else { return false };
        let SearchNode { quotes, length, state, .. } = self.texts[number as usize];
        if nested.accepts(state) {
            let bytes = self.written(number);
            let value = Value::of(&[&self.begun[..], &bytes].concat()).text();
            if self.values.insert(value.clone()) {
                self.found.push(Ending { bytes, value });
            }
        }
        let mut ways: Vec<(u8, u32)> = nested.ways(state).collect();
        if !quotes.inside && ways.iter().any(|&(byte, _)| !is_space(byte)) {
            ways.retain(|&(byte, _)| !is_space(byte));
        }
        if self.any_order && !quotes.inside && ways.iter().any(|&(byte, _)| byte == b':') && !self.names_rise(number) {
            return true;
        }
        for (byte, state) in ways {
            LEFT.set(LEFT.get().map(|left| left.saturating_sub(1)));
            let mut quotes = quotes;
            quotes.read(byte);
            let text = SearchNode { before: number, byte, quotes, length: length + 1, state };
            let least = u64::from(length) + 1 + nested.to_end(state);
            self.open.push((Reverse(least), length + 1, Reverse(self.texts.len() as u32)));
            self.texts.push(text);
        }
        true
    }

    /// The bytes written after the given beginning.
    fn written(&self, mut number: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        while number != 0 {
            let SearchNode { before, byte, .. } = self.texts[number as usize];
            bytes.push(byte);
            number = before;
        }
        bytes.reverse();
        bytes
    }

    /// Whether the last name sorts after the one before it, if both are new.
    fn names_rise(&self, number: u32) -> bool {
        let text = [&self.begun[..], &self.written(number)].concat();
        match NamesSoFar::of(&text).innermost() {
            [.., (from, before), (_, last)] if *from >= self.begun.len() => before < last,
            _ => true,
        }
    }
}
