//! Automata over bytes in which every state can reach the end.

use std::collections::VecDeque;
use std::hash::Hash;

use foldhash::{HashMap, HashMapExt};
use smallvec::SmallVec;

use crate::automata::budget::Budget;

/// The maximum number of cells of the table of one automaton; each takes four bytes.
const MAX_CELLS: usize = 16 << 20;

/// The maximum memory, in bytes, for finding the states of one automaton.
const MAX_BYTES: usize = 128 << 20;

/// The maximum number of cells of a dense table for a list of texts.
const SMALL: usize = 1 << 16;

const NONE: u32 = u32::MAX;

/// A state of each of several automata that read the same text.
type Product = SmallVec<[u32; 8]>;

/// A deterministic automaton over bytes. States are numbers, and the first is the start.
///
/// States that cannot be reached, or from which no text can be completed, are left out: every transition is part of an
/// accepted text.
#[derive(Clone, Debug)]
pub(crate) struct Automaton {
    classes: [u8; 256],
    transitions: Transitions,
    /// The fewest bytes from each state to an accepting one.
    to_end: Vec<u32>,
    goes_on: Vec<bool>,
    /// The kind of text that each state accepts, if kinds are distinguished; else empty.
    labels: Vec<u32>,
}

/// The transitions of each state.
#[derive(Clone, Debug)]
enum Transitions {
    /// By (state, class of byte).
    Dense { stride: usize, next: Vec<u32> },
    /// For long lists of texts, whose nodes have few transitions: from `first[state]` on, the classes in order and the
    /// states that they lead to.
    Sparse { first: Vec<u32>, classes: Vec<u8>, next: Vec<u32> },
}

/// The reason why an automaton cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAutomaton {
    /// It accepts nothing.
    Empty,
    /// It has too many states.
    TooLarge,
}

impl Automaton {
    /// The state before any byte.
    pub(crate) const START: u32 = 0;

    /// Builds the automaton whose states are found by walking from `start`.
    ///
    /// `class` groups bytes: bytes of one class must lead from every state to the same state.
    pub(crate) fn explore<S: Clone + Eq + Hash, C: Eq + Hash>(
        start: S,
        class: impl Fn(u8) -> C,
        next: impl Fn(&S, u8) -> Option<S>,
        accepts: impl Fn(&S) -> bool,
    ) -> Result<Self, NoAutomaton> {
        Self::explore_within(&Budget::without_end(), start, class, next, accepts)
    }

    /// Like [`Automaton::explore`], within a budget.
    pub(crate) fn explore_within<S: Clone + Eq + Hash, C: Eq + Hash>(
        budget: &Budget,
        start: S,
        class: impl Fn(u8) -> C,
        next: impl Fn(&S, u8) -> Option<S>,
        accepts: impl Fn(&S) -> bool,
    ) -> Result<Self, NoAutomaton> {
        let kind = |state: &S| accepts(state).then_some(0);
        let automaton = Self::explore_kinds((budget, 1), start, class, next, kind)?;
        Ok(Self { labels: Vec::new(), ..automaton })
    }

    /// Like [`Automaton::explore`], for texts of several kinds, within a budget; `cell` is the weight of a state.
    pub(crate) fn explore_kinds<S: Clone + Eq + Hash, C: Eq + Hash>(
        (budget, cell): (&Budget, u64),
        start: S,
        class: impl Fn(u8) -> C,
        next: impl Fn(&S, u8) -> Option<S>,
        kind: impl Fn(&S) -> Option<u32>,
    ) -> Result<Self, NoAutomaton> {
        let (classes, representatives) = classify(class);
        let stride = representatives.len();
        let mut numbers = HashMap::from_iter([(start.clone(), 0u32)]);
        let (mut states, mut table) = (vec![start], Vec::new());
        let mut at = 0;
        while at < states.len() {
            for &byte in &representatives {
                let Some(to) = next(&states[at], byte) else {
                    table.push(NONE);
                    continue;
                };
                let number = *numbers.entry(to).or_insert_with_key(|to| {
                    states.push(to.clone());
                    states.len() as u32 - 1
                });
                table.push(number);
            }
            at += 1;
            let bytes = 8 * stride + 64 * cell as usize + 2 * size_of::<S>();
            let fits = states.len() * stride <= MAX_CELLS && states.len() * bytes <= MAX_BYTES;
            if !fits || !budget.take(cell * (stride as u64 / 4 + 2)) {
                return Err(NoAutomaton::TooLarge);
            }
        }
        let kinds: Vec<Option<u32>> = states.iter().map(kind).collect();
        Self::trim(classes, stride, &table, &kinds)
    }

