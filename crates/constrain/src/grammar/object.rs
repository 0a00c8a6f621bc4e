//! Shapes of objects.

use std::sync::Arc;

use super::punctuation::Punctuation;
use super::state::ObjectState;
use super::step::{Rule, sum};
use crate::terminal::Terminal;
use crate::terminal::escape::Escapes;
use crate::terminal::names::{NameTable, Named};

/// The shape of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectShape {
    pub(crate) punctuation: Punctuation,
    /// The escapes allowed in names.
    pub(crate) escapes: Escapes,
    pub(crate) table: Arc<NameTable>,
    pub(crate) properties: Vec<Property>,
    /// The kinds of other names.
    pub(crate) others: Vec<OtherNames>,
    /// Sets of properties that must not all be present.
    pub(crate) never: Vec<Vec<u32>>,
    /// Conditions of which each must be met by some property; one bit each.
    pub(crate) some: u32,
    /// The minimum number of properties, if it exceeds that of the required ones.
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
    /// Whether properties may come in any order, or only in that of the schema.
    pub(crate) any_order: bool,
}

/// The terminal of counted names, with its index, and the shortest of the names in quotes.
pub(crate) type CountedNames = ((u32, Arc<Terminal>), Vec<Vec<u8>>);

/// Names of one kind that the schema does not list.
#[derive(Clone, Debug)]
pub(crate) struct OtherNames {
    /// The fewest bytes of such a name in quotes, if that matters.
    pub(crate) name_bytes: u64,
    /// The value after such a name.
    pub(crate) value: ValueOf,
    /// If several such names are required, which then must differ: their terminal, and the shortest names in quotes,
    /// two more than the minimum number of properties, or all.
    pub(crate) counted: Option<CountedNames>,
}

/// A property that the schema names.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    /// The bytes of the name as written, with its quotes.
    pub(crate) name_bytes: u64,
    pub(crate) value: ValueOf,
    pub(crate) required: bool,
    /// Properties that must be present if this one is.
    pub(crate) implies: Vec<u32>,
}

/// The value of a property.
#[derive(Clone, Debug)]
pub(crate) struct ValueOf {
    pub(crate) rule: Rule,
    /// The rules of the values that meet conditions which some property must meet.
    pub(crate) meeting: Vec<(u32, Rule)>,
}

impl ValueOf {
    /// The rules, each with the conditions that it meets.
    pub(super) fn ways(&self) -> impl Iterator<Item = (u32, Rule)> + '_ {
        std::iter::once((0, self.rule)).chain(self.meeting.iter().copied())
    }
}

/// Whether a set of properties contains one.
pub(super) fn has(set: &[u64], number: u32) -> bool {
    set[number as usize / 64] >> (number % 64) & 1 == 1
}

/// Adds a property to a set.
pub(super) fn put(set: &mut [u64], number: u32) {
    set[number as usize / 64] |= 1 << (number % 64);
}

impl ObjectShape {
    /// An empty set of properties.
    pub(super) fn no_properties(&self) -> Vec<u64> {
        vec![0; self.properties.len().div_ceil(64)]
    }

    pub(super) fn value(&self, named: Named) -> &ValueOf {
        match named {
            Named::Known(number) => &self.properties[number as usize].value,
            Named::Other(kind) => &self.others[kind as usize].value,
        }
    }

    /// Whether names that the schema does not list must differ here because they are counted.
    pub(super) fn counts_others(&self, at: ObjectState) -> bool {
        at.certain < self.least && self.others.iter().any(|other| other.counted.is_some())
    }

    pub(super) fn follows_presence(&self) -> bool {
        !self.never.is_empty() || self.properties.iter().any(|property| !property.implies.is_empty())
    }

    /// Whether no forbidden set is complete once the missing properties are added. The present properties, with all
    /// that they imply, are the fewest that can be present in the end: if these are allowed, some ending is.
    pub(super) fn fits(&self, present: &[u64], missing: &[u32]) -> bool {
        let there = |number: &u32| has(present, *number) || missing.contains(number);
        !self.never.iter().any(|names| names.iter().all(there))
    }

    /// The bytes of a property: its name, the colon and its value.
    pub(super) fn bytes(&self, number: u32, rule: &impl Fn(Rule) -> u64) -> u64 {
        let property = &self.properties[number as usize];
        sum([property.name_bytes, self.punctuation.width, rule(property.value.rule)])
    }

    /// The properties that are still required, including all that are implied.
    pub(super) fn missing(&self, passed: &[u64], present: &[u64]) -> Vec<u32> {
        let follows = self.follows_presence();
        let there = |number: u32| if follows { has(present, number) } else { has(passed, number) };
        let mut wanted: Vec<u32> = (0..self.properties.len() as u32)
            .filter(|&number| self.properties[number as usize].required && !there(number))
            .collect();
        if follows {
            let all = 0..self.properties.len() as u32;
            let mut known: Vec<bool> = all.clone().map(there).collect();
            wanted.iter().for_each(|&number| known[number as usize] = true);
            let mut open: Vec<u32> = all.filter(|&number| known[number as usize]).collect();
            while let Some(number) = open.pop() {
                for &implied in &self.properties[number as usize].implies {
                    if !std::mem::replace(&mut known[implied as usize], true) {
                        wanted.push(implied);
                        open.push(implied);
                    }
                }
            }
        }
        wanted
    }
}
