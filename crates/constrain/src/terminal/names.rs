//! The names of an object's properties: those of the schema that may come now, and others.

use std::sync::{Arc, OnceLock};

use super::characters::{ANY, Characters};
use super::content::{Content, STATES, written};
use crate::automata::automaton::Automaton;
use crate::automata::budget::Budget;
use crate::automata::distances::{NEVER, distances_to};

/// The maximum total length, in bytes, of the names of one object.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// All names of an object as a tree of bytes, and the other names that are allowed.
#[derive(Debug)]
pub(crate) struct NameTable {
    nodes: Vec<Node>,
    /// The index of each name, in byte order.
    numbers: Vec<u32>,
    /// Names that the schema does not list, of several kinds.
    others: Option<Arc<Characters>>,
}

#[derive(Debug)]
struct Node {
    /// The byte that leads to this node.
    byte: u8,
    /// Whether a name ends here; if so, it is the first one with this prefix.
    is_whole: bool,
    /// Whether a name that the schema does not list can be completed from here.
    other_lives: bool,
    /// The number of children, and the first one; they are consecutive, in byte order.
    children: u16,
    first: u32,
    /// The range of the names with this prefix, in byte order.
    from: u32,
    to: u32,
    /// The state of the automaton of other names here.
    other: Option<u32>,
}

/// The names that may come at one position of an object.
#[derive(Debug)]
pub(crate) struct Names {
    table: Arc<NameTable>,
    /// For each name, in byte order, the fewest bytes from after it to the end of the object; [`NEVER`] if it may not
    /// come.
    after: Box<[u64]>,
    /// For each index in byte order, the number of names before it that may come.
    before: Box<[u32]>,
    /// Like `after`, for each kind of other name; empty if none may come.
    other_after: Box<[u64]>,
    distances: OnceLock<(Vec<u64>, Vec<u64>)>,
}

/// The name that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// The name of the schema with this index.
    Known(u32),
    /// A name that the schema does not list, of this kind.
    Other(u32),
}

impl NameTable {
    /// Returns `None` if the names are too long for an automaton.
    pub(crate) fn new(names: &[&str], others: Option<Arc<Characters>>) -> Option<Self> {
        if names.iter().map(|name| name.len()).sum::<usize>() > MAX_BYTES {
            return None;
        }
        let mut order: Vec<u32> = (0..names.len() as u32).collect();
        order.sort_unstable_by_key(|&number| names[number as usize].as_bytes());
        let sorted: Vec<&[u8]> = order.iter().map(|&number| names[number as usize].as_bytes()).collect();
        let root = others.as_ref().map(|_| Automaton::START);
        let mut nodes = vec![Node::new(0, (0, sorted.len() as u32), root)];
        let mut open = vec![(0usize, 0usize)];
        while let Some((at, depth)) = open.pop() {
            let (mut from, to) = (nodes[at].from, nodes[at].to);
            if from < to && sorted[from as usize].len() == depth {
                nodes[at].is_whole = true;
                from += 1;
            }
            nodes[at].first = nodes.len() as u32;
            while from < to {
                let byte = sorted[from as usize][depth];
                let end = from + sorted[from as usize..to as usize].partition_point(|name| name[depth] == byte) as u32;
                let other = match (&others, nodes[at].other) {
                    (Some(others), Some(state)) => others.automaton.next(state, byte),
                    _ => None,
                };
                let child = nodes.len();
                nodes.push(Node::new(byte, (from, end), other));
                nodes[at].children += 1;
                open.push((child, depth + 1));
                from = end;
            }
        }
        let states = others.as_ref().map_or(0, |others| others.automaton.states());
        if nodes.len() + states > STATES as usize {
            return None;
        }
        // Children come after their parents.
        for at in (0..nodes.len()).rev() {
            if let (Some(others), Some(state)) = (&others, nodes[at].other) {
                let automaton = &others.automaton;
                let lives = |byte| match child(&nodes, &nodes[at], byte) {
                    Some(child) => nodes[child as usize].other_lives,
                    None => automaton.next(state, byte).is_some(),
                };
                let whole = !nodes[at].is_whole && automaton.accepts(state);
                nodes[at].other_lives = whole || (0..=255).any(lives);
            }
        }
        Some(Self { nodes, numbers: order, others })
    }
}

