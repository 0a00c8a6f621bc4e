//! All objects and arrays of a grammar.

use std::sync::Arc;

use super::array::{ArrayShape, Counted, CountedItem, Unique};
use super::object::{ObjectShape, ValueOf};
use super::state::{ArrayState, ObjectState};
use super::step::{Container, NO_END, Rule};
use crate::terminal::fresh::Seen;
use crate::terminal::names::NameTable;

/// The shapes of all objects and arrays, by index, and the shortest lengths of their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shapes {
    objects: Vec<Arc<ObjectShape>>,
    arrays: Vec<Arc<ArrayShape>>,
    /// The fewest bytes of each rule.
    rules: Vec<u64>,
}

impl Shapes {
    /// Adds an object.
    pub(crate) fn object(&mut self, shape: ObjectShape) -> Container {
        self.objects.push(Arc::new(shape));
        Container::Object(self.objects.len() as u32 - 1)
    }

    /// Adds an array.
    pub(crate) fn array(&mut self, shape: ArrayShape) -> Container {
        self.arrays.push(Arc::new(shape));
        Container::Array(self.arrays.len() as u32 - 1)
    }

    /// The shape of an object.
    pub(super) fn of_object(&self, state: ObjectState) -> &Arc<ObjectShape> {
        &self.objects[state.shape as usize]
    }

    /// The shape of an array.
    pub(super) fn of_array(&self, state: ArrayState) -> &Arc<ArrayShape> {
        &self.arrays[state.shape as usize]
    }

    /// The empty set of an object's properties.
    pub(super) fn no_properties(&self, shape: u32) -> Vec<u64> {
        self.objects[shape as usize].no_properties()
    }

    /// Adds all shapes of another grammar, offsetting the indices of rules and terminals; returns the offsets of its
    /// objects and arrays.
    pub(super) fn take_in(&mut self, other: &Self, rules: u32, terminals: u32) -> (u32, u32) {
        let first = (self.objects.len() as u32, self.arrays.len() as u32);
        let renumber = |list: &mut Vec<Rule>| list.iter_mut().for_each(|rule| *rule += rules);
        let value = |value: &mut ValueOf| {
            value.rule += rules;
            value.meeting.iter_mut().for_each(|(_, rule)| *rule += rules);
        };
        for mut shared in other.objects.iter().cloned() {
            let shape = Arc::make_mut(&mut shared);
            shape.punctuation.renumber(terminals);
            shape.properties.iter_mut().for_each(|property| value(&mut property.value));
            for other in &mut shape.others {
                value(&mut other.value);
                other.counted.iter_mut().for_each(|((number, _), _)| *number += terminals);
            }
            self.objects.push(shared);
        }
        for mut shared in other.arrays.iter().cloned() {
            let shape = Arc::make_mut(&mut shared);
            shape.punctuation.renumber(terminals);
            renumber(&mut shape.first);
            shape.rest += rules;
            for item in shape.counted.iter_mut().flat_map(|counted| &mut counted.items) {
                renumber(&mut item.first);
                item.rest += rules;
            }
            if let Some(Unique::AsTexts(unique)) = &mut shape.unique {
                unique.iter_mut().for_each(|(number, _)| *number += terminals);
            }
            self.arrays.push(shared);
        }
        first
    }

    /// The rules that the distance to the end of an object or array depends on.
    pub(super) fn rules_of(&self, container: Container) -> Vec<Rule> {
        match container {
            Container::Object(shape) => {
                let shape = &self.objects[shape as usize];
                let follows = shape.follows_presence() || shape.least > 0 || shape.some > 0;
                let matters = shape.properties.iter().filter(|property| property.required || follows);
                let others = if follows { &shape.others[..] } else { &[] };
                let others = others.iter().map(|other| &other.value);
                let values = matters.map(|property| &property.value).chain(others);
                values.flat_map(ValueOf::ways).map(|(_, rule)| rule).collect()
            }
            Container::Array(shape) => {
                let ArrayShape { first, rest, counted, .. } = &*self.arrays[shape as usize];
                let mut rules: Vec<Rule> = first.iter().copied().chain([*rest]).collect();
                for CountedItem { first, rest, .. } in counted.iter().flat_map(|counted| &counted.items) {
                    rules.extend(first.iter().chain([rest]));
                }
                rules
            }
        }
    }

    /// Stores the fewest bytes of each rule, and removes names that no value can follow.
    pub(super) fn settle(&mut self, rules: &[u64]) {
        self.rules = rules.to_vec();
        for shared in &mut self.objects {
            let shape = &**shared;
            let lives = |kind: u32| rules[shape.others[kind as usize].value.rule as usize] != NO_END;
            if !(0..shape.others.len() as u32).all(lives) {
                let names: Vec<&str> = shape.properties.iter().map(|property| property.name.as_str()).collect();
                let table = NameTable::new(&names, shape.table.others_of(lives));
                let has_others = (0..shape.others.len() as u32).any(lives);
                let shape = Arc::make_mut(shared);
                shape.table = Arc::new(table.expect("it was larger before"));
                if !has_others {
                    shape.others.clear();
                }
            }
        }
    }

    /// The fewest bytes of each rule, as a function.
    pub(super) fn rule(&self) -> impl Fn(Rule) -> u64 + use<'_> {
        |rule| self.rules[rule as usize]
    }

    /// The fewest bytes from just inside an object or array to its end.
    pub(super) fn first_distance(&self, container: Container, rule: impl Fn(Rule) -> u64) -> u64 {
        let (rest, width) = match container {
            Container::Object(number) => {
                let shape = &self.objects[number as usize];
                let empty = shape.no_properties();
                let start = ObjectState::start(number, 0, 0);
                (shape.rest((&empty, &empty), start, &Seen::default(), &rule), shape.punctuation.width)
            }
            Container::Array(number) => {
                let shape = &self.arrays[number as usize];
                (shape.rest(0, 0, &Seen::default(), &rule), shape.punctuation.width)
            }
        };
        match rest {
            // There is one comma fewer than items.
            Some((_, 0)) => 1,
            Some((bytes, _)) => bytes - width + 1,
            None => NO_END,
        }
    }

    /// The work of computing the distance to the end of an object or array, in units of a budget.
    pub(super) fn work(&self, container: Container) -> u64 {
        match container {
            Container::Object(shape) => {
                let shape = &self.objects[shape as usize];
                let sets = u64::from(shape.some) + 1;
                (shape.properties.len() + shape.others.len()) as u64 * sets / 4 + u64::from(shape.least.min(1 << 12))
            }
            Container::Array(shape) => {
                let shape = &self.arrays[shape as usize];
                let first = shape.first.len() as u64;
                let horizon = |counted: &Counted| {
                    let items = counted.items.len() as u64 * u64::from(counted.numbers());
                    (first.max(shape.least.into()) + u64::from(counted.wanted(0))) * items / 4
                };
                first / 4 + shape.counted.as_ref().map_or(0, horizon)
            }
        }
    }
}
