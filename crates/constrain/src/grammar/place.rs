//! Inside objects and arrays: what may come next, and how many bytes the end is away.
//!
//! There are as many places in an object as sets of properties that may have been written, so places are made when a
//! text first comes to one.

use std::sync::Arc;

use foldhash::HashMap;

use crate::grammar::{At, Grammar, NO_END, Rule, Step};
use crate::json::style::Escapes;
use crate::terminal::Terminal;
use crate::terminal::fresh::{Ends, Fresh, Seen, shortest};
use crate::terminal::names::{NameTable, Named, Names};
use crate::terminal::quoted::Quoted;

/// What an object must be.
#[derive(Clone, Debug)]
pub(crate) struct ObjectShape {
    pub(crate) punctuation: Punctuation,
    /// The escapes in names.
    pub(crate) escapes: Escapes,
    pub(crate) table: Arc<NameTable>,
    pub(crate) properties: Vec<Property>,
    /// Each kind of other name.
    pub(crate) others: Vec<OtherNames>,
    /// Demands that some property must meet, whichever it is; a bit each.
    pub(crate) some: u32,
    /// How many properties there must be, where those that are required are fewer.
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
    /// Whether properties may come in any order, or in that of the schema.
    pub(crate) any_order: bool,
}

/// The terminal of names that are counted, with its number, and the shortest of them in quotes.
pub(crate) type CountedNames = ((u32, Arc<Terminal>), Vec<Vec<u8>>);

/// Names of one kind that the schema does not give.
#[derive(Clone, Debug)]
pub(crate) struct OtherNames {
    /// The fewest bytes of one in quotes, where that matters.
    pub(crate) name_bytes: u64,
    /// The value after one.
    pub(crate) value: ValueOf,
    /// Where several of them must be there, which then differ: the terminal of such a name, and the shortest names in
    /// quotes, two more than there must be properties, or all.
    pub(crate) counted: Option<CountedNames>,
}

/// A property that the schema names.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    /// The bytes of the name as it is written, with its quotes.
    pub(crate) name_bytes: u64,
    pub(crate) value: ValueOf,
    pub(crate) required: bool,
    /// Properties that must be there if this one is.
    pub(crate) implies: Vec<u32>,
}

/// The value of a property.
#[derive(Clone, Debug)]
pub(crate) struct ValueOf {
    pub(crate) rule: Rule,
    /// The rules of those values that meet demands which some property must meet.
    pub(crate) meeting: Vec<(u32, Rule)>,
}

impl ValueOf {
    /// The rules, with the demands that they meet.
    fn ways(&self) -> impl Iterator<Item = (u32, Rule)> + '_ {
        std::iter::once((0, self.rule)).chain(self.meeting.iter().copied())
    }
}

/// What an array must be.
#[derive(Clone, Debug)]
pub(crate) struct ArrayShape {
    pub(crate) punctuation: Punctuation,
    /// The rules of the first items, and of those that follow.
    pub(crate) first: Vec<Rule>,
    pub(crate) rest: Rule,
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
    pub(crate) counted: Option<Counted>,
    /// Where all items are different: the terminals of an item.
    pub(crate) unique: Option<Vec<(u32, Arc<Terminal>)>>,
}

/// Some items of an array must be of some kinds.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// How many of each kind, at least and at most.
    pub(crate) bounds: Vec<(u32, Option<u32>)>,
    /// Items that count for some of the kinds.
    pub(crate) items: Vec<CountedItem>,
}

/// An item that counts for the kinds with these bits; for others it does not, where they have an upper bound.
#[derive(Clone, Debug)]
pub(crate) struct CountedItem {
    pub(crate) kinds: u32,
    /// Its rules at each place as in the array.
    pub(crate) first: Vec<Rule>,
    pub(crate) rest: Rule,
}

/// The terminals of the punctuation of JSON, with the white space around them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Punctuation {
    pub(crate) open_object: u32,
    pub(crate) open_array: u32,
    /// Just after an opening sign, and later.
    pub(crate) close_object: [u32; 2],
    pub(crate) close_array: [u32; 2],
    pub(crate) comma: u32,
    pub(crate) colon: u32,
    /// The fewest bytes of a comma and of a colon.
    pub(crate) width: u64,
}

impl Punctuation {
    fn renumber(&mut self, terminals: u32) {
        let pairs = self.close_object.iter_mut().chain(&mut self.close_array);
        let single = [&mut self.open_object, &mut self.open_array, &mut self.comma, &mut self.colon];
        pairs.chain(single).for_each(|number| *number += terminals);
    }
}

