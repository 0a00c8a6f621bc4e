//! Merges alternatives that differ only in which properties are present.
//!
//! "At most one of these" can be expressed with `oneOf` and `not` in many ways. Each becomes alternatives, and together
//! they multiply. The allowed sets of the names in question make up a table, and often one list of conditions is
//! equivalent to it: these are present, those are absent, if this one then that one, not all of these
//! ([`super::presence`]).

use std::rc::Rc;

use super::Schemas;
use super::ways::without;
use crate::json::flat::{Flat, Objects, SomeProperty, Types};

/// The maximum number of names of a table, and of one that is split into several lists of conditions.
const MAX_NAMES: usize = 12;
const MAX_CUT: usize = 8;

/// The maximum number of sets of names that must not all be present, in one list of conditions.
const MAX_NEVER: usize = 32;

/// A set of the names in question, one bit each.
type Set = u16;

/// Conditions on which names are present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Conditions {
    required: Set,
    absent: Set,
    implies: Vec<(u32, u32)>,
    never: Vec<Set>,
}

impl Conditions {
    fn allow(&self, set: Set) -> bool {
        let has = |name: u32| set >> name & 1 == 1;
        set & self.required == self.required
            && set & self.absent == 0
            && self.implies.iter().all(|&(a, b)| !has(a) || has(b))
            && self.never.iter().all(|&names| set & names != names)
    }

    /// The conditions that allow exactly the sets of a table, if there are any.
    fn of(table: &[bool], names: u32) -> Option<Self> {
        let sets = || (0..table.len() as Set).filter(|&set| table[usize::from(set)]);
        let (all, some) = sets().fold((Set::MAX, 0), |(all, some), set| (all & set, some | set));
        let required = all & (table.len() as Set).wrapping_sub(1);
        let absent = !some & (table.len() as Set).wrapping_sub(1);
        let free: Vec<u32> = (0..names).filter(|name| (some & !required) >> name & 1 == 1).collect();
        // For each name, those that are present whenever it is.
        let beside = |name: &u32| sets().filter(|set| set >> name & 1 == 1).fold(Set::MAX, |all, set| all & set);
        let pairs = free.iter().flat_map(|a| {
            let beside = beside(a);
            free.iter().filter(move |&b| a != b && beside >> b & 1 == 1).map(move |&b| (*a, b))
        });
        let implies = pairs.collect();
        // Whether a set is a subset of one that is allowed.
        let mut is_part = table.to_vec();
        for name in 0..names {
            for set in (0..is_part.len()).filter(|set| set >> name & 1 == 0) {
                is_part[set] |= is_part[set | 1 << name];
            }
        }
        let of_free = free.iter().fold(0, |set, name| set | 1 << name);
        let is_smallest = |set: &Set| {
            set & !of_free == 0
                && !is_part[usize::from(*set | required)]
                && free
                    .iter()
                    .filter(|name| set >> *name & 1 == 1)
                    .all(|name| is_part[usize::from((*set & !(1 << name)) | required)])
        };
        let never: Vec<Set> = (0..table.len() as Set).filter(is_smallest).take(MAX_NEVER + 1).collect();
        let conditions = Self { required, absent, implies, never };
        let is_exact = || (0..).zip(table).all(|(set, &allowed)| conditions.allow(set) == allowed);
        (conditions.never.len() <= MAX_NEVER && is_exact()).then_some(conditions)
    }

    /// Fewer than `most` lists of conditions that together allow the sets of a table, if they are found.
    fn cut(table: &[bool], names: u32, most: usize) -> Option<Vec<Self>> {
        let (mut rest, mut lists) = (table.to_vec(), Vec::new());
        while lists.len() + 1 < most {
            if let Some(conditions) = Self::of(&rest, names) {
                lists.push(conditions);
                return Some(lists);
            }
            if names as usize > MAX_CUT {
                return None;
            }
            // The largest part with or without one name that is equivalent to one list.
            let parts = (0..names).flat_map(|name| [(name, 0), (name, 1)]);
            let part = parts.filter_map(|(name, value)| {
                let is_in = |set: usize| set >> name & 1 == value;
                let part: Vec<bool> = rest.iter().enumerate().map(|(set, &allowed)| allowed && is_in(set)).collect();
                let size = part.iter().filter(|&&allowed| allowed).count();
                (size > 0).then(|| Some((size, Self::of(&part, names)?)))?
            });
            let (_, conditions) = part.max_by_key(|&(size, _)| size)?;
            (0..).zip(&mut rest).for_each(|(set, allowed)| *allowed &= !conditions.allow(set));
            lists.push(conditions);
        }
        None
    }
}

/// The names that an object must not have.
fn absent(objects: &Objects) -> Vec<&String> {
    objects.properties.iter().filter_map(|properties| properties.absent()).collect()
}

/// The demands on objects, except for which properties are present.
fn beside_presence(objects: &Objects) -> Objects {
    let mut rest = objects.clone();
    rest.properties.retain(|properties| properties.absent().is_none());
    (rest.required, rest.implies, rest.never) = Default::default();
    rest
}

/// Whether two have the same demands, apart from presence.
fn same(a: &Objects, b: &Objects) -> bool {
    fn list<T>(a: &[T], b: &[T], is: impl Fn(&T, &T) -> bool) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is(a, b))
    }
    (a.least, a.most) == (b.least, b.most)
        && a.names == b.names
        && list(&a.properties, &b.properties, Rc::ptr_eq)
        && list(&a.some, &b.some, SomeProperty::is)
}

/// Alternatives that are the same apart from presence.
struct Group<'f> {
    rest: Objects,
    all: Vec<&'f Objects>,
}

