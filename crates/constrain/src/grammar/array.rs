//! Shapes of arrays, and the distance in bytes to their end.

use std::sync::Arc;

use super::punctuation::Punctuation;
use super::step::{NO_END, Rule, sum};
use crate::terminal::Terminal;
use crate::terminal::fresh::{Seen, shortest};

/// The shape of an array.
#[derive(Clone, Debug)]
pub(crate) struct ArrayShape {
    pub(crate) punctuation: Punctuation,
    /// The rules of the first items, and of all later ones.
    pub(crate) first: Vec<Rule>,
    pub(crate) rest: Rule,
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
    pub(crate) counted: Option<Counted>,
    /// How items are compared, if all must differ.
    pub(crate) unique: Option<Unique>,
}

/// Terminals with their numbers.
pub(crate) type NumberedTerminals = Vec<(u32, Arc<Terminal>)>;

/// How items that must all differ are compared.
#[derive(Clone, Debug)]
pub(crate) enum Unique {
    /// As texts: items are scalars with one spelling each, read by these terminals.
    AsTexts(NumberedTerminals),
    /// As values: items are of any types, and at most one item is required.
    AsValues {
        /// Whether properties may come in any order.
        any_order: bool,
    },
}

/// Kinds of items of which an array must have a certain number.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// The minimum and maximum number of items of each kind.
    pub(crate) bounds: Vec<(u32, Option<u32>)>,
    /// Items that belong to some of the kinds.
    pub(crate) items: Vec<CountedItem>,
}

/// An item of the kinds with these bits; it is not of any other kind that has an upper bound.
#[derive(Clone, Debug)]
pub(crate) struct CountedItem {
    pub(crate) kinds: u32,
    /// Its rule at each index, as in the array.
    pub(crate) first: Vec<Rule>,
    pub(crate) rest: Rule,
}

impl ArrayShape {
    /// The index from which on all items have the same rule.
    pub(super) fn limit(&self) -> u32 {
        self.most.unwrap_or((self.first.len() as u32).max(self.least))
    }

    pub(super) fn item(&self, index: u32) -> Rule {
        self.first.get(index as usize).copied().unwrap_or(self.rest)
    }

    /// The maximum number of items.
    pub(super) fn longest(&self, rule: &impl Fn(Rule) -> u64) -> Option<u32> {
        let blocked = (0..=self.first.len() as u32).find(|&index| rule(self.item(index)) == NO_END);
        match (blocked, self.most) {
            (Some(blocked), Some(most)) => Some(blocked.min(most)),
            (blocked, most) => blocked.or(most),
        }
    }

    /// The fewest bytes of the items that are still required, each with a comma before it, and their number.
    pub(super) fn rest(
        &self,
        index: u32,
        matched: u32,
        seen: &Seen,
        rule: &impl Fn(Rule) -> u64,
    ) -> Option<(u64, u32)> {
        let longest = self.longest(rule);
        let Some(counted) = &self.counted else {
            let wanted = self.least.saturating_sub(index);
            if longest.is_some_and(|longest| longest < index + wanted) {
                return None;
            }
            if let (Some(Unique::AsTexts(unique)), true) = (&self.unique, wanted > 0) {
                let texts = shortest(unique, seen, wanted as usize)?;
                return Some((sum(texts) + self.punctuation.width * u64::from(wanted), wanted));
            }
            // All but the first few have the same rule.
            let last = (index + wanted).max(index);
            let special = (index..last).take_while(|&index| (index as usize) < self.first.len());
            let first = sum(special.map(|index| rule(self.item(index)).saturating_add(self.punctuation.width)));
            let same = u64::from(last.saturating_sub(index.max(self.first.len() as u32)));
            let rest =
                if same == 0 { 0 } else { rule(self.rest).saturating_add(self.punctuation.width).saturating_mul(same) };
            return Some((first.saturating_add(rest), wanted));
        };
        // Backwards from the horizon: the fewest bytes for each combination of counts.
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
    pub(super) fn at(&self, index: u32) -> Rule {
        self.first.get(index as usize).copied().unwrap_or(self.rest)
    }
}

impl Counted {
    /// The number of distinct counts of each kind, in the order of the digits.
    fn bases(&self) -> impl Iterator<Item = u32> + '_ {
        self.bounds.iter().map(|&(least, most)| most.unwrap_or(least) + 1)
    }

    /// The number of combinations of counts over all kinds.
    pub(crate) fn numbers(&self) -> u32 {
        self.bases().fold(1, u32::saturating_mul)
    }

    /// The counts after one more item of the given kinds, if it is allowed.
    pub(super) fn matched(&self, mut matched: u32, kinds: u32) -> Option<u32> {
        let (mut after, mut weight) = (0, 1);
        for ((kind, base), &(_, most)) in (0..).zip(self.bases()).zip(&self.bounds) {
            let digit = matched % base;
            let one_more = digit + (kinds >> kind & 1);
            if one_more == base && most.is_some() {
                return None;
            }
            after += one_more.min(base - 1) * weight;
            (matched, weight) = (matched / base, weight * base);
        }
        Some(after)
    }

    /// The number of items still missing, summed over all kinds.
    pub(super) fn wanted(&self, mut matched: u32) -> u32 {
        let mut wanted = 0;
        for (base, &(least, _)) in self.bases().zip(&self.bounds) {
            wanted += least.saturating_sub(matched % base);
            matched /= base;
        }
        wanted
    }

    pub(super) fn is_enough(&self, matched: u32) -> bool {
        self.wanted(matched) == 0
    }
}
