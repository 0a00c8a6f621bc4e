//! The terminals that are allowed wherever another one is.
//!
//! All terminals that are allowed at a position are read together, and the longest text wins. Which they are depends on
//! the text so far; those that the rules allow together in every text are found here, by an analysis of the graph.

use std::rc::Rc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::flow::Flow;
use super::lexemes::Lexemes;
use crate::automata::budget::Budget;
use crate::languages::fault::{Result, take};
use crate::languages::graph::{Graph, Node, NodeIndex};

/// A set of numbers, in order. All sets that are equal are one.
pub(super) type Set = Rc<[u32]>;

/// For each node that reads, the terminals that are allowed whenever its own is, in order.
pub(super) fn of(graph: &Graph<'_>, lexemes: &Lexemes, flow: &Flow) -> Result<Vec<Set>> {
    let mut sets = Sets { known: HashSet::new(), joined: HashMap::new(), budget: graph.budget };
    let empty = sets.set(Vec::new());
    let lexeme = |at: NodeIndex| match &graph.nodes[at as usize] {
        Node::Read { segment, .. } => lexemes.of_segment(*segment),
        _ => None,
    };
    let call = |at: NodeIndex| matches!(graph.nodes[at as usize], Node::Call { .. }).then_some(at);
    let first = beginnings(graph, flow, &mut sets, &empty, lexeme)?;
    let calls = beginnings(graph, flow, &mut sets, &empty, call)?;
    let mut after = Vec::with_capacity(graph.entries.len());
    for rule in 0..graph.entries.len() as u32 {
        after.push(after_itself(graph, flow, &mut sets, (&first, &calls), rule)?);
    }
    let mut analysis = Analysis { graph, flow, sets, first, after, following: Vec::new(), certain: Vec::new() };
    analysis.find_following(&empty)?;
    analysis.find_certain(&empty)?;
    let Analysis { certain, .. } = analysis;
    Ok(certain.into_iter().map(|set| set.unwrap_or_else(|| empty.clone())).collect())
}

/// For each node, what `item` finds at the nodes that can be reached from it without reading, in its rule and in those
/// that it calls.
fn beginnings(
    graph: &Graph<'_>,
    flow: &Flow,
    sets: &mut Sets<'_>,
    empty: &Set,
    item: impl Fn(NodeIndex) -> Option<u32>,
) -> Result<Vec<Set>> {
    let mut found = vec![empty.clone(); graph.nodes.len()];
    loop {
        let mut is_better = false;
        for (at, node) in graph.nodes.iter().enumerate() {
            let own = item(at as NodeIndex);
            let mut set = own.map_or_else(|| empty.clone(), |own| sets.set(vec![own]));
            match node {
                Node::Call { rule, next } => {
                    let entry = graph.entries[*rule as usize] as usize;
                    set = sets.union(&set, &found[entry])?;
                    if flow.ends[entry] {
                        set = sets.union(&set, &found[*next as usize])?;
                    }
                }
                Node::Fork(ways) => {
                    let mut all: Vec<u32> = ways.iter().flat_map(|&way| found[way as usize].iter().copied()).collect();
                    take(graph.budget, 1 + all.len() as u64 / 8)?;
                    all.sort_unstable();
                    all.dedup();
                    set = sets.set(all);
                }
                Node::Read { .. } | Node::Grammar { .. } | Node::End => {}
            }
            take(graph.budget, 1)?;
            if !Rc::ptr_eq(&set, &found[at]) {
                found[at] = set;
                is_better = true;
            }
        }
        if !is_better {
            return Ok(found);
        }
    }
}

/// The terminals that are allowed at every end of a rule because the rule begins with itself, directly or through
/// others.
fn after_itself(
    graph: &Graph<'_>,
    flow: &Flow,
    sets: &mut Sets<'_>,
    (first, calls): (&[Set], &[Set]),
    rule: u32,
) -> Result<Set> {
    let calls = &calls[graph.entries[rule as usize] as usize];
    let (mut ended, mut seen, mut found) = (vec![rule], HashSet::from_iter([rule]), sets.set(Vec::new()));
    while let Some(ended_rule) = ended.pop() {
        take(graph.budget, calls.len() as u64)?;
        for &call in calls.iter() {
            if let Node::Call { rule, next } = graph.nodes[call as usize]
                && rule == ended_rule
            {
                found = sets.union(&found, &first[next as usize])?;
                let owner = flow.owners[call as usize];
                if flow.ends[next as usize] && seen.insert(owner) {
                    ended.push(owner);
                }
            }
        }
    }
    Ok(found)
}

struct Analysis<'g, 'b> {
    graph: &'g Graph<'b>,
    flow: &'g Flow,
    sets: Sets<'b>,
    first: Vec<Set>,
    after: Vec<Set>,
    /// For each rule, the terminals that are allowed at every end of its texts; `None` for all, at first.
    following: Vec<Option<Set>>,
    /// For each node, the terminals that are allowed whenever a text gets there.
    certain: Vec<Option<Set>>,
}

