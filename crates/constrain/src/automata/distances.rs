//! Distances from each state of an automaton to the end, by a cost of bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::automaton::Automaton;
use super::utf8::begins_character;

/// The distance of a state with no way to the end.
pub(crate) const NEVER: u64 = u64::MAX;

/// For each state, the smallest cost of the bytes to an accepting one.
pub(crate) fn distances(automaton: &Automaton, cost: impl Fn(u8) -> u64) -> Vec<u64> {
    distances_to(automaton, cost, |state| automaton.accepts(state).then_some(0))
}

/// For each state, the smallest cost of the bytes to an end plus the cost of that end (Dijkstra).
pub(crate) fn distances_to(
    automaton: &Automaton,
    cost: impl Fn(u8) -> u64,
    end: impl Fn(u32) -> Option<u64>,
) -> Vec<u64> {
    let states = automaton.states() as u32;
    let edges = edges(automaton, cost);
    let mut before: Vec<Vec<(u32, u64)>> = vec![Vec::new(); states as usize];
    for (from, edges) in (0..).zip(&edges) {
        edges.iter().for_each(|&(to, cost)| before[to as usize].push((from, cost)));
    }
    let mut distances = vec![NEVER; states as usize];
    let mut open: BinaryHeap<_> =
        (0..states).filter_map(|state| Some(Reverse((end(state).filter(|&end| end != NEVER)?, state)))).collect();
    while let Some(Reverse((distance, state))) = open.pop() {
        if distances[state as usize] != NEVER {
            continue;
        }
        distances[state as usize] = distance;
        open.extend(before[state as usize].iter().map(|&(from, cost)| Reverse((distance.saturating_add(cost), from))));
    }
    distances
}

/// The successors of each state, with the least cost of a byte that leads to each.
pub(crate) fn edges(automaton: &Automaton, cost: impl Fn(u8) -> u64) -> Vec<Vec<(u32, u64)>> {
    // One byte of each class is enough, the cheapest.
    let mut kinds: Vec<(u8, u64)> = (0..=255).map(|byte| (automaton.class(byte), cost(byte))).collect();
    let mut representatives: Vec<u8> = (0..=255).collect();
    representatives.sort_by_key(|&byte| kinds[usize::from(byte)]);
    representatives.dedup_by_key(|byte| kinds[usize::from(*byte)].0);
    kinds = representatives.iter().map(|&byte| (byte, kinds[usize::from(byte)].1)).collect();
    let of = |state| {
        let mut edges: Vec<(u32, u64)> =
            kinds.iter().filter_map(|&(byte, cost)| Some((automaton.next(state, byte)?, cost))).collect();
        edges.sort_unstable();
        edges.dedup_by_key(|edge| edge.0);
        edges
    };
    (0..automaton.states() as u32).map(of).collect()
}

/// For each state, the most UTF-8 characters to an accepting one; `u32::MAX` if unbounded.
pub(crate) fn longest_in_characters(automaton: &Automaton) -> Vec<u32> {
    let edges = edges(automaton, |byte| u64::from(begins_character(byte)));
    // Depth-first. A state that is met again on the path is on a loop, and every loop has a character.
    let states = automaton.states();
    let mut longest = vec![0u32; states];
    let (mut done, mut on_path) = (vec![false; states], vec![false; states]);
    for root in 0..states as u32 {
        if done[root as usize] {
            continue;
        }
        let mut path = vec![(root, 0usize)];
        on_path[root as usize] = true;
        while let Some((state, edge)) = path.pop() {
            let at = state as usize;
            if let Some(&(to, cost)) = edges[at].get(edge) {
                let to = to as usize;
                if on_path[to] {
                    longest[at] = u32::MAX;
                } else if !done[to] {
                    path.push((state, edge));
                    path.push((to as u32, 0));
                    on_path[to] = true;
                    continue;
                } else {
                    longest[at] = longest[at].max(longest[to].saturating_add(cost as u32));
                }
                path.push((state, edge + 1));
            } else {
                on_path[at] = false;
                done[at] = true;
            }
        }
    }
    // Spread unboundedness to states that were finished before the loop they lead to.
    loop {
        let mut changed = false;
        for state in 0..states {
            if longest[state] != u32::MAX && edges[state].iter().any(|&(to, _)| longest[to as usize] == u32::MAX) {
                (longest[state], changed) = (u32::MAX, true);
            }
        }
        if !changed {
            return longest;
        }
    }
}
