//! The parts of objects and arrays written so far: interned sets of properties and of items.

use foldhash::HashMap;

use crate::grammar::object::put;
use crate::grammar::shapes::Shapes;
use crate::grammar::state::{ObjectState, State};
use crate::grammar::step::NO_END;
use crate::terminal::fresh::Seen;
use crate::terminal::names::Named;

/// The sets that states refer to by number.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Sets of properties.
    sets: Vec<Box<[u64]>>,
    set_numbers: HashMap<Box<[u64]>, u32>,
    /// Sets of items that must all differ.
    seen: Vec<Seen>,
    seen_numbers: HashMap<Seen, u32>,
    /// The number of the empty set of items.
    nothing_seen: u32,
    bytes: usize,
}

impl Written {
    pub(super) fn new() -> Self {
        let mut written = Self::default();
        written.nothing_seen = written.seen_number(Seen::default());
        written
    }

    /// The approximate number of bytes of the sets.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the empty set of items.
    pub(super) fn nothing_seen(&self) -> u32 {
        self.nothing_seen
    }

    /// The properties that cannot come any more, and those that are present, if that matters.
    pub(super) fn properties(&self, at: ObjectState) -> (&[u64], &[u64]) {
        (&self.sets[at.passed as usize], &self.sets[at.present as usize])
    }

    /// A set of items.
    pub(super) fn seen(&self, number: u32) -> &Seen {
        &self.seen[number as usize]
    }

    /// The number of a set of items.
    fn seen_number(&mut self, seen: Seen) -> u32 {
        if let Some(&number) = self.seen_numbers.get(&seen) {
            return number;
        }
        self.bytes += 128 + seen.iter().map(|text| 32 + text.len()).sum::<usize>();
        self.seen.push(seen.clone());
        let number = self.seen.len() as u32 - 1;
        self.seen_numbers.insert(seen, number);
        number
    }

    /// The number of a set of properties.
    pub(super) fn set(&mut self, set: Vec<u64>) -> u32 {
        let set = set.into_boxed_slice();
        if let Some(&number) = self.set_numbers.get(&set) {
            return number;
        }
        self.bytes += 64 + 2 * size_of_val(&*set);
        self.sets.push(set.clone());
        let number = self.sets.len() as u32 - 1;
        self.set_numbers.insert(set, number);
        number
    }

    /// The fewest bytes from after a value to the end.
    pub(super) fn to_end_later(&self, shapes: &Shapes, state: State) -> u64 {
        let rest = match state {
            State::Object { state: at, .. } => {
                let (passed, present) = (&self.sets[at.passed as usize], &self.sets[at.present as usize]);
                let seen = &self.seen[at.seen as usize];
                shapes.of_object(at).rest((passed, present), at, seen, &shapes.rule())
            }
            State::Array { state: at, .. } => {
                let seen = &self.seen[at.seen as usize];
                shapes.of_array(at).rest(at.index, at.matched, seen, &shapes.rule())
            }
        };
        rest.map_or(NO_END, |(bytes, _)| bytes.saturating_add(1))
    }

    /// The state after one more property, except for its sets, which are returned next to it.
    pub(super) fn advanced(&self, shapes: &Shapes, at: ObjectState, named: Named) -> (Vec<u64>, Vec<u64>, ObjectState) {
        let shape = shapes.of_object(at);
        let count = shape.most.map_or(0, |most| (at.count + 1).min(most));
        let certain = (at.certain + 1).min(shape.least);
        // Once there are enough, it does not matter which they are.
        let (seen, pending) = if certain < shape.least { (at.seen, at.pending) } else { (self.nothing_seen, false) };
        let mut passed = self.sets[at.passed as usize].to_vec();
        let mut present = self.sets[at.present as usize].to_vec();
        match (shape.any_order, named) {
            (true, Named::Known(number)) => put(&mut passed, number),
            (false, Named::Known(number)) => (0..=number).for_each(|number| put(&mut passed, number)),
            (true, Named::Other(_)) => {}
            // In schema order they come last.
            (false, Named::Other(_)) => (0..shape.properties.len() as u32).for_each(|number| put(&mut passed, number)),
        }
        if let (true, Named::Known(number)) = (shape.follows_presence(), named) {
            put(&mut present, number);
        }
        (passed, present, ObjectState { count, certain, seen, pending, ..at })
    }

    /// The state after one more property.
    pub(super) fn after_property(&mut self, shapes: &Shapes, at: ObjectState, named: Named) -> ObjectState {
        let (passed, present, at) = self.advanced(shapes, at, named);
        ObjectState { passed: self.set(passed), present: self.set(present), ..at }
    }

    /// The state after one more property whose name is counted; `name` is `None` if it is not known.
    pub(super) fn after_counted(
        &mut self,
        shapes: &Shapes,
        at: ObjectState,
        kind: u32,
        name: Option<Vec<u8>>,
    ) -> ObjectState {
        let next = self.after_property(shapes, at, Named::Other(kind));
        if next.certain == shapes.of_object(at).least {
            return next;
        }
        match name {
            Some(name) => ObjectState { seen: self.with(next.seen, name), ..next },
            None => ObjectState { pending: true, ..next },
        }
    }

    /// The set with one more text added.
    pub(super) fn with(&mut self, seen: u32, text: Vec<u8>) -> u32 {
        let mut seen = Vec::clone(&self.seen[seen as usize]);
        let text = text.into_boxed_slice();
        if let Err(at) = seen.binary_search(&text) {
            seen.insert(at, text);
        }
        self.seen_number(Seen::new(seen))
    }
}