    /// The texts that each part accepts, or rejects where its flag is false. Texts are UTF-8.
    pub(crate) fn all_of(budget: &Budget, parts: &[(&Self, bool)]) -> Result<Self, NoAutomaton> {
        let utf8 = Self::utf8();
        let cell = 1 + parts.len() as u64 / 4;
        // UTF-8 is the last part, and its state must not be dead either.
        let parts: Vec<(&Self, bool)> = parts.iter().copied().chain([(&utf8, true)]).collect();
        let automaton = Self::explore_kinds(
            (budget, cell),
            Product::from_elem(Self::START, parts.len()),
            |byte| parts.iter().map(|(part, _)| part.class(byte)).collect::<Vec<u8>>(),
            |states, byte| {
                let mut after = Product::with_capacity(parts.len());
                for (&(part, wanted), &state) in parts.iter().zip(states) {
                    let next = part.step(state, byte);
                    if wanted && next == NONE {
                        return None;
                    }
                    after.push(next);
                }
                Some(after)
            },
            |states| {
                let fits = |(&(part, wanted), &state): (&(&Self, bool), &u32)| {
                    (state != NONE && part.accepts(state)) == wanted
                };
                parts.iter().zip(states).all(fits).then_some(0)
            },
        )?;
        Ok(Self { labels: Vec::new(), ..automaton })
    }

    /// The texts that at least one part accepts.
    pub(crate) fn any_of(budget: &Budget, parts: &[&Self]) -> Result<Self, NoAutomaton> {
        let automaton = Self::explore_kinds(
            (budget, 1 + parts.len() as u64 / 4),
            Product::from_elem(Self::START, parts.len()),
            |byte| parts.iter().map(|part| part.class(byte)).collect::<Vec<u8>>(),
            |states, byte| {
                let after: Product = parts.iter().zip(states).map(|(part, &state)| part.step(state, byte)).collect();
                after.iter().any(|&state| state != NONE).then_some(after)
            },
            |states| {
                let accepts = |(part, &state): (&&Self, &u32)| state != NONE && part.accepts(state);
                parts.iter().zip(states).any(accepts).then_some(0)
            },
        )?;
        Ok(Self { labels: Vec::new(), ..automaton })
    }

    /// The texts except the empty one.
    pub(crate) fn nonempty(&self, budget: &Budget) -> Result<Self, NoAutomaton> {
        let start = (Self::START, false);
        let next = |&(state, _): &(u32, bool), byte| self.next(state, byte).map(|next| (next, true));
        Self::explore_within(
            budget,
            start,
            |byte| self.class(byte),
            next,
            |&(state, begun)| begun && self.accepts(state),
        )
    }

    /// All texts: well-formed UTF-8 (Unicode 17, table 3-7).
    pub(crate) fn utf8() -> Self {
        // The number of bytes left in a character, and the range of the next byte.
        Self::explore(
            (0u8, 0x80u8, 0xbfu8),
            |byte| match byte {
                0xe0 | 0xed | 0xf0 | 0xf4 => u16::from(byte),
                0x90..=0x9f => 0x101,
                0x80..=0x8f => 0x102,
                0xa0..=0xbf => 0x103,
                0xc2..=0xdf => 0x104,
                0xe1..=0xef => 0x105,
                0xf1..=0xf3 => 0x106,
                0..=0x7f => 0x107,
                _ => 0x108,
            },
            |&(left, low, high), byte| match (left, byte) {
                (0, 0..=0x7f) => Some((0, 0x80, 0xbf)),
                (0, 0xc2..=0xdf) => Some((1, 0x80, 0xbf)),
                (0, 0xe0) => Some((2, 0xa0, 0xbf)),
                (0, 0xed) => Some((2, 0x80, 0x9f)),
                (0, 0xe1..=0xef) => Some((2, 0x80, 0xbf)),
                (0, 0xf0) => Some((3, 0x90, 0xbf)),
                (0, 0xf1..=0xf3) => Some((3, 0x80, 0xbf)),
                (0, 0xf4) => Some((3, 0x80, 0x8f)),
                (0, _) => None,
                (_, byte) => (low <= byte && byte <= high).then_some((left - 1, 0x80, 0xbf)),
            },
            |&(left, ..)| left == 0,
        )
        .expect("it is small")
    }

