//! Demands on a value by type: what remains of a schema once its branches have been resolved.
//!
//! A schema is a union of such demands ([`crate::json::expand`]), and demands can be joined, which means obeying both.

use std::cell::OnceCell;
use std::hash::Hash;
use std::rc::Rc;

use foldhash::{HashMap, HashSet};

use crate::json::number::{Bound, Decimal};

/// A set of JSON types; `true` and `false` count as separate types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(pub(crate) u8);

impl Types {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const FALSE: Self = Self(2);
    pub(crate) const TRUE: Self = Self(4);
    pub(crate) const NUMBER: Self = Self(8);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);
    pub(crate) const ALL: Self = Self(127);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A schema by its index, and whether it must hold or must not hold.
pub(crate) type Demand = (u32, bool);

/// Schemas that a value must obey together, sorted.
pub(crate) type Key = Vec<Demand>;

/// Demands on a value of each type; those on types that it may not have are irrelevant.
#[derive(Clone, Debug)]
pub(crate) struct Flat {
    pub(crate) types: Types,
    pub(crate) numbers: Numbers,
    pub(crate) strings: Strings,
    pub(crate) arrays: Arrays,
    pub(crate) objects: Objects,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Numbers {
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    /// Whether the number must be an integer, or must not.
    pub(crate) whole: Option<bool>,
    /// Numbers that it must be a multiple of, or must not.
    pub(crate) multiples: Vec<(Decimal, bool)>,
    pub(crate) among: Option<Rc<Vec<Decimal>>>,
    pub(crate) except: Vec<Decimal>,
    /// Whether each number has only one notation.
    pub(crate) one_form: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Strings {
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
    /// Automata, by index, that must accept the string, or must not.
    pub(crate) contents: Vec<(u32, bool)>,
    pub(crate) among: Option<Rc<Vec<String>>>,
    pub(crate) except: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Arrays {
    pub(crate) items: Vec<Rc<Items>>,
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
    pub(crate) contains: Vec<ContainsSome>,
    pub(crate) unique: bool,
    pub(crate) evaluated: EvaluatedItems,
}

/// The items that the keywords of a schema evaluate, including those of schemas applied in place.
#[derive(Clone, Debug, Default)]
pub(crate) struct EvaluatedItems {
    pub(crate) first: usize,
    pub(crate) all: bool,
    /// Items that obey any of these, as found by `contains`.
    pub(crate) found: Vec<Key>,
}

#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) first: Vec<Key>,
    pub(crate) rest: Key,
}

/// A demand that a number of items obey something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainsSome {
    /// The number of leading items that are skipped.
    pub(crate) from: usize,
    pub(crate) what: Key,
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) properties: Vec<Rc<Properties>>,
    pub(crate) required: Vec<String>,
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
    /// If the first is present, the second must be.
    pub(crate) implies: Vec<(String, String)>,
    /// Sets of names that must not all be present.
    pub(crate) never: Vec<Vec<String>>,
    /// The demands on all names, as strings.
    pub(crate) names: Key,
    /// Properties of which one must be present.
    pub(crate) some: Vec<SomeProperty>,
    /// The properties that the keywords of a schema evaluate, including those of schemas applied in place.
    pub(crate) evaluated: Vec<Rc<Properties>>,
}

/// A demand that there is a property with one of some names, whose value obeys something.
#[derive(Clone, Debug)]
pub(crate) struct SomeProperty {
    pub(crate) names: SomeNames,
    pub(crate) value: Key,
}

#[derive(Clone, Debug)]
pub(crate) enum SomeNames {
    /// Names that these neither list nor match by a pattern.
    Other(Rc<Properties>),
    /// Names that the automaton with this index accepts.
    Pattern(u32),
    /// Names that obey this as strings.
    Obeying(Key),
}

#[derive(Debug, Default)]
pub(crate) struct Properties {
    pub(crate) named: Vec<(String, Key)>,
    /// By the index of an automaton.
    pub(crate) patterns: Vec<(u32, Key)>,
    /// The demands on properties that are neither named nor match a pattern.
    pub(crate) others: Key,
    /// Whether those are evaluated.
    pub(crate) evaluates_others: bool,
    /// The index of each name.
    pub(crate) index: OnceCell<HashMap<String, usize>>,
}

