//! The distance in bytes to the end of an object: the cheapest way to write what is still required.

use super::object::{ObjectShape, OtherNames, has};
use super::state::ObjectState;
use super::step::{NO_END, Rule, sum};
use crate::terminal::fresh::{Ends, Seen};

impl ObjectShape {
    /// The costs of the cheapest properties that may still come in addition to the missing ones, each with a comma:
    /// `wanted` of them, or all if there are fewer.
    fn cheapest(
        &self,
        (passed, missing): (&[u64], &[u32]),
        (at, seen): (ObjectState, &Seen),
        wanted: usize,
        rule: &impl Fn(Rule) -> u64,
    ) -> Vec<u64> {
        // Those that do not imply others.
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
        // An unknown name may be any of them.
        ways.extend(others.into_iter().skip(usize::from(at.pending)));
        ways.retain(|&way| way != NO_END);
        ways.sort_unstable();
        ways.truncate(wanted);
        ways.iter_mut().for_each(|way| *way = way.saturating_add(self.punctuation.width));
        ways
    }

    /// The fewest bytes of all that is still required, each property with a comma before it, and the number of those
    /// properties; `None` if the object cannot be completed.
    pub(super) fn rest(
        &self,
        (passed, present): (&[u64], &[u64]),
        at: ObjectState,
        seen: &Seen,
        rule: &impl Fn(Rule) -> u64,
    ) -> Option<(u64, u32)> {
        let missing = self.missing(passed, present);
        let mut bytes =
            sum(missing.iter().map(|&number| self.bytes(number, rule).saturating_add(self.punctuation.width)));
        if bytes == NO_END || missing.iter().any(|&number| has(passed, number)) || !self.fits(present, &missing) {
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

    /// The bytes that must follow a counted name of this kind, if it is allowed in this state.
    pub(super) fn after_counted(
        &self,
        kind: u32,
        (passed, present): (&[u64], &[u64]),
        (at, seen): (ObjectState, &Seen),
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
        // In schema order, other names come last.
        let all = vec![u64::MAX; passed.len()];
        let passed = if self.any_order { passed } else { &all[..] };
        let cheapest = self.cheapest((passed, &missing), (at, seen), more as usize + 1, rule);
        let beside = sum([2 * self.punctuation.width, value]);
        let rest = sum([required, self.punctuation.width, value, 1]);
        (cheapest.len() == more as usize + 1).then_some(Ends { cheapest, beside, rest })
    }

    /// Like [`ObjectShape::rest`], if some property must meet a condition; the number of properties is not bounded
    /// then.
    fn rest_meeting(
        &self,
        missing: &[u32],
        passed: &[u64],
        met: u32,
        rule: &impl Fn(Rule) -> u64,
    ) -> Option<(u64, u32)> {
        // For each set of conditions met, the fewest bytes and the number of properties.
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
        // Names that the schema does not list may come more than once.
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