impl Group<'_> {
    /// The same as fewer alternatives, if they are found.
    fn united(&self, schemas: &Schemas<'_>) -> Option<Vec<Objects>> {
        let (first, all) = (self.all.first()?, &self.all);
        let is_common = |name: &String| all.iter().all(|objects| objects.required.contains(name));
        let common: Vec<String> = first.required.iter().filter(|name| is_common(name)).cloned().collect();
        if all.len() < 2 || self.rest.least > common.len() as u64 || !self.rest.some.is_empty() {
            return None;
        }
        let mut names: Vec<&String> = Vec::new();
        for objects in all {
            let implied = objects.implies.iter().flat_map(|(a, b)| [a, b]).chain(objects.never.iter().flatten());
            for name in objects.required.iter().chain(absent(objects)).chain(implied) {
                if !common.contains(name) && !names.contains(&name) {
                    names.push(name);
                }
            }
            if names.len() > MAX_NAMES {
                return None;
            }
        }
        let number = |name: &String| names.iter().position(|known| *known == name).map(|at| at as u32);
        let set = |of: &mut dyn Iterator<Item = &String>| of.filter_map(number).fold(0, |set: Set, at| set | 1 << at);
        let mut table = vec![false; 1 << names.len()];
        schemas.budget.take((all.len() * table.len() / 16) as u64 + (table.len() * names.len()) as u64);
        for objects in all {
            let absent = absent(objects);
            if absent.iter().any(|name| common.contains(name)) {
                continue;
            }
            // A name that is always present needs nothing else, and determines what it implies.
            let implies = objects.implies.iter().filter(|(_, b)| !common.contains(b));
            let (mut required, mut pairs) = (set(&mut objects.required.iter()), Vec::new());
            for (a, b) in implies {
                match (number(a), number(b)?) {
                    (Some(a), b) => pairs.push((a, b)),
                    (None, b) => required |= 1 << b,
                }
            }
            let never = objects.never.iter().map(|names| set(&mut names.iter())).collect();
            let absent = set(&mut absent.into_iter());
            let conditions = Conditions { required, absent, implies: pairs, never };
            (0..).zip(&mut table).for_each(|(set, allowed)| *allowed |= conditions.allow(set));
        }
        let lists = Conditions::cut(&table, names.len() as u32, all.len())?;
        let of = |set: Set| (0..names.len()).filter(move |at| set >> at & 1 == 1).map(|at| names[at].clone());
        let objects = lists.into_iter().map(|Conditions { required, absent, implies, never }| {
            let mut objects = self.rest.clone();
            objects.required = common.iter().cloned().chain(of(required)).collect();
            objects.properties.extend(of(absent).flat_map(|name| without(&name).objects.properties));
            let name = |at: u32| names[at as usize].clone();
            objects.implies = implies.into_iter().map(|(a, b)| (name(a), name(b))).collect();
            objects.never = never.into_iter().map(|set| of(set).collect()).collect();
            objects
        });
        Some(objects.collect())
    }
}

impl Schemas<'_> {
    /// The same ways, where those for objects are merged if they differ only in presence.
    pub(crate) fn united(&self, ways: &Rc<Vec<Flat>>) -> Rc<Vec<Flat>> {
        if self.looks_back {
            return ways.clone();
        }
        let mut groups: Vec<Group<'_>> = Vec::new();
        for way in ways.iter().filter(|way| way.types.has(Types::OBJECT)) {
            let rest = beside_presence(&way.objects);
            self.budget.take(1 + groups.len() as u64);
            match groups.iter_mut().find(|group| same(&group.rest, &rest)) {
                Some(group) => group.all.push(&way.objects),
                None => groups.push(Group { rest, all: vec![&way.objects] }),
            }
        }
        let united: Vec<Option<Vec<Objects>>> = groups.iter().map(|group| group.united(self)).collect();
        if united.iter().all(Option::is_none) {
            return ways.clone();
        }
        let others = ways.iter().filter(|way| way.types != Types::OBJECT).map(|way| {
            let types = way.types.without(Types::OBJECT);
            Flat { types, ..way.clone() }
        });
        let objects = groups.iter().zip(united).flat_map(|(group, united)| {
            united.unwrap_or_else(|| group.all.iter().map(|objects| (*objects).clone()).collect())
        });
        let objects = objects.map(|objects| Flat { objects, ..Flat::of(Types::OBJECT) });
        Rc::new(Flat::merge(others.chain(objects).collect(), |_| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For every table of three names, and many of four, the lists allow the same sets.
    #[test]
    fn tables_stay_what_they_are() {
        for (names, tables) in [(3u32, 0..256u32), (4, 0..1 << 16)] {
            for number in tables.step_by(if names == 3 { 1 } else { 7 }) {
                let table: Vec<bool> = (0..1usize << names).map(|set| number >> set & 1 == 1).collect();
                if !table.contains(&true) {
                    continue;
                }
                let Some(lists) = Conditions::cut(&table, names, 9) else { continue };
                for (set, &allowed) in (0..).zip(&table) {
                    assert_eq!(lists.iter().any(|list| list.allow(set)), allowed, "{number:b}: {lists:?}");
                }
            }
        }
        let at_most_one = [true, true, true, false, true, false, false, false];
        let lists = Conditions::cut(&at_most_one, 3, 4).unwrap();
        assert_eq!(lists, [Conditions { never: vec![3, 5, 6], ..Conditions::default() }]);
        let exactly_one = [false, true, true, false];
        assert_eq!(Conditions::cut(&exactly_one, 2, 2), None, "it takes two");
        assert_eq!(Conditions::cut(&exactly_one, 2, 3).unwrap().len(), 2);
    }
}