impl Properties {
    /// The demands on the property with a name, if it is named.
    pub(crate) fn find(&self, name: &str) -> Option<&Key> {
        let index = self.index.get_or_init(|| self.named.iter().map(|(name, _)| name.clone()).zip(0..).collect());
        index.get(name).map(|&at| &self.named[at].1)
    }

    /// The property that objects must not have, if nothing else is demanded.
    pub(crate) fn absent(&self) -> Option<&String> {
        let [(name, key)] = &self.named[..] else { return None };
        let is_all = self.patterns.is_empty() && self.others.is_empty() && !self.evaluates_others;
        (is_all && *key == [(0, false)]).then_some(name)
    }

    /// Whether no properties are allowed except the named ones.
    pub(crate) fn is_closed(&self) -> bool {
        self.patterns.is_empty() && self.others == [(0, false)]
    }
}

impl Flat {
    /// No demands on values of these types.
    pub(crate) fn of(types: Types) -> Self {
        Self {
            types,
            numbers: Numbers::default(),
            strings: Strings::default(),
            arrays: Arrays::default(),
            objects: Objects::default(),
        }
    }

    /// The conjunction of both demands; `None` if no value can obey it. Not every contradiction is detected.
    pub(crate) fn and(&self, other: &Self) -> Option<Self> {
        let mut both = self.clone();
        both.types = both.types.and(other.types);
        let types = both.types;
        if types.has(Types::NUMBER) && !both.numbers.join(&other.numbers) {
            both.types = both.types.without(Types::NUMBER);
        }
        if types.has(Types::STRING) && !both.strings.join(&other.strings) {
            both.types = both.types.without(Types::STRING);
        }
        if types.has(Types::ARRAY) && !both.arrays.join(&other.arrays) {
            both.types = both.types.without(Types::ARRAY);
        }
        if types.has(Types::OBJECT) && !both.objects.join(&other.objects) {
            both.types = both.types.without(Types::OBJECT);
        }
        (both.types != Types::NONE).then_some(both)
    }

    /// The cost of copying this, in units of a budget: the number of its parts.
    pub(crate) fn weight(&self) -> u64 {
        let Self { numbers, strings, arrays, objects, .. } = self;
        let among = |count: Option<usize>| count.unwrap_or(0);
        let parts = numbers.multiples.len()
            + numbers.except.len()
            + among(numbers.among.as_ref().map(|among| among.len()))
            + strings.contents.len()
            + strings.except.len()
            + among(strings.among.as_ref().map(|among| among.len()))
            + arrays.items.len()
            + arrays.contains.len()
            + objects.properties.len()
            + objects.required.len()
            + objects.implies.len()
            + objects.never.len()
            + objects.some.len()
            + objects.names.len()
            + objects.evaluated.len();
        4 + parts as u64
    }

    /// Whether it is certain that values which obey this also obey the other.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        let types = self.types;
        types.without(other.types) == Types::NONE
            && (!types.has(Types::NUMBER) || self.numbers.is_within(&other.numbers))
            && (!types.has(Types::STRING) || self.strings.is_within(&other.strings))
            && (!types.has(Types::ARRAY) || self.arrays.is_within(&other.arrays))
            && (!types.has(Types::OBJECT) || self.objects.is_within(&other.objects))
    }

    /// Merges a union of demands into fewer, where those for different types become one. `goes_on` is called before
    /// each, with their number so far.
    pub(crate) fn merge(flats: Vec<Self>, goes_on: impl Fn(usize) -> bool) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for flat in flats {
            if !goes_on(merged.len()) {
                break;
            }
            match merged.iter_mut().find(|other| !other.types.has(flat.types)) {
                Some(other) => other.take_in(flat),
                None => merged.push(flat),
            }
        }
        merged
    }

    fn take_in(&mut self, other: Self) {
        let types = other.types;
        self.types = self.types.or(types);
        if types.has(Types::NUMBER) {
            self.numbers = other.numbers;
        }
        if types.has(Types::STRING) {
            self.strings = other.strings;
        }
        if types.has(Types::ARRAY) {
            self.arrays = other.arrays;
        }
        if types.has(Types::OBJECT) {
            self.objects = other.objects;
        }
    }
}

/// Whether all of some demands are among others.
fn all_among<T>(some: &[T], others: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    some.iter().all(|one| others.iter().any(|other| same(one, other)))
}

