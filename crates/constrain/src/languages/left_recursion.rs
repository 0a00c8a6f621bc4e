//! Removes left recursion, which would make a machine call rules without end.
//!
//! A rule that begins with itself, directly or through others, is read from its left corner on (Rosenkrantz and Lewis,
//! *Deterministic left corner parsing*, 1970; Moore, *Removing left recursion from context-free grammars*, 2000): first
//! a part of any rule of the cycle that does not begin with one of them, then what each rule on the way up has after
//! its beginning. The texts stay the same.

use foldhash::{HashMap, HashMapExt, HashSet};

use super::fault::Result;
use super::graph::{END, Graph, Node, NodeIndex};

/// Removes left recursion from all rules.
pub(super) fn remove(graph: &mut Graph) -> Result<()> {
    let nullable = nullable(graph);
    let beginnings: Vec<Beginnings> =
        (0..graph.entries.len()).map(|rule| beginnings(graph, &nullable, graph.entries[rule])).collect();
    let mut removal = Removal { graph, nullable, nonempty: HashMap::new() };
    // Rules come after those that they begin with.
    for cycle in cycles(&beginnings) {
        let members: HashSet<u32> = cycle.iter().copied().collect();
        let is_inside = |&(rule, next): &(u32, NodeIndex)| members.contains(&rule) && next != END;
        if cycle.iter().any(|&rule| beginnings[rule as usize].calls.iter().any(is_inside)) {
            removal.remove_cycle(&cycle, &members, &beginnings)?;
        }
    }
    Ok(())
}

/// The first parts of a rule that read or call, with what follows them.
struct Beginnings {
    /// The nodes that read, and those that call rules.
    reads: Vec<NodeIndex>,
    /// The rules that are called, with the node after each.
    calls: Vec<(u32, NodeIndex)>,
}

/// The parts that can come first from a node on: those behind rules that can be empty are included.
fn beginnings(graph: &Graph, nullable: &[bool], entry: NodeIndex) -> Beginnings {
    let mut found = Beginnings { reads: Vec::new(), calls: Vec::new() };
    let (mut open, mut seen) = (vec![entry], HashSet::from_iter([entry]));
    while let Some(at) = open.pop() {
        let mut go_to = |to: NodeIndex| {
            if seen.insert(to) {
                open.push(to);
            }
        };
        match &graph.nodes[at as usize] {
            Node::Read { .. } | Node::Grammar { .. } => found.reads.push(at),
            &Node::Call { rule, next } => {
                found.calls.push((rule, next));
                if nullable[rule as usize] {
                    go_to(next);
                }
            }
            Node::Fork(ways) => ways.iter().for_each(|&way| go_to(way)),
            Node::End => {}
        }
    }
    found
}

/// Whether each rule has the empty text.
fn nullable(graph: &Graph) -> Vec<bool> {
    let mut before: Vec<Vec<NodeIndex>> = vec![Vec::new(); graph.nodes.len()];
    let mut callers: Vec<Vec<NodeIndex>> = vec![Vec::new(); graph.entries.len()];
    let mut rules_at: HashMap<NodeIndex, Vec<u32>> = HashMap::new();
    for (at, node) in (0..).zip(&graph.nodes) {
        match node {
            &Node::Call { rule, next } => {
                before[next as usize].push(at);
                callers[rule as usize].push(at);
            }
            Node::Fork(ways) => ways.iter().for_each(|&way| before[way as usize].push(at)),
            Node::Read { .. } | Node::Grammar { .. } | Node::End => {}
        }
    }
    for (rule, &entry) in (0..).zip(&graph.entries) {
        rules_at.entry(entry).or_default().push(rule);
    }
    let (mut is_empty, mut nullable) = (vec![false; graph.nodes.len()], vec![false; graph.entries.len()]);
    let mut open = vec![END];
    while let Some(at) = open.pop() {
        let is_so = match &graph.nodes[at as usize] {
            Node::End => true,
            &Node::Call { rule, next } => nullable[rule as usize] && is_empty[next as usize],
            Node::Fork(ways) => ways.iter().any(|&way| is_empty[way as usize]),
            Node::Read { .. } | Node::Grammar { .. } => false,
        };
        if !is_so || std::mem::replace(&mut is_empty[at as usize], true) {
            continue;
        }
        open.extend(&before[at as usize]);
        for &rule in rules_at.get(&at).into_iter().flatten() {
            nullable[rule as usize] = true;
            open.extend(&callers[rule as usize]);
        }
    }
    nullable
}

