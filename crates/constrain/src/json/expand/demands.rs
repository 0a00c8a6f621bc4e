//! Sets of demands.

use std::rc::Rc;

use crate::json::fault::{Result, bad};
use crate::json::flat::{Demand, Items, Key};

/// The schema that every value obeys, and the demand that no value obeys.
pub(super) const ANYTHING: u32 = 0;
pub(crate) const NOTHING: Demand = (ANYTHING, false);

/// The maximum number of branches all of whose subsets are considered.
const MAX_BRANCHES: usize = 6;

/// Sorts demands and removes duplicates.
pub(crate) fn normal(mut key: Key) -> Key {
    key.retain(|&demand| demand != (ANYTHING, true));
    key.sort_unstable();
    key.dedup();
    if key.contains(&NOTHING) {
        return vec![NOTHING];
    }
    key
}

/// The demands of both.
pub(super) fn joined(a: &[Demand], b: &[Demand]) -> Key {
    normal([a, b].concat())
}

/// The demands on the item of an array at an index.
pub(crate) fn item(items: &[Rc<Items>], at: usize) -> Key {
    let key = items.iter().flat_map(|items| items.first.get(at).unwrap_or(&items.rest)).copied();
    normal(key.collect())
}

/// All subsets of some branches except the empty one.
pub(super) fn subsets(branches: &[Key], path: &str) -> Result<Vec<Key>> {
    if branches.len() > MAX_BRANCHES {
        return bad(
            path,
            format!("\"anyOf\" of more than {MAX_BRANCHES} schemas with \"unevaluated...\" is not supported"),
        );
    }
    let set = |bits: u32| {
        let chosen = branches.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        normal(chosen.flat_map(|(_, branch)| branch).copied().collect())
    };
    Ok((1..1 << branches.len()).map(set).collect())
}