    /// Leaves out the states that cannot reach an accepting one.
    fn trim(classes: [u8; 256], stride: usize, table: &[u32], kinds: &[Option<u32>]) -> Result<Self, NoAutomaton> {
        let accepts: Vec<bool> = kinds.iter().map(Option::is_some).collect();
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); accepts.len()];
        for (from, row) in table.chunks(stride).enumerate() {
            for &to in row.iter().filter(|&&to| to != NONE) {
                before[to as usize].push(from as u32);
            }
        }
        // Breadth-first from the accepting states backwards.
        let mut to_end: Vec<u32> = accepts.iter().map(|&accepts| if accepts { 0 } else { NONE }).collect();
        let mut open: VecDeque<u32> = (0..accepts.len() as u32).filter(|&state| accepts[state as usize]).collect();
        while let Some(state) = open.pop_front() {
            for &from in &before[state as usize] {
                if to_end[from as usize] == NONE {
                    to_end[from as usize] = to_end[state as usize] + 1;
                    open.push_back(from);
                }
            }
        }
        let alive: Vec<bool> = to_end.iter().map(|&bytes| bytes != NONE).collect();
        if !alive[Self::START as usize] {
            return Err(NoAutomaton::Empty);
        }
        let mut numbers = vec![NONE; alive.len()];
        for (number, state) in (0..alive.len()).filter(|&state| alive[state]).enumerate() {
            numbers[state] = number as u32;
        }
        let kept = || (0..alive.len()).filter(|&state| alive[state]);
        let renumber = |&to: &u32| if to == NONE { NONE } else { numbers[to as usize] };
        let row = |state: usize| table[state * stride..(state + 1) * stride].iter().map(renumber);
        Ok(Self {
            classes,
            transitions: Transitions::Dense { stride, next: kept().flat_map(row).collect() },
            to_end: kept().map(|state| to_end[state]).collect(),
            goes_on: kept().map(|state| row(state).any(|to| to != NONE)).collect(),
            labels: kept().map(|state| kinds[state].unwrap_or(NONE)).collect(),
        })
    }

    /// The automaton of a list of texts.
    pub(crate) fn literals<T: AsRef<[u8]>>(texts: impl IntoIterator<Item = T>) -> Result<Self, NoAutomaton> {
        let mut texts: Vec<T> = texts.into_iter().collect();
        texts.sort_unstable_by(|a, b| a.as_ref().cmp(b.as_ref()));
        let Some(nodes) = shared_ends(&texts)? else { return Err(NoAutomaton::Empty) };
        let mut used = [false; 256];
        nodes.iter().flat_map(|node| &node.edges).for_each(|&(byte, _)| used[usize::from(byte)] = true);
        let (classes, representatives) = classify(|byte| used[usize::from(byte)].then_some(byte));
        let mut to_end: Vec<u32> = Vec::with_capacity(nodes.len());
        // Nodes come after their successors, states before them.
        for Node { edges, accepts } in &nodes {
            let nearest = edges.iter().map(|&(_, to)| to_end[to as usize] + 1).min().unwrap_or(0);
            to_end.push(if *accepts { 0 } else { nearest });
        }
        to_end.reverse();
        let state = |node: u32| nodes.len() as u32 - 1 - node;
        let stride = representatives.len();
        let ways = || nodes.iter().rev().map(|node| &node.edges);
        let transitions = if nodes.len() * stride <= SMALL {
            let mut next = vec![NONE; nodes.len() * stride];
            for (row, edges) in next.chunks_mut(stride).zip(ways()) {
                edges.iter().for_each(|&(byte, to)| row[usize::from(classes[usize::from(byte)])] = state(to));
            }
            Transitions::Dense { stride, next }
        } else {
            let (mut first, mut ordered, mut next) = (vec![0], Vec::new(), Vec::new());
            for edges in ways() {
                let from = ordered.len();
                ordered.extend(edges.iter().map(|&(byte, to)| (classes[usize::from(byte)], state(to))));
                ordered[from..].sort_unstable();
                first.push(ordered.len() as u32);
            }
            let of_edges = ordered.iter().map(|&(class, _)| class).collect();
            next.extend(ordered.iter().map(|&(_, to)| to));
            Transitions::Sparse { first, classes: of_edges, next }
        };
        let goes_on = ways().map(|edges| !edges.is_empty()).collect();
        Ok(Self { classes, transitions, to_end, goes_on, labels: Vec::new() })
    }

    /// The automaton with these transitions of each state, in order of bytes; every state must be able to reach an
    /// accepting one, and the first is the start.
    pub(crate) fn of_rows(rows: &[Vec<(u8, u32)>], accepts: &[bool]) -> Self {
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); rows.len()];
        for (from, row) in (0..).zip(rows) {
            row.iter().for_each(|&(_, to)| before[to as usize].push(from));
        }
        let mut to_end: Vec<u32> = accepts.iter().map(|&accepts| if accepts { 0 } else { NONE }).collect();
        let mut open: VecDeque<u32> = (0..).zip(accepts).filter(|&(_, &accepts)| accepts).map(|(at, _)| at).collect();
        while let Some(state) = open.pop_front() {
            for &from in &before[state as usize] {
                if to_end[from as usize] == NONE {
                    to_end[from as usize] = to_end[state as usize] + 1;
                    open.push_back(from);
                }
            }
        }
        let mut used = [false; 256];
        rows.iter().flatten().for_each(|&(byte, _)| used[usize::from(byte)] = true);
        // Unused bytes share a class.
        let (classes, _) = classify(|byte| used[usize::from(byte)].then_some(byte));
        let (mut first, mut of_edges, mut next) = (vec![0], Vec::new(), Vec::new());
        for row in rows {
            let from = of_edges.len();
            let mut row: Vec<(u8, u32)> = row.iter().map(|&(byte, to)| (classes[usize::from(byte)], to)).collect();
            row.sort_unstable();
            of_edges.extend(row.iter().map(|&(class, _)| class));
            next.extend(row.iter().map(|&(_, to)| to));
            first.push((from + row.len()) as u32);
        }
        let goes_on = rows.iter().map(|row| !row.is_empty()).collect();
        Self {
            classes,
            transitions: Transitions::Sparse { first, classes: of_edges, next },
            to_end,
            goes_on,
            labels: Vec::new(),
        }
    }

    /// The state after one more byte, if any text continues with it.
    #[inline]
    pub(crate) fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let class = self.classes[usize::from(byte)];
        match &self.transitions {
            Transitions::Dense { stride, next } => {
                let to = next[state as usize * stride + usize::from(class)];
                (to != NONE).then_some(to)
            }
            Transitions::Sparse { first, classes, next } => {
                let (from, to) = (first[state as usize] as usize, first[state as usize + 1] as usize);
                classes[from..to].binary_search(&class).ok().map(|at| next[from + at])
            }
        }
    }

    /// Like [`Automaton::next`], with [`NONE`] as a dead state.
    fn step(&self, state: u32, byte: u8) -> u32 {
        if state == NONE { NONE } else { self.next(state, byte).unwrap_or(NONE) }
    }

    /// Whether the text so far is accepted.
    pub(crate) fn accepts(&self, state: u32) -> bool {
        self.to_end(state) == 0
    }

    /// The fewest bytes that complete the text so far.
    pub(crate) fn to_end(&self, state: u32) -> u32 {
        self.to_end[state as usize]
    }

    /// The kind of text that is accepted here, if the automaton distinguishes kinds.
    pub(crate) fn kind(&self, state: u32) -> Option<u32> {
        self.labels.get(state as usize).copied().filter(|&kind| kind != NONE)
    }

    /// The number of states.
    pub(crate) fn states(&self) -> usize {
        self.to_end.len()
    }

    /// The class of a byte: bytes of one class lead from every state to the same state.
    pub(crate) fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    /// Whether a whole text is accepted.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.after(text).is_some_and(|state| self.accepts(state))
    }

    /// The state after a text, if any accepted text begins with it.
    pub(crate) fn after(&self, text: &[u8]) -> Option<u32> {
        text.iter().try_fold(Self::START, |state, &byte| self.next(state, byte))
    }

    /// The largest value of [`Automaton::to_end`].
    pub(crate) fn farthest(&self) -> u32 {
        self.to_end.iter().copied().max().unwrap_or(0)
    }

    /// The number of cells of its table.
    pub(crate) fn cells(&self) -> usize {
        match &self.transitions {
            Transitions::Dense { next, .. } => next.len(),
            Transitions::Sparse { first, next, .. } => first.len() + 2 * next.len(),
        }
    }

    /// Whether the text so far can continue.
    pub(crate) fn goes_on(&self, state: u32) -> bool {
        self.goes_on[state as usize]
    }
}