impl Analysis<'_, '_> {
    /// The terminals that are allowed at a node of a rule which a text has just reached by reading.
    fn here(&mut self, node: NodeIndex, rule: u32) -> Result<Option<Set>> {
        let first = self.first[node as usize].clone();
        if !self.flow.ends[node as usize] {
            return Ok(Some(first));
        }
        match self.following[rule as usize].clone() {
            None => Ok(None),
            Some(following) => self.sets.union(&first, &following).map(Some),
        }
    }

    /// The terminals that are allowed where a call returns.
    fn returned(&mut self, call: NodeIndex, rule: u32, next: NodeIndex) -> Result<Option<Set>> {
        let after = self.after[rule as usize].clone();
        match self.here(next, self.flow.owners[call as usize])? {
            None => Ok(None),
            Some(here) => self.sets.union(&here, &after).map(Some),
        }
    }

    fn find_following(&mut self, empty: &Set) -> Result<()> {
        self.following = vec![None; self.graph.entries.len()];
        self.following[0] = Some(empty.clone());
        loop {
            let mut is_smaller = false;
            for (at, node) in (0..).zip(&self.graph.nodes) {
                if let &Node::Call { rule, next } = node
                    && (self.flow.owners[at as usize] as usize) < self.graph.entries.len()
                    && let Some(set) = self.returned(at, rule, next)?
                {
                    let known = &mut self.following[rule as usize];
                    is_smaller |= self.sets.restrict(known, &set)?;
                }
            }
            if !is_smaller {
                return Ok(());
            }
        }
    }

    fn find_certain(&mut self, empty: &Set) -> Result<()> {
        self.certain = vec![None; self.graph.nodes.len()];
        let entry = self.graph.entries[0];
        self.certain[entry as usize] = Some(self.first[entry as usize].clone());
        loop {
            let mut is_smaller = false;
            // From the beginnings of rules to their ends.
            for at in (0..self.graph.nodes.len() as NodeIndex).rev() {
                let owner = self.flow.owners[at as usize];
                let Some(here) = self.certain[at as usize].clone() else { continue };
                match self.graph.nodes[at as usize].clone() {
                    Node::Read { next, .. } | Node::Grammar { next, .. } => {
                        let after = self.here(next, owner)?.unwrap_or_else(|| empty.clone());
                        is_smaller |= self.sets.restrict(&mut self.certain[next as usize], &after)?;
                    }
                    Node::Call { rule, next } => {
                        let entry = self.graph.entries[rule as usize] as usize;
                        is_smaller |= self.sets.restrict(&mut self.certain[entry], &here)?;
                        let after = self.returned(at, rule, next)?.unwrap_or_else(|| empty.clone());
                        is_smaller |= self.sets.restrict(&mut self.certain[next as usize], &after)?;
                        if self.flow.ends[entry] {
                            is_smaller |= self.sets.restrict(&mut self.certain[next as usize], &here)?;
                        }
                    }
                    Node::Fork(ways) => {
                        for way in ways {
                            is_smaller |= self.sets.restrict(&mut self.certain[way as usize], &here)?;
                        }
                    }
                    Node::End => {}
                }
                take(self.graph.budget, 1)?;
            }
            if !is_smaller {
                return Ok(());
            }
        }
    }
}

/// The sets that occur.
struct Sets<'b> {
    known: HashSet<Set>,
    /// Unions and intersections by the addresses of their sets, which are never dropped.
    joined: HashMap<(usize, usize, bool), Set>,
    budget: &'b Budget,
}

impl Sets<'_> {
    /// The set of numbers in order.
    fn set(&mut self, numbers: Vec<u32>) -> Set {
        if let Some(known) = self.known.get(&numbers[..]) {
            return known.clone();
        }
        let set: Set = numbers.into();
        self.known.insert(set.clone());
        set
    }

    fn union(&mut self, a: &Set, b: &Set) -> Result<Set> {
        if b.is_empty() || Rc::ptr_eq(a, b) {
            return Ok(a.clone());
        }
        self.join(a, b, true)
    }

    fn join(&mut self, a: &Set, b: &Set, is_union: bool) -> Result<Set> {
        let key = (Rc::as_ptr(a).addr(), Rc::as_ptr(b).addr(), is_union);
        if let Some(known) = self.joined.get(&key) {
            return Ok(known.clone());
        }
        take(self.budget, 1 + (a.len() + b.len()) as u64 / 4)?;
        let joined = if is_union {
            let mut all = [&a[..], b].concat();
            all.sort_unstable();
            all.dedup();
            all
        } else {
            a.iter().copied().filter(|number| b.binary_search(number).is_ok()).collect()
        };
        let joined = self.set(joined);
        self.joined.insert(key, joined.clone());
        Ok(joined)
    }

    /// Restricts a set, which is unrestricted if it is `None`, to another; returns whether it became smaller.
    fn restrict(&mut self, set: &mut Option<Set>, to: &Set) -> Result<bool> {
        let smaller = match set {
            None => to.clone(),
            Some(known) if Rc::ptr_eq(known, to) => return Ok(false),
            Some(known) => {
                let known = known.clone();
                self.join(&known, to, false)?
            }
        };
        let is_smaller = set.as_ref().is_none_or(|known| !Rc::ptr_eq(known, &smaller));
        *set = Some(smaller);
        Ok(is_smaller)
    }
}