impl NameTable {
    /// For each kind of other name, the fewest bytes of such a name in quotes.
    pub(crate) fn shortest_others(self: &Arc<Self>, kinds: usize) -> Vec<u64> {
        let only = |kind: usize| (0..kinds).map(|other| if other == kind { 0 } else { NEVER }).collect::<Vec<u64>>();
        let shortest = |kind| {
            let names = Names::new(self.clone(), |_| NEVER, only(kind))?;
            Some(names.to_end(names.start()).saturating_add(2))
        };
        (0..kinds).map(|kind| shortest(kind).unwrap_or(NEVER)).collect()
    }

    /// The name at an index in byte order.
    fn name(&self, at: u32) -> String {
        let (mut node, mut bytes) = (&self.nodes[0], Vec::new());
        while node.whole() != Some(at) {
            let leads_there = |child: &&Node| (child.from..child.to).contains(&at);
            node = node.children(&self.nodes).iter().find(leads_there).expect("every name is in the tree");
            bytes.push(node.byte);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The names that the schema does not list, restricted to some kinds.
    pub(crate) fn others_of(&self, kind: impl Fn(u32) -> bool) -> Option<Arc<Characters>> {
        let others = self.others.as_ref()?;
        // Keep the automaton that all schemas share.
        if Arc::ptr_eq(others, &ANY) {
            return kind(0).then(|| others.clone());
        }
        let automaton = &others.automaton;
        let some = Automaton::explore_kinds(
            (&Budget::without_end(), 0),
            Automaton::START,
            |byte| automaton.class(byte),
            |&state, byte| automaton.next(state, byte),
            |&state| {
                let found = automaton.kind(state).or_else(|| automaton.accepts(state).then_some(0));
                found.filter(|&found| kind(found))
            },
        );
        some.ok().map(|some| Arc::new(Characters::new(some)))
    }
}

impl Node {
    fn new(byte: u8, (from, to): (u32, u32), other: Option<u32>) -> Self {
        Self { byte, is_whole: false, other_lives: false, children: 0, first: 0, from, to, other }
    }

    /// The index in byte order of the name that ends here.
    fn whole(&self) -> Option<u32> {
        self.is_whole.then_some(self.from)
    }

    fn children<'a>(&self, nodes: &'a [Self]) -> &'a [Self] {
        &nodes[self.first as usize..][..usize::from(self.children)]
    }
}

/// The index of the node after one more byte.
fn child(nodes: &[Node], node: &Node, byte: u8) -> Option<u32> {
    let child = node.children(nodes).binary_search_by_key(&byte, |child| child.byte).ok()?;
    Some(node.first + child as u32)
}

impl Names {
    /// The names of a table that may come. `after`, by name, and `other_after`, by kind of other name, are the fewest
    /// bytes that follow, [`NEVER`] if the name may not come. `None` if no name may come.
    pub(crate) fn new(
        table: Arc<NameTable>,
        after: impl Fn(u32) -> u64,
        other_after: impl Into<Box<[u64]>>,
    ) -> Option<Self> {
        let after: Box<[u64]> = table.numbers.iter().map(|&number| after(number)).collect();
        let mut count = 0;
        let mut before = vec![0];
        for &after in &after {
            count += u32::from(after != NEVER);
            before.push(count);
        }
        let other_after = other_after.into();
        let some = count > 0 || !other_after.is_empty() && table.nodes[0].other_lives;
        some.then(|| Self { table, after, before: before.into(), other_after, distances: OnceLock::new() })
    }

    /// Only the other names, without those of the schema, with the same states; `None` if others are not allowed.
    pub(crate) fn without_given(&self) -> Option<Self> {
        let names = self.after.len();
        (self.table.nodes[0].other_lives && !self.other_after.is_empty()).then(|| Self {
            table: self.table.clone(),
            after: vec![NEVER; names].into(),
            before: vec![0; names + 1].into(),
            other_after: self.other_after.clone(),
            distances: OnceLock::new(),
        })
    }

    /// Identifies the result of [`Names::without_given`].
    pub(crate) fn others_identity(&self) -> usize {
        Arc::as_ptr(&self.table).addr()
    }

    /// The name that ends at an accepting state.
    pub(crate) fn named(&self, state: u32) -> Named {
        let kind = |state: Option<u32>| {
            let others = self.table.others.as_ref().expect("an other name was read");
            state.and_then(|state| others.automaton.kind(state)).unwrap_or(0)
        };
        match self.table.nodes.get(state as usize) {
            Some(node) if node.is_whole => Named::Known(self.table.numbers[node.from as usize]),
            Some(node) => Named::Other(kind(node.other)),
            None => Named::Other(kind(Some(state - self.table.nodes.len() as u32))),
        }
    }