/// A node of the graph of a list of texts: its outgoing edges, and whether a text ends here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    edges: Vec<(u8, u32)>,
    accepts: bool,
}

/// Builds the smallest graph of a sorted list of texts, with shared prefixes and suffixes (Daciuk, Mihov, Watson and
/// Watson 2000, incremental construction from sorted data). Texts begin at the last node; `None` for an empty list.
fn shared_ends<T: AsRef<[u8]>>(texts: &[T]) -> Result<Option<Vec<Node>>, NoAutomaton> {
    let (mut nodes, mut numbers) = (Vec::new(), HashMap::new());
    let mut edges = 0;
    // The nodes of the last text, each with the byte that leads to the next.
    let mut path: Vec<(Node, u8)> = vec![(Node::default(), 0)];
    let mut before: &[u8] = &[];
    let mut close = |path: &mut Vec<(Node, u8)>, depth: usize| {
        while path.len() > depth {
            let (node, _) = path.pop().expect("it is longer than the depth");
            let number = *numbers.entry(node).or_insert_with_key(|node: &Node| {
                edges += node.edges.len();
                nodes.push(node.clone());
                nodes.len() as u32 - 1
            });
            if let Some((parent, byte)) = path.last_mut() {
                parent.edges.push((*byte, number));
            }
        }
        if edges > MAX_CELLS { Err(NoAutomaton::TooLarge) } else { Ok(()) }
    };
    for text in texts.iter().map(AsRef::as_ref) {
        let shared = before.iter().zip(text).take_while(|(a, b)| a == b).count();
        close(&mut path, shared + 1)?;
        for &byte in &text[shared..] {
            path.last_mut().expect("the first node stays").1 = byte;
            path.push((Node::default(), 0));
        }
        path.last_mut().expect("the first node stays").0.accepts = true;
        before = text;
    }
    close(&mut path, 0)?;
    Ok((!texts.is_empty()).then_some(nodes))
}