/// The strongly connected components of rules that begin with each other, each after those that it leads to (Tarjan,
/// *Depth-first search and linear graph algorithms*, 1972), without recursion.
fn cycles(beginnings: &[Beginnings]) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let count = beginnings.len();
    let (mut number, mut low, mut on_stack) = (vec![NEW; count], vec![0u32; count], vec![false; count]);
    let (mut stack, mut found, mut numbered) = (Vec::new(), Vec::new(), 0);
    for root in 0..count {
        if number[root] != NEW {
            continue;
        }
        let mut path = vec![(root, 0usize)];
        while let Some(&mut (at, ref mut call)) = path.last_mut() {
            if *call == 0 && number[at] == NEW {
                (number[at], low[at]) = (numbered, numbered);
                numbered += 1;
                on_stack[at] = true;
                stack.push(at as u32);
            }
            if let Some(&(to, _)) = beginnings[at].calls.get(*call) {
                *call += 1;
                let to = to as usize;
                if number[to] == NEW {
                    path.push((to, 0));
                } else if on_stack[to] {
                    low[at] = low[at].min(number[to]);
                }
                continue;
            }
            path.pop();
            if let Some(&(from, _)) = path.last() {
                low[from] = low[from].min(low[at]);
            }
            if low[at] == number[at] {
                let first = stack.iter().rposition(|&member| member as usize == at).expect("it was pushed");
                let members = stack.split_off(first);
                members.iter().for_each(|&member| on_stack[member as usize] = false);
                found.push(members);
            }
        }
    }
    found
}

struct Removal<'g, 'b> {
    graph: &'g mut Graph<'b>,
    /// Whether each of the original rules has the empty text.
    nullable: Vec<bool>,
    /// By rule, the rule of its texts except the empty one.
    nonempty: HashMap<u32, u32>,
}

/// The continuation of a copy of nodes: a node, and the rule whose rest it is, if it is the rest of a rule after
/// itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Rest {
    node: NodeIndex,
    of: Option<u32>,
}

impl Removal<'_, '_> {
    fn remove_cycle(&mut self, cycle: &[u32], members: &HashSet<u32>, beginnings: &[Beginnings]) -> Result<()> {
        // The node before which a member of the cycle, as a whole, is complete, for each goal and each member.
        let mut rests: HashMap<(u32, u32), NodeIndex> = HashMap::new();
        for &goal in cycle {
            for &member in cycle {
                let node = self.graph.add(Node::Fork(Vec::new()))?;
                rests.insert((goal, member), node);
            }
        }
        let mut entries = Vec::new();
        for &goal in cycle {
            let mut copied = HashMap::new();
            let rest = |member: u32| Rest { node: rests[&(goal, member)], of: (member == goal).then_some(goal) };
            let mut ways: Vec<Vec<NodeIndex>> = vec![Vec::new(); cycle.len()];
            let mut first = if self.nullable[goal as usize] { vec![END] } else { Vec::new() };
            for &member in cycle {
                self.graph.origin = self.graph.origins[self.graph.entries[member as usize] as usize];
                let Beginnings { reads, calls } = &beginnings[member as usize];
                for &at in reads {
                    first.push(self.copy(at, rest(member), &mut copied)?);
                }
                for &(rule, next) in calls {
                    let after = self.copy(next, rest(member), &mut copied)?;
                    if !members.contains(&rule) {
                        let rule = self.nonempty(rule)?;
                        first.push(self.graph.add(Node::Call { rule, next: after })?);
                        continue;
                    }
                    let of = cycle.iter().position(|&other| other == rule).expect("it is a member");
                    ways[of].push(after);
                }
            }
            for (&member, mut ways) in cycle.iter().zip(ways) {
                if member == goal {
                    ways.push(END);
                }
                self.graph.nodes[rests[&(goal, member)] as usize] = Node::Fork(ways);
            }
            entries.push(self.graph.add(Node::Fork(first))?);
        }
        for (&goal, entry) in cycle.iter().zip(entries) {
            self.graph.entries[goal as usize] = entry;
        }
        Ok(())
    }

