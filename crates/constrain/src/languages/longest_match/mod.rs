//! Texts that are divided into terminals by the longest match.
//!
//! A terminal ends only where it cannot continue: not before a byte that would continue it. These bytes, its *guard*,
//! are a set that depends on the state of its automaton. The language of a grammar under longest match is therefore the
//! intersection of its language with that of a small automaton whose states are guards, and that is a grammar again,
//! whose rules are divided by the guards at their beginning and at their end (Bar-Hillel, Perles and Shamir, *On formal
//! properties of simple phrase structure grammars*, 1961). So machines need no lexer, and know in advance which texts
//! can be completed.
//!
//! | module | contents |
//! |---|---|
//! | `lexemes` | the terminals of a grammar |
//! | `flow` | the bytes that may come next |
//! | `competitors` | terminals that are read together, of which the longest text wins |
//! | `divided` | terminals divided by guards |
//! | `reading` | what a node reads under a guard |
//! | `exits` | the guards at the ends of rules |
//! | `bytes` | sets of bytes |

mod bytes;
mod competitors;
mod divided;
mod exits;
mod flow;
mod lexemes;
mod reading;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use self::bytes::Bytes;
use self::exits::{Begun, Exits};
use self::reading::Reading;
use super::fault::{Result, take};
use super::graph::{END, Graph, Node, NodeIndex, Segment};

/// The graph of the texts that a graph divides into terminals by the longest match.
pub(super) fn divide<'b>(graph: &Graph<'b>) -> Result<Graph<'b>> {
    let mut reading = Reading::of(graph)?;
    let exits = Exits::of(graph, &mut reading)?;
    let mut new = graph.without_nodes();
    let nowhere = new.add(Node::Fork(Vec::new()))?;
    let mut division = Division {
        graph,
        reading,
        exits,
        new,
        nowhere,
        copies: HashMap::new(),
        rules: HashMap::new(),
        segments: HashMap::new(),
        open: Vec::new(),
    };
    // Any guard is fine at the end of the text.
    let all: Rc<[Bytes]> = division.exits.at_ends((0, Bytes::default())).into();
    division.rule((0, Bytes::default()), all)?;
    while let Some(Open { rule, node, guard, ends, copy }) = division.open.pop() {
        division.fill(rule, node, guard, &ends, copy)?;
    }
    Ok(division.new)
}

/// The guards that a rule may end with.
type Ends = Rc<[Bytes]>;

/// A node under a guard, whose rule ends with one of some guards.
type Divided = (NodeIndex, Bytes, Ends);

/// A copy of a node that is still to be filled in.
struct Open {
    rule: u32,
    node: NodeIndex,
    guard: Bytes,
    ends: Ends,
    copy: NodeIndex,
}

struct Division<'g, 'b> {
    graph: &'g Graph<'b>,
    reading: Reading<'b>,
    exits: Exits,
    new: Graph<'b>,
    /// A node of the new graph from which nothing can be read.
    nowhere: NodeIndex,
    copies: HashMap<Divided, NodeIndex>,
    rules: HashMap<(Begun, Ends), u32>,
    /// The segments of parts of terminals, by the address of the automaton.
    segments: HashMap<usize, u32>,
    open: Vec<Open>,
}

impl Division<'_, '_> {
    /// The rule that begins and ends under guards.
    fn rule(&mut self, begun: Begun, ends: Ends) -> Result<u32> {
        if let Some(&known) = self.rules.get(&(begun, ends.clone())) {
            return Ok(known);
        }
        let number = self.new.rule(END);
        self.rules.insert((begun, ends.clone()), number);
        let (rule, guard) = begun;
        let entry = self.copy(rule, self.graph.entries[rule as usize], guard, &ends)?;
        self.new.entries[number as usize] = entry;
        Ok(number)
    }

    /// The copy of a node under a guard.
    fn copy(&mut self, rule: u32, node: NodeIndex, guard: Bytes, ends: &Ends) -> Result<NodeIndex> {
        let guard = self.reading.flow.relevant(node, rule).and(guard);
        if node == END {
            return Ok(if ends.contains(&guard) { END } else { self.nowhere });
        }
        let key = (node, guard, ends.clone());
        if let Some(&known) = self.copies.get(&key) {
            return Ok(known);
        }
        self.new.origin = self.graph.origins[node as usize];
        let copy = self.new.add(Node::Fork(Vec::new()))?;
        self.copies.insert(key, copy);
        self.open.push(Open { rule, node, guard, ends: ends.clone(), copy });
        Ok(copy)
    }

    fn fill(&mut self, rule: u32, node: NodeIndex, guard: Bytes, ends: &Ends, copy: NodeIndex) -> Result<()> {
        self.new.origin = self.graph.origins[node as usize];
        let mut ways = Vec::new();
        match self.graph.nodes[node as usize].clone() {
            Node::Read { segment, next } => {
                for part in self.reading.parts(node, segment, next, rule, guard)?.iter() {
                    let segment = match &part.automaton {
                        None => segment,
                        Some(automaton) => {
                            let new = &mut self.new.segments;
                            *self.segments.entry(Arc::as_ptr(automaton).addr()).or_insert_with(|| {
                                new.push(Segment::Automaton(automaton.clone()));
                                new.len() as u32 - 1
                            })
                        }
                    };
                    let next = self.copy(rule, next, part.guard, ends)?;
                    if next != self.nowhere {
                        ways.push(Node::Read { segment, next });
                    }
                }
            }
            Node::Grammar { grammar, next } => {
                if self.reading.begins(grammar, guard) {
                    let next = self.copy(rule, next, Bytes::default(), ends)?;
                    ways.push(Node::Grammar { grammar, next });
                }
            }
            Node::Call { rule: called, next } => {
                let entry = self.graph.entries[called as usize];
                let begun = (called, self.reading.flow.relevant(entry, called).and(guard));
                // Ends after which the same nodes follow are the same.
                let mut groups: BTreeMap<Option<Bytes>, Vec<Bytes>> = BTreeMap::new();
                for &exit in self.exits.at_ends(begun) {
                    let after = self.reading.flow.relevant(next, rule).and(exit);
                    match next == END {
                        false => groups.entry(Some(after)).or_default().push(exit),
                        true if ends.contains(&after) => groups.entry(None).or_default().push(exit),
                        true => {}
                    }
                }
                for (after, exits) in groups {
                    take(self.graph.budget, 1)?;
                    let next = match after {
                        None => END,
                        Some(after) => self.copy(rule, next, after, ends)?,
                    };
                    let rule = self.rule(begun, exits.into())?;
                    ways.push(Node::Call { rule, next });
                }
            }
            Node::Fork(all) => {
                let all = all.into_iter().map(|way| self.copy(rule, way, guard, ends)).collect::<Result<_>>()?;
                self.new.nodes[copy as usize] = Node::Fork(all);
                return Ok(());
            }
            Node::End => {}
        }
        self.new.origin = self.graph.origins[node as usize];
        self.new.nodes[copy as usize] = match <[Node; 1]>::try_from(ways) {
            Ok([way]) => way,
            Err(ways) => Node::Fork(ways.into_iter().map(|way| self.new.add(way)).collect::<Result<_>>()?),
        };
        Ok(())
    }
}