/// Whether a range of sizes is within another.
fn sizes_within((least, most): (u64, Option<u64>), (other_least, other_most): (u64, Option<u64>)) -> bool {
    least >= other_least && other_most.is_none_or(|bound| most.is_some_and(|most| most <= bound))
}

/// Whether a list of values, if there is one, is within another.
fn listed_within<T: PartialEq>(some: &Option<Rc<Vec<T>>>, others: &Option<Rc<Vec<T>>>) -> bool {
    match (some, others) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(some), Some(others)) => Rc::ptr_eq(some, others) || some == others,
    }
}

/// The tighter of two bounds.
fn tighter<T>(a: Option<T>, b: Option<T>, is_tighter: impl Fn(&T, &T) -> bool) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if is_tighter(&b, &a) { b } else { a }),
        (a, b) => a.or(b),
    }
}

fn least_of(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    tighter(a, b, |a, b| a < b)
}

/// The values in both lists.
fn both<T: Eq + Hash + Clone>(a: &Option<Rc<Vec<T>>>, b: &Option<Rc<Vec<T>>>) -> Option<Rc<Vec<T>>> {
    match (a, b) {
        (Some(a), Some(b)) => {
            let b: HashSet<&T> = b.iter().collect();
            Some(Rc::new(a.iter().filter(|value| b.contains(value)).cloned().collect()))
        }
        (a, b) => a.clone().or_else(|| b.clone()),
    }
}

impl Numbers {
    /// Adds another demand; returns false if nothing is left.
    fn join(&mut self, other: &Self) -> bool {
        self.low = tighter(self.low.take(), other.low.clone(), Bound::is_tighter_below);
        self.high = tighter(self.high.take(), other.high.clone(), Bound::is_tighter_above);
        if self.whole.is_some() && other.whole.is_some() && self.whole != other.whole {
            return false;
        }
        self.whole = self.whole.or(other.whole);
        for multiple in &other.multiples {
            if !self.multiples.contains(multiple) {
                self.multiples.push(multiple.clone());
            }
        }
        self.except.extend(other.except.iter().cloned());
        self.among = both(&self.among, &other.among);
        if let (Some(low), Some(high)) = (&self.low, &self.high)
            && (high.value < low.value || high.value == low.value && !(low.inclusive && high.inclusive))
        {
            return false;
        }
        match self.among.take() {
            None => true,
            Some(among) => {
                let left: Vec<Decimal> = among.iter().filter(|value| self.admits(value)).cloned().collect();
                let some = !left.is_empty();
                self.among = Some(Rc::new(left));
                some
            }
        }
    }

    fn is_within(&self, other: &Self) -> bool {
        (other.low.is_none() || self.low == other.low)
            && (other.high.is_none() || self.high == other.high)
            && (other.whole.is_none() || self.whole == other.whole)
            && all_among(&other.multiples, &self.multiples, PartialEq::eq)
            && all_among(&other.except, &self.except, PartialEq::eq)
            && listed_within(&self.among, &other.among)
            && (self.one_form || !other.one_form)
    }

    /// Whether the size is unrestricted.
    pub(crate) fn is_free(&self) -> bool {
        (&self.low, &self.high) == (&None, &None)
            && self.multiples.is_empty()
            && self.except.is_empty()
            && self.whole != Some(false)
    }

    /// Whether a number obeys, apart from the list.
    pub(crate) fn admits(&self, value: &Decimal) -> bool {
        let above = |low: &Bound| *value > low.value || low.inclusive && *value == low.value;
        let below = |high: &Bound| *value < high.value || high.inclusive && *value == high.value;
        self.low.as_ref().is_none_or(above)
            && self.high.as_ref().is_none_or(below)
            && self.whole.is_none_or(|whole| value.is_whole() == whole)
            && self.multiples.iter().all(|(of, wanted)| value.is_multiple_of(of) == *wanted)
            && !self.except.contains(value)
    }
}

