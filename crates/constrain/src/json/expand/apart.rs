//! Combines branches that would be too many to combine one by one.
//!
//! Breaking ten schemas at once means breaking some keyword of each, in every combination; most combinations contradict
//! themselves or repeat another. So if there are many, a way is kept unchanged once it rules a schema out, the ways to
//! break a schema are split such that they do not overlap, and contradictions are dropped at each step.

use std::rc::Rc;

use super::demands::{NOTHING, normal};
use super::{MAX_WAYS, Schemas, weight};
use crate::json::fault::{Result, bad, check};
use crate::json::flat::{Flat, Key, Objects, Properties, SomeNames, Types};

/// The number of combinations from which on it pays off to look for contradictions.
const MANY: usize = 48;

/// The number of branches, each of which some unspecified property can break, from which on names are distinguished.
const FOR_SOME: usize = 3;

/// The maximum number of ways that are compared pairwise.
const MAX_COMPARED: usize = 512;

/// The maximum number of names that are distinguished if one of them must be present.
const MAX_NAMES: usize = 32;

impl<'a> Schemas<'a> {
    /// The ways to obey one of `a` and one of `b`.
    pub(super) fn cross(&mut self, a: &[Flat], b: &[Flat], path: &str) -> Result<Vec<Flat>> {
        let mut all = Vec::new();
        let many = a.len() * b.len() > MANY;
        let weight = weight(b);
        for a in a {
            self.budget.take(weight + b.len() as u64 * a.weight());
            check(&self.budget, path)?;
            for both in b.iter().filter_map(|b| a.and(b)) {
                if !many || !self.is_empty(&both)? {
                    all.push(both);
                }
            }
            if all.len() > MAX_WAYS {
                return bad(path, "there are too many ways to combine its branches");
            }
        }
        Ok(if many { self.without_repeats(all) } else { all })
    }

    /// The ways, among the given ones, that break every one of some branches.
    pub(super) fn breaking(&mut self, mut ways: Vec<Flat>, branches: &[&Key], path: &str) -> Result<Vec<Flat>> {
        let (mut combinations, mut for_some) = (ways.len(), 0);
        let mut all = Vec::new();
        for branch in branches {
            let broken = self.some_broken(branch, path)?;
            combinations = combinations.saturating_mul(broken.len());
            for_some += usize::from(broken.iter().any(|broken| !broken.objects.some.is_empty()));
            all.push(broken);
        }
        if combinations <= MANY && for_some < FOR_SOME {
            for broken in &all {
                ways = self.cross(&ways, broken, path)?;
            }
            return Ok(ways);
        }
        for branch in branches {
            let holds = self.ways(branch)?;
            let broken = self.some_broken_apart(branch, path)?;
            let mut all = Vec::new();
            for way in ways {
                check(&self.budget, path)?;
                if self.rules_out(&way, &holds)? {
                    all.push(way);
                    continue;
                }
                self.budget.take(weight(&broken) + broken.len() as u64 * way.weight());
                for both in broken.iter().filter_map(|broken| way.and(broken)) {
                    for both in self.with_one_named(both) {
                        if !self.is_empty(&both)? {
                            all.push(both);
                        }
                    }
                }
                if all.len() > MAX_WAYS {
                    return bad(path, "there are too many ways to combine its branches");
                }
            }
            ways = self.without_repeats(all);
        }
        Ok(ways)
    }

