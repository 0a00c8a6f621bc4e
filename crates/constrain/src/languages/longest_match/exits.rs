//! The bytes that cannot come next at the ends of rules.

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::bytes::Bytes;
use super::reading::Reading;
use crate::languages::fault::{Result, take};
use crate::languages::graph::{Graph, Node, NodeIndex};

/// A rule, and the bytes that cannot come next where it begins.
pub(super) type Begun = (u32, Bytes);

/// The summary of a rule that begins under a guard.
#[derive(Default)]
struct Summary {
    /// The guards at the ends of its texts.
    exits: Vec<Bytes>,
    /// The calls that wait for exits: the caller and the node after the call.
    callers: Vec<(usize, NodeIndex)>,
    seen: HashSet<(NodeIndex, Bytes)>,
}

/// The guards at the ends of rules.
pub(super) struct Exits {
    numbers: HashMap<Begun, usize>,
    begun: Vec<Begun>,
    summaries: Vec<Summary>,
    open: Vec<(usize, NodeIndex, Bytes)>,
}

impl Exits {
    /// Finds the guards at the ends of all rules that texts reach, with summaries of calls (Sharir and Pnueli, *Two
    /// approaches to interprocedural data flow analysis*, 1981).
    pub(super) fn of(graph: &Graph<'_>, reading: &mut Reading<'_>) -> Result<Self> {
        let mut exits = Self { numbers: HashMap::new(), begun: Vec::new(), summaries: Vec::new(), open: Vec::new() };
        exits.begin(graph, reading, 0, Bytes::default());
        while let Some((at, node, guard)) = exits.open.pop() {
            take(graph.budget, 4)?;
            let (rule, _) = exits.begun[at];
            match &graph.nodes[node as usize] {
                &Node::Read { segment, next } => {
                    for part in reading.parts(node, segment, next, rule, guard)?.iter() {
                        exits.visit(reading, at, next, part.guard);
                    }
                }
                &Node::Grammar { grammar, next } => {
                    if reading.begins(grammar, guard) {
                        exits.visit(reading, at, next, Bytes::default());
                    }
                }
                &Node::Call { rule, next } => {
                    let called = exits.begin(graph, reading, rule, guard);
                    exits.summaries[called].callers.push((at, next));
                    for exit in exits.summaries[called].exits.clone() {
                        exits.visit(reading, at, next, exit);
                    }
                }
                Node::Fork(ways) => ways.iter().for_each(|&way| exits.visit(reading, at, way, guard)),
                Node::End => {
                    if !exits.summaries[at].exits.contains(&guard) {
                        exits.summaries[at].exits.push(guard);
                        for (caller, next) in exits.summaries[at].callers.clone() {
                            exits.visit(reading, caller, next, guard);
                        }
                    }
                }
            }
        }
        exits.summaries.iter_mut().for_each(|summary| {
            summary.exits.sort_unstable();
            summary.seen = HashSet::new();
        });
        Ok(exits)
    }

    /// The number of a rule that begins under a guard.
    fn begin(&mut self, graph: &Graph<'_>, reading: &Reading<'_>, rule: u32, guard: Bytes) -> usize {
        let entry = graph.entries[rule as usize];
        let guard = reading.flow.relevant(entry, rule).and(guard);
        if let Some(&known) = self.numbers.get(&(rule, guard)) {
            return known;
        }
        let number = self.summaries.len();
        self.numbers.insert((rule, guard), number);
        self.begun.push((rule, guard));
        self.summaries.push(Summary::default());
        self.visit(reading, number, entry, guard);
        number
    }

    fn visit(&mut self, reading: &Reading<'_>, at: usize, node: NodeIndex, guard: Bytes) {
        let (rule, _) = self.begun[at];
        let guard = reading.flow.relevant(node, rule).and(guard);
        if self.summaries[at].seen.insert((node, guard)) {
            self.open.push((at, node, guard));
        }
    }

    /// The guards at the ends of a rule that begins under a guard, in order.
    pub(super) fn at_ends(&self, begun: Begun) -> &[Bytes] {
        self.numbers.get(&begun).map_or(&[], |&number| &self.summaries[number].exits)
    }
}