/// Numbers the classes of bytes; also returns a byte of each class.
fn classify<C: Eq + Hash>(class: impl Fn(u8) -> C) -> ([u8; 256], Vec<u8>) {
    let (mut numbers, mut classes, mut representatives) = (HashMap::new(), [0; 256], Vec::new());
    for byte in 0..=255 {
        classes[usize::from(byte)] = *numbers.entry(class(byte)).or_insert_with(|| {
            representatives.push(byte);
            (representatives.len() - 1) as u8
        });
    }
    (classes, representatives)
}

/// Whether a whole text is accepted.
#[cfg(test)]
pub(crate) fn accepts(automaton: &Automaton, text: &str) -> bool {
    automaton.matches(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_accepted_and_nothing_else() {
        let texts = ["be", "bee", "beer", "a", "één", "bee"];
        let automaton = Automaton::literals(texts).unwrap();
        for text in texts {
            assert!(accepts(&automaton, text), "{text}");
            assert!(!accepts(&automaton, &format!("{text}x")) && !accepts(&automaton, &format!("x{text}")));
        }
        assert!(!accepts(&automaton, "") && !accepts(&automaton, "b") && !accepts(&automaton, "beerbeer"));
        assert!(accepts(&Automaton::literals(["", "a"]).unwrap(), ""));
        assert_eq!(Automaton::literals::<&str>([]).err(), Some(NoAutomaton::Empty));
    }

    #[test]
    fn long_lists_share_beginnings_and_ends() {
        let texts: Vec<String> =
            (0..100_000u32).map(|i| format!("item-{:05}-{}.txt", i, i.wrapping_mul(2_654_435) % 977)).collect();
        let automaton = Automaton::literals(&texts).unwrap();
        assert!(matches!(automaton.transitions, Transitions::Sparse { .. }));
        for text in texts.iter().step_by(997) {
            assert!(
                accepts(&automaton, text)
                    && !accepts(&automaton, &text[1..])
                    && !accepts(&automaton, &format!("{text}x"))
            );
            assert_eq!(automaton.to_end(automaton.after(&text.as_bytes()[..11]).unwrap()) as usize, text.len() - 11);
        }
        let ends = Automaton::literals((0..100_000u32).map(|i| format!("{i:05}"))).unwrap();
        assert_eq!(ends.states(), 6, "any five digits");
    }

    /// A `1` adds 2 and any other byte adds 1, and 5 is accepted: the states 6 and 7 lead nowhere.
    #[test]
    fn dead_states_do_not_exist() {
        let automaton = Automaton::explore(
            0u32,
            |byte| byte == b'1',
            |&n, byte| (n < 6).then_some(if byte == b'1' { n + 2 } else { n + 1 }),
            |&n| n == 5,
        )
        .unwrap();
        assert_eq!(automaton.to_end, [3, 2, 2, 1, 1, 0]);
        assert!(accepts(&automaton, "11.") && accepts(&automaton, "....."));
        let four = b"11".iter().fold(Automaton::START, |state, &byte| automaton.next(state, byte).unwrap());
        assert_eq!(automaton.next(four, b'1'), None, "6 is a dead end");
        let five = automaton.next(four, b'.').unwrap();
        assert!(!automaton.goes_on(five) && automaton.goes_on(four));
    }

    #[test]
    fn too_large_is_said() {
        let endless = Automaton::explore(0u64, |byte| byte, |&n, _| Some(n + 1), |_| false);
        assert_eq!(endless.err(), Some(NoAutomaton::TooLarge));
    }
}
