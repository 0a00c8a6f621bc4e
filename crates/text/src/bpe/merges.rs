//! The merging of the parts of a word, best pair first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use verdigris_logits::TokenId;

use super::names::{Names, Part};
use super::scored::{Lookup, Scored};

/// Words of at most this many parts are merged by searching all pairs for the best one again and again, longer ones
/// with a queue. Both give the same tokens.
const SHORT: usize = 32;

/// The rank of a pair that is not merged.
const NEVER: u64 = u64::MAX;

/// The pairs of tokens that are merged. A pair of a lower rank is merged first; of equal pairs, the leftmost one.
pub(super) enum Merges {
    /// In the order of a list.
    Listed(Listed),
    /// By the score of the token that they become.
    Scored(Scored),
}

/// A list of pairs.
#[derive(Default)]
pub(super) struct Listed {
    /// The rank of each pair, and the token that it becomes.
    pairs: HashMap<u64, (u32, TokenId), FixedState>,
}

/// Buffers for the merging of words, which are reused.
#[derive(Default)]
pub(super) struct Queue {
    /// The name of a word, for a caller that looks it up first.
    pub(super) name: String,
    lookup: Lookup,
    ranks: Vec<(u64, TokenId)>,
    heap: BinaryHeap<Reverse<(u64, u32, TokenId)>>,
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Listed {
    /// An empty list with room for a number of pairs.
    pub(super) fn with_capacity(pairs: usize) -> Self {
        Self { pairs: HashMap::with_capacity_and_hasher(pairs, FixedState::default()) }
    }

    /// Adds a pair, whose rank is the number of pairs before it; `None` if the pair is there already.
    pub(super) fn push(&mut self, first: TokenId, second: TokenId, both: TokenId) -> Option<()> {
        let rank = u32::try_from(self.pairs.len()).ok()?;
        self.pairs.insert(key(first, second), (rank, both)).is_none().then_some(())
    }

    /// Iterates over all pairs, in any order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (TokenId, TokenId)> {
        self.pairs.keys().map(|&key| ((key >> 32) as TokenId, key as TokenId))
    }

    fn get(&self, first: TokenId, second: TokenId) -> (u64, TokenId) {
        self.pairs.get(&key(first, second)).map_or((NEVER, 0), |&(rank, both)| (u64::from(rank), both))
    }
}

impl Merges {
    /// Merges the parts of a word until no pair of neighbours can be merged. `names` are those of the tokens.
    pub(super) fn merge(&self, names: &Names, parts: &mut Vec<Part>, queue: &mut Queue) {
        match self {
            Self::Listed(listed) => merge(parts, queue, |_, first, second| listed.get(first, second)),
            Self::Scored(scored) => merge(parts, queue, |queue, first, second| {
                scored.get(names, &mut queue.lookup, first, second).unwrap_or((NEVER, 0))
            }),
        }
    }
}

/// Merges the parts of a word, with a function that gives the rank of a pair and the token that it becomes.
fn merge(parts: &mut Vec<Part>, queue: &mut Queue, get: impl Fn(&mut Queue, TokenId, TokenId) -> (u64, TokenId)) {
    if parts.len() <= SHORT { merge_short(parts, queue, get) } else { merge_long(parts, queue, get) }
}

fn merge_short(parts: &mut Vec<Part>, queue: &mut Queue, get: impl Fn(&mut Queue, TokenId, TokenId) -> (u64, TokenId)) {
    let mut ranks = std::mem::take(&mut queue.ranks);
    ranks.clear();
    ranks.extend(parts.windows(2).map(|pair| get(queue, pair[0].id, pair[1].id)));
    // `min_by_key` returns the first of equal ranks.
    while let Some((at, &(rank, both))) = ranks.iter().enumerate().min_by_key(|(_, (rank, _))| *rank) {
        if rank == NEVER {
            break;
        }
        parts[at] = Part { id: both, length: parts[at].length + parts[at + 1].length };
        parts.remove(at + 1);
        ranks.remove(at);
        if at > 0 {
            ranks[at - 1] = get(queue, parts[at - 1].id, both);
        }
        if at < ranks.len() {
            ranks[at] = get(queue, both, parts[at + 1].id);
        }
    }
    queue.ranks = ranks;
}

fn merge_long(parts: &mut Vec<Part>, queue: &mut Queue, get: impl Fn(&mut Queue, TokenId, TokenId) -> (u64, TokenId)) {
    let count = parts.len() as u32;
    let (mut heap, mut before, mut after) =
        (std::mem::take(&mut queue.heap), std::mem::take(&mut queue.before), std::mem::take(&mut queue.after));
    heap.clear();
    for (at, pair) in (0..).zip(parts.windows(2)) {
        let (rank, both) = get(queue, pair[0].id, pair[1].id);
        if rank != NEVER {
            heap.push(Reverse((rank, at, both)));
        }
    }
    // The parts are a list with links; a part that was merged into the one before it links to itself.
    before.clear();
    before.extend((0..count).map(|at| at.wrapping_sub(1)));
    after.clear();
    after.extend(1..=count);
    while let Some(Reverse((rank, at, both))) = heap.pop() {
        let (here, next) = (at as usize, after[at as usize] as usize);
        // The pair may have changed since it was put into the queue.
        if next == here || next >= parts.len() || get(queue, parts[here].id, parts[next].id) != (rank, both) {
            continue;
        }
        parts[here] = Part { id: both, length: parts[here].length + parts[next].length };
        after[here] = after[next];
        after[next] = next as u32;
        if let Some(link) = before.get_mut(after[here] as usize) {
            *link = at;
        }
        for left in [before[here], at] {
            let Some(&right) = after.get(left as usize) else { continue };
            let Some(second) = parts.get(right as usize) else { continue };
            let (rank, both) = get(queue, parts[left as usize].id, second.id);
            if rank != NEVER {
                heap.push(Reverse((rank, left, both)));
            }
        }
    }
    let mut at = 0;
    parts.retain(|_| {
        at += 1;
        after[at - 1] as usize != at - 1
    });
    (queue.heap, queue.before, queue.after) = (heap, before, after);
}

/// A pair as one number.
fn key(first: TokenId, second: TokenId) -> u64 {
    u64::from(first) << 32 | u64::from(second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The queue and the search give the same parts.
        #[test]
        fn long_words_are_merged_like_short_ones(
            pairs in proptest::collection::vec((0u32..12, 0u32..12, 0u32..12), 1..60),
            word in proptest::collection::vec(0u32..6, 0..200),
        ) {
            let mut merges = Listed::default();
            for (first, second, both) in pairs {
                // Each pair once, as in a file.
                if merges.get(first, second).0 == NEVER {
                    merges.push(first, second, both).unwrap();
                }
            }
            let mut short: Vec<Part> = word.into_iter().map(|id| Part { id, length: 1 }).collect();
            let (mut long, mut queue) = (short.clone(), Queue::default());
            merge_short(&mut short, &mut queue, |_, first, second| merges.get(first, second));
            merge_long(&mut long, &mut queue, |_, first, second| merges.get(first, second));
            prop_assert_eq!(short, long);
        }
    }
}