    /// Whether names that the schema does not list may be anything from here on.
    pub(crate) fn is_any(&self, state: u32) -> bool {
        let nodes = &self.table.nodes;
        let other = match nodes.get(state as usize) {
            Some(node) => node.other,
            None => Some(state - nodes.len() as u32),
        };
        other == Some(Automaton::START) && self.others().is_some_and(|others| std::ptr::eq(others, &**ANY))
    }

    /// Whether the bytes so far are a prefix of a name of the schema, and whether they are one.
    pub(crate) fn known(&self, state: u32) -> (bool, bool) {
        let node = self.table.nodes.get(state as usize);
        (node.is_some(), node.is_some_and(|node| node.is_whole))
    }

    /// At most `most` of the names of the schema that may come and begin with the bytes so far.
    pub(crate) fn known_from(&self, state: u32, most: usize) -> Vec<String> {
        let Some(node) = self.table.nodes.get(state as usize) else { return Vec::new() };
        let names = (node.from..node.to).filter(|&at| self.after[at as usize] != NEVER).take(most);
        names.map(|at| self.table.name(at)).collect()
    }

    /// Whether names that the schema does not list may begin with the bytes so far.
    pub(crate) fn has_others(&self, state: u32) -> bool {
        self.table.nodes.get(state as usize).is_none_or(|node| self.others_live(node))
    }

    /// A state after a name that the schema does not list, of the first kind.
    pub(crate) fn other(&self) -> u32 {
        self.table.nodes.len() as u32 + Automaton::START
    }

    /// The approximate number of bytes used, without the table.
    pub(crate) fn bytes(&self) -> usize {
        256 + size_of_val(&*self.after) + size_of_val(&*self.before) + size_of_val(&*self.other_after)
    }

    /// Identifies these names, apart from distances.
    pub(crate) fn identity(&self) -> (usize, Vec<u32>, bool) {
        (Arc::as_ptr(&self.table).addr(), self.before.to_vec(), self.other_after.is_empty())
    }

    /// An upper bound on the bytes to the end of the object from any state.
    pub(crate) fn farthest(&self) -> u64 {
        let (known, other) = self.distances();
        known.iter().chain(other).copied().filter(|&distance| distance != NEVER).max().unwrap_or(0)
    }

    fn lives(&self, node: &Node) -> bool {
        self.before[node.from as usize] < self.before[node.to as usize] || self.others_live(node)
    }

    fn others_live(&self, node: &Node) -> bool {
        node.other_lives && !self.other_after.is_empty()
    }

    fn others(&self) -> Option<&Characters> {
        self.table.others.as_deref().filter(|_| !self.other_after.is_empty())
    }

    /// For each node of the tree and each state of the other names, the fewest bytes, as written, to the end of a name
    /// plus those that follow it.
    fn distances(&self) -> &(Vec<u64>, Vec<u64>) {
        self.distances.get_or_init(|| {
            let nodes = &self.table.nodes;
            let other = self.others().map_or(Vec::new(), |others| {
                let after = |state| {
                    let kind = others.automaton.kind(state).unwrap_or(0);
                    others.automaton.accepts(state).then(|| self.other_after[kind as usize])
                };
                distances_to(&others.automaton, written, after)
            });
            let mut distances = vec![NEVER; nodes.len()];
            for (at, node) in nodes.iter().enumerate().rev() {
                let mut nearest = node.whole().map_or(NEVER, |whole| self.after[whole as usize]);
                for (number, child) in (node.first as usize..).zip(node.children(nodes)) {
                    nearest = nearest.min(distances[number].saturating_add(written(child.byte)));
                }
                if let (Some(others), Some(state)) = (self.others(), node.other) {
                    if !node.is_whole && others.automaton.accepts(state) {
                        let kind = others.automaton.kind(state).unwrap_or(0);
                        nearest = nearest.min(self.other_after[kind as usize]);
                    }
                    for byte in (0..=255).filter(|&byte| child(nodes, node, byte).is_none()) {
                        if let Some(next) = others.automaton.next(state, byte) {
                            nearest = nearest.min(other[next as usize].saturating_add(written(byte)));
                        }
                    }
                }
                distances[at] = nearest;
            }
            (distances, other)
        })
    }
}

impl Content for Names {
    fn start(&self) -> u32 {
        0
    }

    fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let nodes = &self.table.nodes;
        let outside = |state: u32| {
            let next = self.others()?.automaton.next(state, byte)?;
            Some(next + nodes.len() as u32)
        };
        match nodes.get(state as usize) {
            None => outside(state - nodes.len() as u32),
            Some(node) => match child(nodes, node, byte) {
                Some(child) => self.lives(&nodes[child as usize]).then_some(child),
                None => outside(node.other?),
            },
        }
    }

    fn accepts(&self, state: u32) -> bool {
        let nodes = &self.table.nodes;
        let other = |state| self.others().is_some_and(|others| others.automaton.accepts(state));
        match nodes.get(state as usize) {
            Some(node) if node.is_whole => self.after[node.from as usize] != NEVER,
            Some(node) => node.other.is_some_and(other),
            None => other(state - nodes.len() as u32),
        }
    }

    fn to_end(&self, state: u32) -> u64 {
        let (known, other) = self.distances();
        match known.get(state as usize) {
            Some(&distance) => distance,
            None => other[state as usize - known.len()],
        }
    }

    fn free(&self, state: u32) -> Option<u32> {
        let nodes = &self.table.nodes;
        let others = self.others()?;
        let other = match nodes.get(state as usize) {
            Some(node) => node.other?,
            None => state - nodes.len() as u32,
        };
        // Whichever characters come, one more makes it a name that the schema does not list.
        others.is_universal(other).then_some(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automata::dfa::Dfa;
    use crate::terminal::escape::Escapes;
    use crate::terminal::quoted::Quoted;

    fn read(names: &Quoted<Names>, name: &str) -> Option<Named> {
        let text = serde_json::to_vec(name).unwrap();
        let end = text.iter().try_fold(names.start(), |state, &byte| names.next(state, byte))?;
        names.accepts(end).then(|| names.content.named(names.content_state(end)))
    }

    fn names(known: &[&str], may_come: &[u32], others: Option<&str>) -> Quoted<Names> {
        let others = others.map(|pattern| {
            let automaton = Dfa::new(pattern).unwrap().automaton().unwrap();
            Arc::new(Characters::new(automaton))
        });
        let other_after = if others.is_some() { vec![5] } else { Vec::new() };
        let table = Arc::new(NameTable::new(known, others).unwrap());
        let after = |number: u32| if may_come.contains(&number) { 7 } else { NEVER };
        Quoted::new(Names::new(table, after, other_after).unwrap(), Escapes::Minimal)
    }

    #[test]
    fn known_names_and_others_are_told_apart() {
        let known = ["age", "ag\"e", "é", "", "ages"];
        let all = names(&known, &[0, 1, 2, 3], Some("(?s:.*)"));
        for (number, name) in (0..4).zip(known) {
            assert_eq!(read(&all, name), Some(Named::Known(number)), "{name}");
        }
        for other in ["ag", "agesx", "è", "x", "Age"] {
            assert_eq!(read(&all, other), Some(Named::Other(0)), "{other}");
        }
        assert_eq!(read(&all, "ages"), None, "it may not come now");
        let closed = names(&known, &[4], None);
        assert_eq!(read(&closed, "ages"), Some(Named::Known(4)));
        for name in ["age", "x", "", "agesx"] {
            assert_eq!(read(&closed, name), None, "{name}");
        }
        assert!(Names::new(closed.content.table.clone(), |_| NEVER, []).is_none());
    }

    /// Other names of which few are left: `a`, `b` and `ab`, of which the schema lists `a` and `ab`.
    #[test]
    fn no_beginning_is_without_an_end() {
        let some = names(&["a", "ab"], &[], Some("a|b|ab"));
        assert_eq!(read(&some, "b"), Some(Named::Other(0)));
        let begun = |text: &str| text.bytes().try_fold(some.start(), |state, byte| some.next(state, byte));
        assert!(begun("\"b").is_some() && begun("\"a").is_none());
        assert_eq!(some.to_end(some.start()), 2 + 1 + 5);
    }

    #[test]
    fn distances_are_to_the_end_of_what_follows() {
        let names = names(&["abc", "x\n"], &[0, 1], None);
        let at = |text: &str| names.to_end(text.bytes().try_fold(names.start(), |s, b| names.next(s, b)).unwrap());
        assert_eq!((at(""), at("\"a"), at("\"abc"), at("\"x")), (5 + 7, 3 + 7, 1 + 7, 3 + 7));
    }
}