/// All objects, arrays and places of a grammar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    objects: Vec<Arc<ObjectShape>>,
    arrays: Vec<Arc<ArrayShape>>,
    places: Vec<Place>,
    /// The step of each place.
    steps: HashMap<Place, At>,
    /// Steps between places, by what they do.
    made: HashMap<(bool, u32, At), At>,
    /// Sets of properties.
    sets: Vec<Box<[u64]>>,
    set_numbers: HashMap<Box<[u64]>, u32>,
    /// Sets of items that are all different.
    seen: Vec<Seen>,
    seen_numbers: HashMap<Seen, u32>,
    /// The number of the empty set.
    none_seen: u32,
    /// The fewest bytes of each rule.
    rules: Vec<u64>,
    /// About how many bytes places and sets take.
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Object { at: InObject, phase: Phase },
    Array { at: InArray, phase: Phase },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// After the opening sign.
    First,
    /// After a value.
    Later,
    /// Before a name.
    Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InObject {
    shape: u32,
    /// Properties that cannot come any more.
    passed: u32,
    /// Those that are there, where that matters.
    present: u32,
    /// How many properties there are, where that is bounded from above.
    count: u32,
    /// How many different ones there are, where that is bounded from below, up to that bound.
    certain: u32,
    /// The names so far that the schema does not give, by the number of their set, until there are enough; and whether there
    /// is one more, which is not known yet.
    seen: u32,
    pending: bool,
    /// The demands that have been met of those that some property must meet.
    met: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InArray {
    shape: u32,
    /// How many items there are, as far as that matters.
    index: u32,
    /// How many of them are of the kinds that are counted: a digit for each.
    matched: u32,
    /// The items so far, where all are different, by the number of their set; and whether there is one more, which is not
    /// known yet.
    seen: u32,
    pending: bool,
}

fn has(set: &[u64], number: u32) -> bool {
    set[number as usize / 64] >> (number % 64) & 1 == 1
}

fn put(set: &mut [u64], number: u32) {
    set[number as usize / 64] |= 1 << (number % 64);
}

/// Sums of ways to the end, of which none may be there.
fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

impl ObjectShape {
    fn value(&self, named: Named) -> &ValueOf {
        match named {
            Named::Known(number) => &self.properties[number as usize].value,
            Named::Other(kind) => &self.others[kind as usize].value,
        }
    }

    /// Whether names that the schema does not give must differ here, for they are counted.
    fn counts_others(&self, at: InObject) -> bool {
        at.certain < self.least && self.others.iter().any(|other| other.counted.is_some())
    }

    fn follows_presence(&self) -> bool {
        self.properties.iter().any(|property| !property.implies.is_empty())
    }

    /// The bytes of a property: its name, the colon and its value.
    fn bytes(&self, number: u32, rule: &impl Fn(Rule) -> u64) -> u64 {
        let property = &self.properties[number as usize];
        sum([property.name_bytes, self.punctuation.width, rule(property.value.rule)])
    }

    /// What the cheapest properties take that may still come beside those that are missing, each with a comma: so many, or
    /// all where there are fewer.
    fn cheapest(
        &self,
        (passed, missing): (&[u64], &[u32]),
        (at, seen): (InObject, &Seen),
        wanted: usize,
        rule: &impl Fn(Rule) -> u64,
    ) -> Vec<u64> {
        // Those that nothing else depends on.
        let free = (0..self.properties.len() as u32).filter(|number| {
            !has(passed, *number) && !missing.contains(number) && self.properties[*number as usize].implies.is_empty()
        });
        let mut ways: Vec<u64> = free.map(|number| self.bytes(number, rule)).collect();
        let mut others = Vec::new();
        for OtherNames { name_bytes, value, counted } in &self.others {
            let with = |name: u64| sum([name, self.punctuation.width, rule(value.rule)]);
            match counted {
                None => others.push(with(*name_bytes)),
                Some((_, names)) => {
                    let unseen =
                        names.iter().filter(|name| seen.binary_search_by(|seen| (**seen).cmp(&name[..])).is_err());
                    others.extend(unseen.take(wanted + 1).map(|name| with(name.len() as u64)));
                }
            }
        }
        others.sort_unstable();
        // What is not known yet may be any of them.
        ways.extend(others.into_iter().skip(usize::from(at.pending)));
        ways.retain(|&way| way != NO_END);
        ways.sort_unstable();
        ways.truncate(wanted);
        ways.iter_mut().for_each(|way| *way = way.saturating_add(self.punctuation.width));
        ways
    }

    /// Properties that are still missing where these are there; all that they imply included.
    fn missing(&self, passed: &[u64], present: &[u64]) -> Vec<u32> {
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

    /// The fewest bytes of all that must still come, each with a comma before it, and how many properties that are;
    /// `None` where it cannot be.
    fn rest(
        &self,
        (passed, present): (&[u64], &[u64]),
        at: InObject,
        seen: &Seen,
        rule: &impl Fn(Rule) -> u64,
    ) -> Option<(u64, u32)> {
        let missing = self.missing(passed, present);
        let mut bytes =
            sum(missing.iter().map(|&number| self.bytes(number, rule).saturating_add(self.punctuation.width)));
        if bytes == NO_END || missing.iter().any(|&number| has(passed, number)) {
            return None;
        }
        if at.met != self.some {
            return self.rest_meeting(&missing, passed, at.met, rule);
        }
        let mut more = missing.len() as u32;
        if self.least > at.certain + more {
            let wanted = (self.least - at.certain - more) as usize;
            let ways = self.cheapest((passed, &missing), (at, seen), wanted, rule);
            if ways.len() < wanted {
                return None;
            }
            bytes = sum(ways.into_iter().chain([bytes]));
            more = self.least - at.certain;
        }
        let fits = self.most.is_none_or(|most| at.count + more <= most);
        fits.then_some((bytes, more))
    }

    /// How many bytes follow a counted name of this kind, which may come where `at` says.
    fn after_counted(
        &self,
        kind: u32,
        (passed, present): (&[u64], &[u64]),
        (at, seen): (InObject, &Seen),
        rule: &impl Fn(Rule) -> u64,
    ) -> Option<Ends> {
        let missing = self.missing(passed, present);
        let value = rule(self.others[kind as usize].value.rule);
        let required =
            sum(missing.iter().map(|&number| self.bytes(number, rule).saturating_add(self.punctuation.width)));
        if required == NO_END || value == NO_END || missing.iter().any(|&number| has(passed, number)) {
            return None;
        }
        let more = self.least.saturating_sub(at.certain + 1 + missing.len() as u32);
        if self.most.is_some_and(|most| at.count + 1 + missing.len() as u32 + more > most) {
            return None;
        }
        // In the order of the schema, others come last.
        let all = vec![u64::MAX; passed.len()];
        let passed = if self.any_order { passed } else { &all[..] };
        let cheapest = self.cheapest((passed, &missing), (at, seen), more as usize + 1, rule);
        let beside = sum([2 * self.punctuation.width, value]);
        let rest = sum([required, self.punctuation.width, value, 1]);
        (cheapest.len() == more as usize + 1).then_some(Ends { cheapest, beside, rest })
    }

    /// As [`ObjectShape::rest`], where some property must meet a demand; sizes are not bounded then.
    fn rest_meeting(
        &self,
        missing: &[u32],
        passed: &[u64],
        met: u32,
        rule: &impl Fn(Rule) -> u64,
    ) -> Option<(u64, u32)> {
        // For each set of demands that are met, the fewest bytes and how many properties that takes.
        let mut best: Vec<Option<(u64, u32)>> = vec![None; self.some as usize + 1];
        best[met as usize] = Some((0, 0));
        let with = |so_far: (u64, u32), bytes: u64| {
            let bytes = sum([so_far.0, bytes, self.punctuation.width]);
            (bytes != NO_END).then_some((bytes, so_far.1 + 1))
        };
        let improve = |best: &mut Option<(u64, u32)>, new: Option<(u64, u32)>| {
            if let Some(new) = new
                && best.is_none_or(|old| new < old)
            {
                *best = Some(new);
            }
        };
        for (number, property) in (0..).zip(&self.properties).filter(|(number, _)| !has(passed, *number)) {
            let mut after = if missing.contains(&number) { vec![None; best.len()] } else { best.clone() };
            for (met, so_far) in (0u32..).zip(&best) {
                let Some(so_far) = *so_far else { continue };
                for (meets, value) in property.value.ways() {
                    let bytes = sum([property.name_bytes, self.punctuation.width, rule(value)]);
                    improve(&mut after[(met | meets) as usize], with(so_far, bytes));
                }
            }
            best = after;
        }
        // A name that the schema does not give may come more than once.
        for met in 0..best.len() {
            let Some(so_far) = best[met] else { continue };
            for OtherNames { name_bytes, value, .. } in &self.others {
                for (meets, value) in value.ways() {
                    let bytes = sum([*name_bytes, self.punctuation.width, rule(value)]);
                    improve(&mut best[met | meets as usize], with(so_far, bytes));
                }
            }
        }
        best[self.some as usize]
    }
}

impl ArrayShape {
    /// The count from which on all items are alike.
    fn limit(&self) -> u32 {
        self.most.unwrap_or((self.first.len() as u32).max(self.least))
    }

    fn item(&self, index: u32) -> Rule {
        self.first.get(index as usize).copied().unwrap_or(self.rest)
    }

    /// The most items that there can be.
    fn longest(&self, rule: &impl Fn(Rule) -> u64) -> Option<u32> {
        let blocked = (0..=self.first.len() as u32).find(|&index| rule(self.item(index)) == NO_END);
        match (blocked, self.most) {
            (Some(blocked), Some(most)) => Some(blocked.min(most)),
            (blocked, most) => blocked.or(most),
        }
    }

    /// The fewest bytes of the items that must still come, each with a comma before it, and how many those are.
    fn rest(&self, index: u32, matched: u32, seen: &Seen, rule: &impl Fn(Rule) -> u64) -> Option<(u64, u32)> {
        let longest = self.longest(rule);
        let Some(counted) = &self.counted else {
            let wanted = self.least.saturating_sub(index);
            if longest.is_some_and(|longest| longest < index + wanted) {
                return None;
            }
            if let (Some(unique), true) = (&self.unique, wanted > 0) {
                let texts = shortest(unique, seen, wanted as usize)?;
                return Some((sum(texts) + self.punctuation.width * u64::from(wanted), wanted));
            }
            // All but the first few are alike.
            let last = (index + wanted).max(index);
            let special = (index..last).take_while(|&index| (index as usize) < self.first.len());
            let first = sum(special.map(|index| rule(self.item(index)).saturating_add(self.punctuation.width)));
            let alike = u64::from(last.saturating_sub(index.max(self.first.len() as u32)));
            let rest = if alike == 0 {
                0
            } else {
                rule(self.rest).saturating_add(self.punctuation.width).saturating_mul(alike)
            };
            return Some((first.saturating_add(rest), wanted));
        };
        // From the far end to here: for each number of items of the kinds so far, the fewest bytes.
        let horizon = self.least.max(self.first.len() as u32).max(index) + counted.wanted(matched);
        let horizon = longest.map_or(horizon, |longest| longest.min(horizon));
        let ends =
            |index: u32, matched: u32| (index >= self.least && counted.is_enough(matched)).then_some((0u64, 0u32));
        let mut ways: Vec<Option<(u64, u32)>> = (0..counted.numbers()).map(|matched| ends(horizon, matched)).collect();
        for index in (index..horizon).rev() {
            let items: Vec<(u32, u64)> = counted
                .items
                .iter()
                .map(|item| (item.kinds, rule(item.at(index))))
                .filter(|way| way.1 != NO_END)
                .collect();
            let way = |matched: u32| {
                let with = |&(kinds, bytes): &(u32, u64)| {
                    let (rest, items) = ways[counted.matched(matched, kinds)? as usize]?;
                    Some((sum([rest, bytes, self.punctuation.width]), items + 1))
                };
                items.iter().filter_map(with).chain(ends(index, matched)).min()
            };
            ways = (0..counted.numbers()).map(way).collect();
        }
        ways[matched as usize]
    }
}

impl CountedItem {
    fn at(&self, index: u32) -> Rule {
        self.first.get(index as usize).copied().unwrap_or(self.rest)
    }
}

impl Counted {
    /// How many numbers of each kind are told apart, in the order of the digits.
    fn bases(&self) -> impl Iterator<Item = u32> + '_ {
        self.bounds.iter().map(|&(least, most)| most.unwrap_or(least) + 1)
    }

    /// How many numbers of items of all kinds are told apart.
    pub(crate) fn numbers(&self) -> u32 {
        self.bases().fold(1, u32::saturating_mul)
    }

    /// The numbers after one more item that counts for some kinds, if it may come.
    fn matched(&self, mut matched: u32, kinds: u32) -> Option<u32> {
        let (mut after, mut place) = (0, 1);
        for ((kind, base), &(_, most)) in (0..).zip(self.bases()).zip(&self.bounds) {
            let digit = matched % base;
            let one_more = digit + (kinds >> kind & 1);
            if one_more == base && most.is_some() {
                return None;
            }
            after += one_more.min(base - 1) * place;
            (matched, place) = (matched / base, place * base);
        }
        Some(after)
    }

    /// How many items of each kind are still missing, together.
    fn wanted(&self, mut matched: u32) -> u32 {
        let mut wanted = 0;
        for (base, &(least, _)) in self.bases().zip(&self.bounds) {
            wanted += least.saturating_sub(matched % base);
            matched /= base;
        }
        wanted
    }

    fn is_enough(&self, matched: u32) -> bool {
        self.wanted(matched) == 0
    }
}

impl Places {
    /// Adds an object; returns the place after its opening brace.
    pub(crate) fn object(&mut self, shape: ObjectShape) -> u32 {
        let empty = vec![0; shape.properties.len().div_ceil(64)];
        let (passed, present) = (self.set(empty.clone()), self.set(empty));
        let seen = self.seen(Seen::default());
        self.none_seen = seen;
        self.objects.push(Arc::new(shape));
        let at = InObject {
            shape: self.objects.len() as u32 - 1,
            passed,
            present,
            count: 0,
            certain: 0,
            seen,
            pending: false,
            met: 0,
        };
        self.place(Place::Object { at, phase: Phase::First })
    }

    /// Adds an array; returns the place after its opening bracket.
    pub(crate) fn array(&mut self, shape: ArrayShape) -> u32 {
        self.arrays.push(Arc::new(shape));
        let seen = self.seen(Seen::default());
        let at = InArray { shape: self.arrays.len() as u32 - 1, index: 0, matched: 0, seen, pending: false };
        self.place(Place::Array { at, phase: Phase::First })
    }

    /// Takes in all of another's, whose rules and terminals have new numbers; returns what is to be added to its places.
    pub(crate) fn take_in(&mut self, other: Self, rules: u32, terminals: u32) -> u32 {
        let (objects, arrays) = (self.objects.len() as u32, self.arrays.len() as u32);
        let first = self.places.len() as u32;
        for place in other.places {
            let mut set = |number: u32| self.set(other.sets[number as usize].to_vec());
            let place = match place {
                Place::Object { at, phase } => {
                    let (passed, present) = (set(at.passed), set(at.present));
                    let seen = self.seen(other.seen[at.seen as usize].clone());
                    Place::Object { at: InObject { shape: at.shape + objects, passed, present, seen, ..at }, phase }
                }
                Place::Array { at, phase } => {
                    let seen = self.seen(other.seen[at.seen as usize].clone());
                    Place::Array { at: InArray { shape: at.shape + arrays, seen, ..at }, phase }
                }
            };
            self.place(place);
        }
        let renumber = |list: &mut Vec<Rule>| list.iter_mut().for_each(|rule| *rule += rules);
        let value = |value: &mut ValueOf| {
            value.rule += rules;
            value.meeting.iter_mut().for_each(|(_, rule)| *rule += rules);
        };
        for mut shared in other.objects {
            let shape = Arc::make_mut(&mut shared);
            shape.punctuation.renumber(terminals);
            shape.properties.iter_mut().for_each(|property| value(&mut property.value));
            for other in &mut shape.others {
                value(&mut other.value);
                other.counted.iter_mut().for_each(|((number, _), _)| *number += terminals);
            }
            self.objects.push(shared);
        }
        for mut shared in other.arrays {
            let shape = Arc::make_mut(&mut shared);
            shape.punctuation.renumber(terminals);
            renumber(&mut shape.first);
            shape.rest += rules;
            for item in shape.counted.iter_mut().flat_map(|counted| &mut counted.items) {
                renumber(&mut item.first);
                item.rest += rules;
            }
            shape.unique.iter_mut().flatten().for_each(|(number, _)| *number += terminals);
            self.arrays.push(shared);
        }
        first
    }

    /// The number of a set of items.
    fn seen(&mut self, seen: Seen) -> u32 {
        if let Some(&number) = self.seen_numbers.get(&seen) {
            return number;
        }
        self.bytes += 128 + seen.iter().map(|text| 32 + text.len()).sum::<usize>();
        self.seen.push(seen.clone());
        let number = self.seen.len() as u32 - 1;
        self.seen_numbers.insert(seen, number);
        number
    }

    /// About how many bytes the places take that texts have come to.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn place(&mut self, place: Place) -> u32 {
        // In the list, and as a key.
        self.bytes += 3 * size_of::<Place>();
        self.places.push(place);
        self.places.len() as u32 - 1
    }

    fn set(&mut self, set: Vec<u64>) -> u32 {
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

    /// The rules that decide how far the end of an object or array is.
    pub(crate) fn rules_of(&self, place: u32) -> Vec<Rule> {
        match self.places[place as usize] {
            Place::Object { at, .. } => {
                let shape = &self.objects[at.shape as usize];
                let follows = shape.follows_presence() || shape.least > 0 || shape.some > 0;
                let matters = shape.properties.iter().filter(|property| property.required || follows);
                let others = if follows { &shape.others[..] } else { &[] };
                let others = others.iter().map(|other| &other.value);
                let values = matters.map(|property| &property.value).chain(others);
                values.flat_map(ValueOf::ways).map(|(_, rule)| rule).collect()
            }
            Place::Array { at, .. } => {
                let ArrayShape { first, rest, counted, .. } = &*self.arrays[at.shape as usize];
                let mut rules: Vec<Rule> = first.iter().copied().chain([*rest]).collect();
                for CountedItem { first, rest, .. } in counted.iter().flat_map(|counted| &counted.items) {
                    rules.extend(first.iter().chain([rest]));
                }
                rules
            }
        }
    }

    /// Takes in the fewest bytes of each rule, which are known now. Names after which no value can stand are left out.
    pub(crate) fn settle(&mut self, rules: &[u64]) {
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

    fn rule(&self) -> impl Fn(Rule) -> u64 + use<'_> {
        |rule| self.rules[rule as usize]
    }

    /// The fewest bytes from the place after an opening sign to the end of the object or array.
    pub(crate) fn first_distance(&self, place: u32, rule: impl Fn(Rule) -> u64) -> u64 {
        let (rest, width) = match self.places[place as usize] {
            Place::Object { at, .. } => {
                let (passed, present) = (&self.sets[at.passed as usize], &self.sets[at.present as usize]);
                let shape = &self.objects[at.shape as usize];
                (shape.rest((passed, present), at, &Seen::default(), &rule), shape.punctuation.width)
            }
            Place::Array { at, .. } => {
                let shape = &self.arrays[at.shape as usize];
                (shape.rest(0, 0, &Seen::default(), &rule), shape.punctuation.width)
            }
        };
        match rest {
            // One comma fewer than items.
            Some((_, 0)) => 1,
            Some((bytes, _)) => bytes - width + 1,
            None => NO_END,
        }
    }

    /// The fewest bytes from after a value to the end.
    fn later(&self, place: Place) -> u64 {
        let rest = match place {
            Place::Object { at, .. } => {
                let (passed, present) = (&self.sets[at.passed as usize], &self.sets[at.present as usize]);
                let seen = &self.seen[at.seen as usize];
                self.objects[at.shape as usize].rest((passed, present), at, seen, &self.rule())
            }
            Place::Array { at, .. } => {
                let seen = &self.seen[at.seen as usize];
                self.arrays[at.shape as usize].rest(at.index, at.matched, seen, &self.rule())
            }
        };
        rest.map_or(NO_END, |(bytes, _)| bytes.saturating_add(1))
    }

    /// Where a text stands after one more property, but for the sets, which are given beside it.
    fn advanced(&self, at: InObject, named: Named) -> (Vec<u64>, Vec<u64>, InObject) {
        let shape = &self.objects[at.shape as usize];
        let count = shape.most.map_or(0, |most| (at.count + 1).min(most));
        let certain = (at.certain + 1).min(shape.least);
        // Where there are enough it does not matter which.
        let (seen, pending) = if certain < shape.least { (at.seen, at.pending) } else { (self.none_seen, false) };
        let mut passed = self.sets[at.passed as usize].to_vec();
        let mut present = self.sets[at.present as usize].to_vec();
        match (shape.any_order, named) {
            (true, Named::Known(number)) => put(&mut passed, number),
            (false, Named::Known(number)) => (0..=number).for_each(|number| put(&mut passed, number)),
            (true, Named::Other(_)) => {}
            // In the order of the schema they come last.
            (false, Named::Other(_)) => (0..shape.properties.len() as u32).for_each(|number| put(&mut passed, number)),
        }
        if let (true, Named::Known(number)) = (shape.follows_presence(), named) {
            put(&mut present, number);
        }
        (passed, present, InObject { count, certain, seen, pending, ..at })
    }

    /// Where a text stands after one more property.
    fn after_property(&mut self, at: InObject, named: Named) -> InObject {
        let (passed, present, at) = self.advanced(at, named);
        InObject { passed: self.set(passed), present: self.set(present), ..at }
    }

    /// Where a text stands after one more property whose name is counted: the name, if it is known.
    fn after_counted(&mut self, at: InObject, kind: u32, name: Option<Vec<u8>>) -> InObject {
        let next = self.after_property(at, Named::Other(kind));
        if next.certain == self.objects[at.shape as usize].least {
            return next;
        }
        match name {
            Some(name) => InObject { seen: self.with(next.seen, name), ..next },
            None => InObject { pending: true, ..next },
        }
    }

    /// The set with one more text.
    fn with(&mut self, seen: u32, text: Vec<u8>) -> u32 {
        let mut seen = Vec::clone(&self.seen[seen as usize]);
        let text = text.into_boxed_slice();
        if let Err(place) = seen.binary_search(&text) {
            seen.insert(place, text);
        }
        self.seen(Seen::new(seen))
    }

    /// The fewest bytes from after a name to the end of its object.
    fn after_name(&self, at: InObject, named: Named) -> u64 {
        let shape = &self.objects[at.shape as usize];
        let (passed, present, next) = self.advanced(at, named);
        let way = |(meets, value): (u32, Rule)| {
            let next = InObject { met: next.met | meets, ..next };
            let seen = &self.seen[next.seen as usize];
            let rest = shape.rest((&passed, &present), next, seen, &self.rule()).map_or(NO_END, |(bytes, _)| bytes);
            sum([shape.punctuation.width + 1, self.rules[value as usize], rest])
        };
        shape.value(named).ways().map(way).min().unwrap_or(NO_END)
    }

    /// The names that may come in an object, each with the fewest bytes from after it to the end of the object; first
    /// those of the schema.
    fn after_names(&self, at: InObject) -> (Vec<u64>, Vec<u64>) {
        let shape = &self.objects[at.shape as usize];
        let (passed, present) = (&self.sets[at.passed as usize], &self.sets[at.present as usize]);
        let missing = shape.missing(passed, present);
        // In the order of the schema nothing that must come is left out.
        let first_missing = if shape.any_order { None } else { missing.iter().copied().min() };
        let is_full = shape.most.is_some_and(|most| at.count >= most);
        let may_come =
            |number: u32| !is_full && !has(passed, number) && first_missing.is_none_or(|first| number <= first);
        // Where nothing depends on what is there, one name changes one summand.
        let is_plain = !shape.follows_presence() && shape.least == 0 && shape.some == at.met;
        let rule = self.rule();
        let seen = &self.seen[at.seen as usize];
        let all = shape.rest((passed, present), at, seen, &rule).map_or(NO_END, |(bytes, _)| bytes);
        let fits = |wanted: usize| shape.most.is_none_or(|most| at.count as usize + 1 + wanted <= most as usize);
        let after = |number: u32| {
            if !may_come(number) {
                return NO_END;
            }
            if !is_plain {
                return self.after_name(at, Named::Known(number));
            }
            let is_missing = missing.binary_search(&number).is_ok();
            let value = self.rules[shape.properties[number as usize].value.rule as usize];
            if all == NO_END || value == NO_END || !fits(missing.len() - usize::from(is_missing)) {
                return NO_END;
            }
            let this = if is_missing { shape.bytes(number, &rule) + shape.punctuation.width } else { 0 };
            sum([shape.punctuation.width + 1, value, all - this])
        };
        let known = (0..shape.properties.len() as u32).map(after).collect();
        let others: Vec<u64> = match first_missing.is_none() && !is_full && !shape.counts_others(at) {
            true => (0..shape.others.len() as u32).map(|kind| self.after_name(at, Named::Other(kind))).collect(),
            false => Vec::new(),
        };
        // All of them may come, or none; kinds without a value have been left out of the names.
        let others = if others.iter().all(|&after| after == NO_END) { Vec::new() } else { others };
        (known, others)
    }

    /// The names that may come in an object and are counted, each kind by itself.
    fn counted_names(&self, at: InObject) -> Vec<Fresh> {
        let shape = &self.objects[at.shape as usize];
        let sets = (&self.sets[at.passed as usize][..], &self.sets[at.present as usize][..]);
        let is_last = !shape.any_order && !shape.missing(sets.0, sets.1).is_empty();
        if !shape.counts_others(at) || is_last || shape.most.is_some_and(|most| at.count >= most) {
            return Vec::new();
        }
        let seen = &self.seen[at.seen as usize];
        let fresh = |(kind, other): (u32, &OtherNames)| {
            let (terminal, _) = other.counted.clone()?;
            let ends = shape.after_counted(kind, sets, (at, seen), &self.rule())?;
            Fresh::new((kind, terminal), seen.clone(), at.pending, ends)
        };
        (0..).zip(&shape.others).filter_map(fresh).collect()
    }

    /// What it takes to find the way to the end of a place, in units of a budget.
    pub(crate) fn work(&self, place: u32) -> u64 {
        match self.places[place as usize] {
            Place::Object { at, .. } => {
                let shape = &self.objects[at.shape as usize];
                let sets = u64::from(shape.some) + 1;
                (shape.properties.len() + shape.others.len()) as u64 * sets / 4 + u64::from(shape.least.min(1 << 12))
            }
            Place::Array { at, .. } => {
                let shape = &self.arrays[at.shape as usize];
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

impl Grammar {
    /// The step of a place.
    fn at_place(&mut self, place: Place) -> At {
        if let Some(&at) = self.places.steps.get(&place) {
            return at;
        }
        let number = self.places.place(place);
        let at = self.step(Step::Place(number));
        if let Place::Object { phase: Phase::Later, .. } | Place::Array { phase: Phase::Later, .. } = place {
            self.distances[at as usize] = Some(self.places.later(place));
        }
        self.places.steps.insert(place, at);
        at
    }

    /// The step of a place after a value, if the end can be reached from there; how far it is, is worked out once.
    fn at_place_with_end(&mut self, place: Place) -> Option<At> {
        let at = self.at_place(place);
        (self.bytes_to_end(at) != NO_END).then_some(at)
    }

    /// Makes the steps of a place, where there is one.
    pub(crate) fn open(&mut self, at: At) {
        let Step::Place(number) = self.steps[at as usize] else { return };
        self.here = self.origins[at as usize];
        let place = self.places.places[number as usize];
        self.steps[at as usize] = match place {
            Place::Object { at, phase: Phase::Name } => self.names(at, number),
            Place::Object { at: inside, phase } => {
                let names = self.at_place(Place::Object { at: inside, phase: Phase::Name });
                self.open(names);
                let goes_on = !matches!(&self.steps[names as usize], Step::Fork(ways) if ways.is_empty());
                let punctuation = self.places.objects[inside.shape as usize].punctuation;
                let closes = {
                    let places = &self.places;
                    let shape = &places.objects[inside.shape as usize];
                    let (passed, present) =
                        (&places.sets[inside.passed as usize], &places.sets[inside.present as usize]);
                    let is_whole = shape.missing(passed, present).is_empty();
                    is_whole && inside.certain >= shape.least && inside.met == shape.some
                };
                let mut ways = Vec::new();
                if closes {
                    let close = punctuation.close_object[usize::from(phase != Phase::First)];
                    ways.push(self.read(close, Self::RETURN));
                }
                if goes_on {
                    ways.push(if phase == Phase::First { names } else { self.read(punctuation.comma, names) });
                }
                Step::Fork(ways)
            }
            Place::Array { at, phase } => self.items(at, phase, number),
        };
    }

    fn names(&mut self, at: InObject, number: u32) -> Step {
        let (known, others) = self.places.after_names(at);
        let ObjectShape { table, escapes, .. } = &*self.places.objects[at.shape as usize];
        let (table, escapes) = (table.clone(), *escapes);
        let mut terminals: Vec<Terminal> = Vec::new();
        if let Some(content) = Names::new(table, |number| known[number as usize], others) {
            terminals.push(Terminal::Names(Quoted::new(content, escapes)));
        }
        terminals.extend(self.places.counted_names(at).into_iter().map(|names| Terminal::Fresh(Box::new(names))));
        let mut steps: Vec<Step> = Vec::new();
        for terminal in terminals {
            steps.push(Step::Name { terminal: self.terminal(terminal), place: number });
        }
        match <[Step; 1]>::try_from(steps) {
            Ok([step]) => step,
            Err(steps) => Step::Fork(steps.into_iter().map(|step| self.step(step)).collect()),
        }
    }

    /// The step after a property's name.
    pub(crate) fn after_name(&mut self, place: u32, named: Named) -> At {
        let Place::Object { at, .. } = self.places.places[place as usize] else {
            unreachable!("names stand in objects")
        };
        let next = self.places.after_property(at, named);
        self.after_name_in(next, named)
    }

    /// The step after a property's name, with where the text stands after its value.
    fn after_name_in(&mut self, next: InObject, named: Named) -> At {
        let at = next;
        let mut ways = Vec::new();
        let value = self.places.objects[at.shape as usize].value(named).clone();
        for (meets, rule) in value.ways() {
            let is_new = meets == 0 || meets & !next.met != 0;
            let later = Place::Object { at: InObject { met: next.met | meets, ..next }, phase: Phase::Later };
            if is_new
                && self.places.rules[rule as usize] != NO_END
                && let Some(next) = self.at_place_with_end(later)
            {
                ways.push(self.unique(Step::Call { rule, next }));
            }
        }
        let call = if let [call] = ways[..] { call } else { self.step(Step::Fork(ways)) };
        let colon = self.places.objects[at.shape as usize].punctuation.colon;
        self.unique(Step::Read { terminal: colon, next: call })
    }

    /// The step after an item of an array whose items are all different, or after a name that is counted: what it was, if
    /// that is known.
    pub(crate) fn after_item(&mut self, place: u32, kind: u32, text: Option<Vec<u8>>) -> At {
        match (self.places.places[place as usize], text) {
            (Place::Object { at, .. }, name) => {
                let next = self.places.after_counted(at, kind, name);
                self.after_name_in(next, Named::Other(kind))
            }
            (Place::Array { at, .. }, Some(text)) => {
                let seen = self.places.with(at.seen, text);
                self.after_some_item(InArray { seen, ..at })
            }
            (Place::Array { at, .. }, None) => self.after_some_item(InArray { pending: true, ..at }),
        }
    }

    fn after_some_item(&mut self, at: InArray) -> At {
        let index = (at.index + 1).min(self.places.arrays[at.shape as usize].limit());
        self.at_place(Place::Array { at: InArray { index, ..at }, phase: Phase::Later })
    }

    fn items(&mut self, at: InArray, phase: Phase, number: u32) -> Step {
        let shape = &self.places.arrays[at.shape as usize];
        let punctuation = shape.punctuation;
        let rule = self.places.rule();
        let mut steps = Vec::new();
        let is_enough = shape.counted.as_ref().is_none_or(|counted| counted.is_enough(at.matched));
        let closes = at.index >= shape.least && is_enough;
        let goes_on = shape.longest(&rule).is_none_or(|longest| at.index < longest);
        // Each way to write an item: by which rule, and how many are of the kinds after it.
        let mut ways: Vec<(Rule, u32)> = Vec::new();
        match (&shape.counted, &shape.unique) {
            (None, None) => ways.push((shape.item(at.index), 0)),
            (None, Some(_)) => {}
            (Some(counted), _) => ways.extend(counted.items.iter().filter_map(|item| {
                counted.matched(at.matched, item.kinds).map(|matched| (item.at(at.index), matched))
            })),
        }
        ways.retain(|&(item, _)| goes_on && rule(item) != NO_END);
        let index = (at.index + 1).min(shape.limit());
        let more = shape.least.saturating_sub(at.index + 1);
        let unique = shape.unique.clone().filter(|_| goes_on).unwrap_or_default();
        drop(rule);
        let seen = self.places.seen[at.seen as usize].clone();
        let cheapest = if unique.is_empty() { None } else { shortest(&unique, &seen, more as usize + 1) };
        let cheapest: Option<Vec<u64>> =
            cheapest.map(|lengths| lengths.iter().map(|length| length + punctuation.width).collect());
        if closes {
            let close = punctuation.close_array[usize::from(phase != Phase::First)];
            steps.push(self.read(close, Self::RETURN));
        }
        for (item, matched) in ways {
            let next = Place::Array { at: InArray { index, matched, ..at }, phase: Phase::Later };
            if let Some(next) = self.at_place_with_end(next) {
                let item = self.call(item, next);
                steps.push(if phase == Phase::First { item } else { self.read(punctuation.comma, item) });
            }
        }
        for (kind, terminal) in (0..).zip(unique) {
            let Some(cheapest) = cheapest.clone() else { continue };
            let ends = Ends { cheapest, beside: punctuation.width, rest: 1 };
            if let Some(fresh) = Fresh::new((kind, terminal), seen.clone(), at.pending, ends) {
                let terminal = self.terminal(Terminal::Fresh(Box::new(fresh)));
                let item = self.step(Step::Name { terminal, place: number });
                steps.push(if phase == Phase::First { item } else { self.read(punctuation.comma, item) });
            }
        }
        Step::Fork(steps)
    }

    /// A step that is made once.
    fn unique(&mut self, step: Step) -> At {
        let key = match step {
            Step::Call { rule, next } => (true, rule, next),
            Step::Read { terminal, next } => (false, terminal, next),
            _ => unreachable!("asked of two kinds of steps"),
        };
        if let Some(&at) = self.places.made.get(&key) {
            return at;
        }
        let at = self.step(step);
        self.places.bytes += 32;
        self.places.made.insert(key, at);
        at
    }
}