    /// Copies the nodes from `from` to the end of their rule, followed by `rest`.
    fn copy(
        &mut self,
        from: NodeIndex,
        rest: Rest,
        copied: &mut HashMap<(NodeIndex, Rest), NodeIndex>,
    ) -> Result<NodeIndex> {
        let mut open = Vec::new();
        let mut copy_of = |removal: &mut Self, at: NodeIndex, open: &mut Vec<_>| -> Result<NodeIndex> {
            if at == END {
                return Ok(rest.node);
            }
            if let Some(&copy) = copied.get(&(at, rest)) {
                return Ok(copy);
            }
            let copy = removal.graph.add(Node::End)?;
            copied.insert((at, rest), copy);
            open.push((at, copy));
            Ok(copy)
        };
        let first = copy_of(self, from, &mut open)?;
        while let Some((at, copy)) = open.pop() {
            let node = match self.graph.nodes[at as usize].clone() {
                Node::Read { segment, next } => Node::Read { segment, next: copy_of(self, next, &mut open)? },
                Node::Grammar { grammar, next } => Node::Grammar { grammar, next: copy_of(self, next, &mut open)? },
                // The rest of a rule after itself repeats what the rule ends with, so it is enough once.
                Node::Call { rule, next: END } if rest.of == Some(rule) => Node::Call { rule, next: END },
                Node::Call { rule, next } => Node::Call { rule, next: copy_of(self, next, &mut open)? },
                Node::Fork(ways) => {
                    let ways = ways.into_iter().map(|way| copy_of(self, way, &mut open)).collect::<Result<_>>()?;
                    Node::Fork(ways)
                }
                Node::End => Node::End,
            };
            self.graph.nodes[copy as usize] = node;
        }
        Ok(first)
    }

    /// The rule of the texts of a rule except the empty one.
    fn nonempty(&mut self, rule: u32) -> Result<u32> {
        if !self.nullable[rule as usize] {
            return Ok(rule);
        }
        if let Some(&known) = self.nonempty.get(&rule) {
            return Ok(known);
        }
        // All rules that are needed are declared before they are built.
        let first = self.graph.rule(END);
        self.nonempty.insert(rule, first);
        let mut rules = vec![(rule, first)];
        while let Some((rule, nonempty)) = rules.pop() {
            let (mut nodes, mut open) = (HashMap::new(), Vec::new());
            let entry = self.nonempty_node(self.graph.entries[rule as usize], &mut nodes, &mut open)?;
            while let Some((at, new)) = open.pop() {
                self.graph.nodes[new as usize] = match self.graph.nodes[at as usize].clone() {
                    Node::Fork(ways) => {
                        let ways = ways.into_iter().map(|way| self.nonempty_node(way, &mut nodes, &mut open));
                        Node::Fork(ways.collect::<Result<_>>()?)
                    }
                    Node::Call { rule, next } if self.nullable.get(rule as usize) == Some(&true) => {
                        let called = match self.nonempty.get(&rule) {
                            Some(&known) => known,
                            None => {
                                let new = self.graph.rule(END);
                                self.nonempty.insert(rule, new);
                                rules.push((rule, new));
                                new
                            }
                        };
                        let call = self.graph.add(Node::Call { rule: called, next })?;
                        Node::Fork(vec![call, self.nonempty_node(next, &mut nodes, &mut open)?])
                    }
                    // The end alone is the empty text.
                    Node::End => Node::Fork(Vec::new()),
                    other => other,
                };
            }
            self.graph.entries[nonempty as usize] = entry;
        }
        Ok(first)
    }

    /// The node like another one whose texts are not empty; it is filled in later.
    fn nonempty_node(
        &mut self,
        at: NodeIndex,
        nodes: &mut HashMap<NodeIndex, NodeIndex>,
        open: &mut Vec<(NodeIndex, NodeIndex)>,
    ) -> Result<NodeIndex> {
        if let Some(&known) = nodes.get(&at) {
            return Ok(known);
        }
        let new = self.graph.add(Node::End)?;
        nodes.insert(at, new);
        open.push((at, new));
        Ok(new)
    }
}
