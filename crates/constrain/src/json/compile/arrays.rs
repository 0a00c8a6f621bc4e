//! The shapes of arrays.

use super::{Compiler, Level, MAX_COUNTS};
use crate::grammar::array::{ArrayShape, Counted, CountedItem, NumberedTerminals, Unique};
use crate::json::expand::{NOTHING, item, normal};
use crate::json::fault::{Result, bad, check};
use crate::json::flat::{Arrays, ContainsSome, Key, Numbers, Types};
use crate::json::style::{Escapes, Order};

/// The maximum number of items with schemas of their own.
const MAX_FIRST: usize = 10_000;

/// The maximum number of kinds of items of one array that are counted.
const MAX_CONTAINS: usize = 4;

/// The maximum `minItems` of an array with counted kinds.
const MAX_LEAST: u32 = 1 << 12;

impl Compiler<'_> {
    pub(super) fn array(&mut self, arrays: &Arrays, path: &str) -> Result<ArrayShape> {
        let length = |n: u64| u32::try_from(n).ok().filter(|&n| n < 1 << 30);
        let Some(least) = length(arrays.least) else { return bad(path, "\"minItems\" is too large") };
        // A larger bound has no effect.
        let most = arrays.most.and_then(length);
        let first = arrays.items.iter().map(|items| items.first.len()).max().unwrap_or(0);
        if first > MAX_FIRST {
            return bad(path, format!("\"prefixItems\" has more than {MAX_FIRST} schemas"));
        }
        // Skip those that demand nothing.
        let wanted: Vec<&ContainsSome> =
            arrays.contains.iter().filter(|contains| contains.least > 0 || contains.most.is_some()).collect();
        let first = wanted.iter().map(|contains| contains.from).max().unwrap_or(0).max(first);
        let mut rule = |at: usize| self.rule(item(&arrays.items, at));
        let (rest, all) = (rule(first), (0..first).map(rule).collect());
        let mut counted = None;
        if !wanted.is_empty() {
            if wanted.len() > MAX_CONTAINS {
                return bad(path, format!("more than {MAX_CONTAINS} \"contains\" for one array are not supported"));
            }
            let bounds = wanted
                .iter()
                .map(|contains| (length(contains.least).unwrap_or(u32::MAX - 1), contains.most.and_then(length)));
            let bounds: Vec<(u32, Option<u32>)> = bounds.collect();
            let opposite: Vec<Key> =
                wanted.iter().map(|contains| self.schemas.opposite(&contains.what, path)).collect();
            let mut items = Vec::new();
            for kinds in 0..1u32 << wanted.len() {
                let more = |at: usize| {
                    let mut key = Key::new();
                    for (kind, ContainsSome { from, what, most, .. }) in wanted.iter().enumerate() {
                        match kinds >> kind & 1 == 1 {
                            true if at < *from => key.push(NOTHING),
                            true => key.extend(what),
                            false if most.is_some() && at >= *from => key.extend(&opposite[kind]),
                            false => {}
                        }
                    }
                    key
                };
                check(&self.schemas.budget, path)?;
                let mut rule = |at: usize| self.rule(normal([item(&arrays.items, at), more(at)].concat()));
                items.push(CountedItem { kinds, rest: rule(first), first: (0..first).map(rule).collect() });
            }
            let with_bounds = Counted { bounds, items };
            if with_bounds.numbers() > MAX_COUNTS {
                return bad(path, "\"minContains\" or \"maxContains\" is too large");
            }
            if least > MAX_LEAST {
                return bad(
                    path,
                    format!("\"minItems\" of more than {MAX_LEAST} together with \"contains\" is not supported"),
                );
            }
            counted = Some(with_bounds);
        }
        let mut unique = None;
        if arrays.unique && most.is_none_or(|most| most > 1) {
            if counted.is_some() {
                return bad(path, "\"uniqueItems\" with \"contains\" is not supported");
            }
            if least > MAX_COUNTS {
                return bad(path, "\"minItems\" with \"uniqueItems\" is too large");
            }
            if self.inner() == Level::Nested {
                return bad(path, "\"uniqueItems\" is not supported in the notation of this model's calls");
            }
            let scalars = if first == 0 { self.scalars(&item(&arrays.items, 0), path)? } else { None };
            unique = Some(match scalars {
                Some(terminals) => Unique::AsTexts(terminals),
                None if least > 1 => {
                    return bad(
                        path,
                        "\"minItems\" above 1 with \"uniqueItems\" of arrays or objects, or with \"prefixItems\", \
                         is not supported",
                    );
                }
                None => Unique::AsValues { any_order: self.style.order == Order::Any },
            });
        }
        Ok(ArrayShape { punctuation: self.punctuation, first: all, rest, least, most, counted, unique })
    }

    /// The terminals of items that must all differ, if they are scalars. Each has one spelling.
    fn scalars(&mut self, key: &Key, path: &str) -> Result<Option<NumberedTerminals>> {
        let level = std::mem::replace(&mut self.level, Level::Json);
        let terminals = self.scalars_of_json(key, path);
        self.level = level;
        terminals
    }

    fn scalars_of_json(&mut self, key: &Key, path: &str) -> Result<Option<NumberedTerminals>> {
        let ways = self.schemas.ways(&normal(key.clone()))?;
        if ways.iter().any(|flat| flat.types.has(Types::ARRAY.or(Types::OBJECT))) {
            return Ok(None);
        }
        let mut terminals = Vec::new();
        for flat in ways.iter() {
            terminals.extend(self.words(flat.types, path)?);
            if flat.types.has(Types::NUMBER) {
                terminals.extend(self.number(&Numbers { one_form: true, ..flat.numbers.clone() }, path)?);
            }
            if flat.types.has(Types::STRING) {
                terminals.extend(self.string(&flat.strings, Escapes::Minimal, path)?);
            }
        }
        terminals.sort_unstable();
        terminals.dedup();
        let kept = |number: u32| (number, self.grammar.kept_terminal(number).clone());
        Ok(Some(terminals.into_iter().map(kept).collect()))
    }
}