    /// Whether it is certain that no value obeys `way` together with one of `others`.
    fn rules_out(&mut self, way: &Flat, others: &[Flat]) -> Result<bool> {
        self.budget.take(weight(others) + others.len() as u64 * way.weight());
        for other in others {
            if let Some(both) = way.and(other)
                && !self.is_empty(&both)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A union of ways without those contained in others.
    fn without_repeats(&self, ways: Vec<Flat>) -> Vec<Flat> {
        // With `unevaluated...`, ways also differ in what they evaluate.
        if self.looks_back || ways.len() > MAX_COMPARED {
            return ways;
        }
        self.budget.take((ways.len() * ways.len()) as u64 / 8);
        let mut kept: Vec<Flat> = Vec::new();
        for way in ways {
            if kept.iter().any(|other| way.is_within(other)) {
                continue;
            }
            kept.retain(|other| !other.is_within(&way));
            kept.push(way);
        }
        kept
    }

    /// The ways to break one of several demands, overlapping as little as possible.
    pub(super) fn some_broken_apart(&mut self, key: &Key, path: &str) -> Result<Vec<Flat>> {
        let [(schema, true)] = key[..] else { return self.some_broken(key, path) };
        if let Some(broken) = self.apart.get(&schema) {
            return Ok(broken.to_vec());
        }
        let broken = self.broken_apart(schema)?;
        self.budget.take(10 + super::KEPT * broken.len() as u64);
        self.apart.insert(schema, broken.clone().into());
        Ok(broken)
    }

    /// Splits a demand for some property that only a few names of a closed object can meet into one way for each name.
    fn with_one_named(&mut self, flat: Flat) -> Vec<Flat> {
        let mut open = vec![flat];
        let mut settled = Vec::new();
        while let Some(mut flat) = open.pop() {
            let candidates = (flat.types == Types::OBJECT)
                .then(|| (0..flat.objects.some.len()).find_map(|at| Some((at, self.candidates(&flat.objects, at)?))))
                .flatten();
            let Some((at, names)) = candidates else {
                settled.push(flat);
                continue;
            };
            let some = flat.objects.some.remove(at);
            for (before, name) in names.iter().enumerate() {
                self.budget.take(flat.weight());
                let mut this = flat.clone();
                let mut named = vec![(name.clone(), some.value.clone())];
                // If any value will do, the first name that is present is the one.
                if some.value.is_empty() {
                    named.extend(names[..before].iter().map(|name| (name.clone(), vec![NOTHING])));
                }
                if !this.objects.required.contains(name) {
                    this.objects.required.push(name.clone());
                }
                this.objects.properties.push(Rc::new(Properties { named, ..Properties::default() }));
                if this.objects.most.is_none_or(|most| this.objects.required.len() as u64 <= most) {
                    open.push(this);
                }
            }
        }
        settled
    }

    /// The names that can meet a demand for some property, if the object allows no others.
    fn candidates(&self, objects: &Objects, some: usize) -> Option<Vec<String>> {
        let SomeNames::Other(known) = &objects.some[some].names else { return None };
        let closed = objects.properties.iter().find(|properties| properties.is_closed())?;
        let names = closed.named.iter().map(|(name, _)| name).filter(|name| {
            let matches = |&(pattern, _): &(u32, Key)| self.contents[pattern as usize].matches(name.as_bytes());
            known.find(name).is_none()
                && !known.patterns.iter().any(matches)
                && !self.property(objects, name).contains(&NOTHING)
        });
        let names: Vec<String> = names.take(MAX_NAMES + 1).cloned().collect();
        (names.len() <= MAX_NAMES).then_some(names)
    }

    /// The same demands, with demands for some property of a closed object split by name.
    pub(crate) fn by_names(&mut self, flat: &Flat) -> Vec<Flat> {
        let mut others = flat.clone();
        others.types = flat.types.without(Types::OBJECT);
        let mut objects = flat.clone();
        objects.types = Types::OBJECT;
        let mut all = self.with_one_named(objects);
        if others.types != Types::NONE {
            match all.first_mut() {
                Some(first) => first.types = flat.types,
                None => all.push(others),
            }
        }
        all
    }

    /// Some demands as one way, if there is only one.
    pub(super) fn only_way(&mut self, key: &Key) -> Result<Option<Flat>> {
        let ways = self.ways(&normal(key.clone()))?;
        Ok(if let [way] = &ways[..] { Some(way.clone()) } else { None })
    }
}
