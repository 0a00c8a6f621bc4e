//! Conditions on which properties must be present, or absent, if others are present.
//!
//! Conditions on presence alone are kept as conditions, since as alternatives each would double the number of ways.
//! Each says "if this is present, that is" or "not all of these are present" (Horn clauses), so an object can be
//! completed if and only if the properties that it has, with all that they imply, satisfy them.

use std::rc::Rc;

use super::ways::without;
use super::{MAX_WAYS, Schemas, weight};
use crate::json::fault::{Result, bad, check};
use crate::json::flat::{Flat, Objects, Types};

/// The condition for all values that is equivalent to a schema which an object must obey if it has a property, provided
/// that the schema is about presence alone.
pub(super) fn depending(name: &str, ways: &[Flat]) -> Option<Flat> {
    let of_objects: Vec<&Objects> =
        ways.iter().filter(|way| way.types.has(Types::OBJECT)).map(|way| &way.objects).collect();
    let mut holds = Flat::of(Types::ALL);
    if let [Objects { required, .. }] = of_objects[..]
        && says(of_objects[0], 0)
    {
        holds.objects.implies = required.iter().map(|other| (name.to_owned(), other.clone())).collect();
        return Some(holds);
    }
    let missing: Option<Vec<String>> = of_objects.iter().map(|objects| missing(objects)).collect();
    let mut names = missing?;
    names.push(name.to_owned());
    names.sort_unstable();
    names.dedup();
    holds.objects.never = vec![names];
    Some(holds)
}

/// Whether objects have no demands except for required properties and the given number of property lists.
fn says(objects: &Objects, lists: usize) -> bool {
    let Objects { properties, required: _, least, most, implies, never, names, some, evaluated } = objects;
    properties.len() == lists
        && (*least, *most) == (0, None)
        && implies.is_empty()
        && never.is_empty()
        && names.is_empty()
        && some.is_empty()
        && evaluated.is_empty()
}

/// The property that objects must not have, if nothing else is demanded of them.
fn missing(objects: &Objects) -> Option<String> {
    let [properties] = &objects.properties[..] else { return None };
    let name = properties.absent()?;
    (says(objects, 1) && objects.required.is_empty()).then(|| name.clone())
}

impl Schemas<'_> {
    /// The same ways, with conditions on presence expanded: all of them, or those where properties are counted or some
    /// property must meet a demand.
    pub(crate) fn by_presence(&mut self, ways: &Rc<Vec<Flat>>, all: bool, path: &str) -> Result<Rc<Vec<Flat>>> {
        let is_plain = |flat: &Flat| {
            let Objects { required, least, implies, never, some, .. } = &flat.objects;
            implies.is_empty() && never.is_empty() || !all && *least <= required.len() as u64 && some.is_empty()
        };
        if ways.iter().all(is_plain) {
            return Ok(ways.clone());
        }
        let mut apart = Vec::new();
        for flat in ways.iter() {
            if is_plain(flat) {
                apart.push(flat.clone());
                continue;
            }
            let mut rest = flat.clone();
            let implies = std::mem::take(&mut rest.objects.implies);
            let never = std::mem::take(&mut rest.objects.never);
            let mut so_far = vec![rest];
            let implied = implies.iter().map(|(name, other)| {
                let mut with = Flat::of(Types::ALL);
                with.objects.required = vec![other.clone()];
                vec![without_or_no_object(name), with]
            });
            let barred = never.iter().map(|names| names.iter().map(|name| without_or_no_object(name)).collect());
            for alternatives in implied.chain(barred) {
                let mut next: Vec<Flat> = Vec::new();
                for way in &so_far {
                    self.budget.take(weight(&alternatives) + alternatives.len() as u64 * way.weight());
                    check(&self.budget, path)?;
                    for both in alternatives.iter().filter_map(|other| way.and(other)) {
                        if !self.is_empty(&both)? {
                            next.push(both);
                        }
                    }
                    if next.len() > MAX_WAYS {
                        return bad(path, format!("more than {MAX_WAYS} ways to combine its branches"));
                    }
                }
                so_far = next;
            }
            apart.extend(so_far);
        }
        Ok(Rc::new(apart))
    }
}

fn without_or_no_object(name: &str) -> Flat {
    Flat { types: Types::ALL, ..without(name) }
}