impl Strings {
    fn join(&mut self, other: &Self) -> bool {
        self.least = self.least.max(other.least);
        self.most = least_of(self.most, other.most);
        for content in &other.contents {
            if !self.contents.contains(content) {
                self.contents.push(*content);
            }
        }
        self.contents.sort_unstable();
        if self.contents.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return false;
        }
        self.except.extend(other.except.iter().cloned());
        self.among = both(&self.among, &other.among);
        if let Some(among) = self.among.take() {
            let left: Vec<String> = among.iter().filter(|text| self.has_length(text)).cloned().collect();
            let some = !left.is_empty();
            self.among = Some(Rc::new(left));
            if !some {
                return false;
            }
        }
        self.most.is_none_or(|most| self.least <= most)
    }

    fn is_within(&self, other: &Self) -> bool {
        sizes_within((self.least, self.most), (other.least, other.most))
            && all_among(&other.contents, &self.contents, PartialEq::eq)
            && all_among(&other.except, &self.except, PartialEq::eq)
            && listed_within(&self.among, &other.among)
    }

    /// Whether a text obeys, apart from the list and automata.
    pub(crate) fn has_length(&self, text: &String) -> bool {
        let length = text.chars().count() as u64;
        self.least <= length && self.most.is_none_or(|most| length <= most) && !self.except.contains(text)
    }
}

impl Arrays {
    fn join(&mut self, other: &Self) -> bool {
        self.items.extend(other.items.iter().cloned());
        self.least = self.least.max(other.least);
        self.most = least_of(self.most, other.most);
        for contains in &other.contains {
            if !self.contains.contains(contains) {
                self.contains.push(contains.clone());
            }
        }
        self.unique |= other.unique;
        self.evaluated.first = self.evaluated.first.max(other.evaluated.first);
        self.evaluated.all |= other.evaluated.all;
        self.evaluated.found.extend(other.evaluated.found.iter().cloned());
        self.most.is_none_or(|most| self.least <= most)
    }
}

impl Arrays {
    fn is_within(&self, other: &Self) -> bool {
        sizes_within((self.least, self.most), (other.least, other.most))
            && all_among(&other.items, &self.items, Rc::ptr_eq)
            && all_among(&other.contains, &self.contains, PartialEq::eq)
            && (self.unique || !other.unique)
    }
}

impl SomeProperty {
    /// Whether this is the same demand.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_names = match (&self.names, &other.names) {
            (SomeNames::Other(a), SomeNames::Other(b)) => Rc::ptr_eq(a, b),
            (SomeNames::Pattern(a), SomeNames::Pattern(b)) => a == b,
            (SomeNames::Obeying(a), SomeNames::Obeying(b)) => a == b,
            _ => false,
        };
        same_names && self.value == other.value
    }

    /// Whether closed properties leave no name for it.
    fn is_barred_by(&self, properties: &Properties) -> bool {
        let SomeNames::Other(known) = &self.names else { return false };
        properties.is_closed()
            && properties.named.iter().all(|(name, key)| *key == [(0, false)] || known.find(name).is_some())
    }
}

impl Objects {
    fn is_within(&self, other: &Self) -> bool {
        sizes_within((self.least, self.most), (other.least, other.most))
            && all_among(&other.required, &self.required, PartialEq::eq)
            && all_among(&other.properties, &self.properties, Rc::ptr_eq)
            && all_among(&other.implies, &self.implies, PartialEq::eq)
            && all_among(&other.never, &self.never, PartialEq::eq)
            && all_among(&other.names, &self.names, PartialEq::eq)
            && all_among(&other.some, &self.some, SomeProperty::is)
    }

    fn join(&mut self, other: &Self) -> bool {
        for properties in &other.properties {
            if !self.properties.iter().any(|known| Rc::ptr_eq(known, properties)) {
                self.properties.push(properties.clone());
            }
        }
        let known: HashSet<&String> = self.required.iter().collect();
        let new: Vec<String> = other.required.iter().filter(|name| !known.contains(name)).cloned().collect();
        self.required.extend(new);
        self.least = self.least.max(other.least);
        self.most = least_of(self.most, other.most);
        let new = |implied: &&(String, String)| !self.implies.contains(implied);
        let implies: Vec<_> = other.implies.iter().filter(new).cloned().collect();
        self.implies.extend(implies);
        let new = |names: &&Vec<String>| !self.never.contains(names);
        let never: Vec<_> = other.never.iter().filter(new).cloned().collect();
        self.never.extend(never);
        self.names.extend(&other.names);
        self.names.sort_unstable();
        self.names.dedup();
        self.some.extend(other.some.iter().cloned());
        self.evaluated.extend(other.evaluated.iter().cloned());
        if self.some.iter().any(|some| self.properties.iter().any(|properties| some.is_barred_by(properties))) {
            return false;
        }
        self.most.is_none_or(|most| self.least <= most && self.required.len() as u64 <= most)
    }
}
