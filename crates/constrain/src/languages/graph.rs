//! The rules of a grammar as graphs of nodes, between expressions and the steps of a grammar.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::expression::{Expression, Rules};
use super::fault::{BadGrammar, Position, Result, take};
use super::regular::Regular;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::grammar::Grammar;

/// The maximum number of nodes.
const MAX_NODES: usize = 1 << 20;

/// The maximum count of a repetition.
const MAX_TIMES: u32 = 100_000;

/// The index of a node.
pub(super) type NodeIndex = u32;

/// The end of a rule, a node that all rules share.
pub(super) const END: NodeIndex = 0;

/// A part of a rule, with the node after it.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// Read a segment, which is not empty.
    Read {
        segment: u32,
        next: NodeIndex,
    },
    /// Read a text of another rule.
    Call {
        rule: u32,
        next: NodeIndex,
    },
    /// Read a text of another grammar, which is not empty.
    Grammar {
        grammar: u32,
        next: NodeIndex,
    },
    /// Continue with any of these.
    Fork(Vec<NodeIndex>),
    End,
}

/// The reader of a segment.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    Regular(Regular),
    Automaton(Arc<Automaton>),
}

/// The rules as nodes. The first rule is the whole text.
pub(super) struct Graph<'b> {
    pub(super) nodes: Vec<Node>,
    /// For each node, the index of the rule that it comes from.
    pub(super) origins: Vec<u32>,
    pub(super) origin: u32,
    /// The first node of each rule.
    pub(super) entries: Vec<NodeIndex>,
    pub(super) segments: Vec<Segment>,
    /// The segments of terminals: their positions, and whether they end as soon as they can.
    pub(super) terminals: HashMap<u32, (Position, bool)>,
    pub(super) grammars: Vec<Arc<Grammar>>,
    /// The segments of automata, by address.
    known: HashMap<usize, Option<u32>>,
    pub(super) budget: &'b Budget,
}

impl<'b> Graph<'b> {
    /// A graph with the same rules, segments and grammars, but without their nodes.
    pub(super) fn without_nodes(&self) -> Self {
        Self {
            nodes: vec![Node::End],
            origins: vec![0],
            origin: self.origin,
            entries: Vec::new(),
            segments: self.segments.clone(),
            terminals: HashMap::new(),
            grammars: self.grammars.clone(),
            known: HashMap::new(),
            budget: self.budget,
        }
    }

    /// The nodes of all rules.
    pub(super) fn new(rules: Rules, root: u32, budget: &'b Budget) -> Result<Self> {
        let count = rules.bodies.len();
        let mut graph = Self {
            nodes: vec![Node::End],
            origins: vec![0],
            origin: root,
            // The first rule calls the one of the whole text.
            entries: vec![END; count + 1],
            segments: Vec::new(),
            terminals: HashMap::new(),
            grammars: Vec::new(),
            known: HashMap::new(),
            budget,
        };
        graph.entries[0] = graph.add(Node::Call { rule: root + 1, next: END })?;
        for (id, body) in rules.bodies.into_iter().enumerate() {
            graph.origin = id as u32;
            let body = body.unwrap_or_else(Expression::empty);
            graph.entries[id + 1] = graph.lower(&body, END)?;
        }
        Ok(graph)
    }

    /// Adds a node.
    pub(super) fn add(&mut self, node: Node) -> Result<NodeIndex> {
        let ways = if let Node::Fork(ways) = &node { ways.len() as u64 } else { 0 };
        take(self.budget, 1 + ways / 4)?;
        if self.nodes.len() >= MAX_NODES {
            return Err(BadGrammar::TooLarge);
        }
        self.nodes.push(node);
        self.origins.push(self.origin);
        Ok(self.nodes.len() as NodeIndex - 1)
    }

    /// Adds a rule.
    pub(super) fn rule(&mut self, entry: NodeIndex) -> u32 {
        self.entries.push(entry);
        self.entries.len() as u32 - 1
    }

    /// The nodes of an expression, followed by `next`.
    fn lower(&mut self, expression: &Expression, next: NodeIndex) -> Result<NodeIndex> {
        match expression {
            Expression::Regular(regular) => self.regular(regular, next),
            Expression::Automaton(automaton) => self.automaton(automaton, next),
            Expression::Grammar(grammar) => {
                self.grammars.push(grammar.clone());
                self.add(Node::Grammar { grammar: self.grammars.len() as u32 - 1, next })
            }
            Expression::Rule(rule) => self.add(Node::Call { rule: rule + 1, next }),
            Expression::Sequence(parts) => parts.iter().rev().try_fold(next, |next, part| self.lower(part, next)),
            Expression::Choice(ways) => {
                let ways = ways.iter().map(|way| self.lower(way, next)).collect::<Result<_>>()?;
                self.add(Node::Fork(ways))
            }
            Expression::Repeat { part, least, most } => self.repeat(part, *least, *most, next),
            Expression::Lexeme { body, is_lazy, at } => {
                let first = self.segments.len() as u32;
                let node = self.lower(body, next)?;
                self.terminals.extend((first..self.segments.len() as u32).map(|segment| (segment, (*at, *is_lazy))));
                Ok(node)
            }
            Expression::Of { .. } => unreachable!("operations have been applied"),
        }
    }

    fn regular(&mut self, regular: &Regular, next: NodeIndex) -> Result<NodeIndex> {
        if regular.size() == 0 {
            return Ok(next);
        }
        if !regular.is_nullable() {
            return self.read(Segment::Regular(regular.clone()), next);
        }
        take(self.budget, regular.work_of_nonempty())?;
        let read = self.read(Segment::Regular(regular.nonempty()), next)?;
        self.add(Node::Fork(vec![next, read]))
    }

    fn automaton(&mut self, automaton: &Arc<Automaton>, next: NodeIndex) -> Result<NodeIndex> {
        let known = match self.known.get(&Arc::as_ptr(automaton).addr()) {
            Some(&known) => known,
            None => {
                let nonempty = match automaton.accepts(Automaton::START) {
                    false => Some(automaton.clone()),
                    true => match automaton.nonempty(self.budget) {
                        Ok(nonempty) => Some(Arc::new(nonempty)),
                        Err(NoAutomaton::Empty) => None,
                        Err(NoAutomaton::TooLarge) => return Err(BadGrammar::TooLarge),
                    },
                };
                let known = nonempty.map(|automaton| {
                    self.segments.push(Segment::Automaton(automaton));
                    self.segments.len() as u32 - 1
                });
                self.known.insert(Arc::as_ptr(automaton).addr(), known);
                known
            }
        };
        let mut ways = Vec::new();
        if let Some(segment) = known {
            ways.push(self.add(Node::Read { segment, next })?);
        }
        if automaton.accepts(Automaton::START) {
            ways.push(next);
        }
        match ways[..] {
            [way] => Ok(way),
            _ => self.add(Node::Fork(ways)),
        }
    }

    fn read(&mut self, segment: Segment, next: NodeIndex) -> Result<NodeIndex> {
        self.segments.push(segment);
        self.add(Node::Read { segment: self.segments.len() as u32 - 1, next })
    }

    /// A terminal that is repeated needs no rule: a call would take a node too.
    fn repeat_lexeme(
        &mut self,
        lexeme: &Expression,
        least: u32,
        most: Option<u32>,
        next: NodeIndex,
    ) -> Result<NodeIndex> {
        let again = self.add(Node::Fork(Vec::new()))?;
        let once_more = self.lower(lexeme, again)?;
        let Node::Read { segment, .. } = self.nodes[once_more as usize] else {
            self.nodes[again as usize] = Node::Fork(if least == 0 { vec![next] } else { Vec::new() });
            return Ok(again);
        };
        let mut first = match most {
            None => {
                self.nodes[again as usize] = Node::Fork(vec![next, once_more]);
                again
            }
            Some(most) => (least..most).try_fold(next, |after, _| {
                let once_more = self.add(Node::Read { segment, next: after })?;
                self.add(Node::Fork(vec![next, once_more]))
            })?,
        };
        for _ in 0..least {
            first = self.add(Node::Read { segment, next: first })?;
        }
        Ok(first)
    }

    fn repeat(&mut self, part: &Expression, mut least: u32, most: Option<u32>, next: NodeIndex) -> Result<NodeIndex> {
        if least > MAX_TIMES || most.is_some_and(|most| most > MAX_TIMES) {
            return Err(BadGrammar::TooLarge);
        }
        if let Expression::Lexeme { body, .. } = part
            && !is_nullable(body)
        {
            return self.repeat_lexeme(part, least, most, next);
        }
        // A part that is used several times is a rule of its own.
        let rule = match part {
            Expression::Rule(rule) => rule + 1,
            part => {
                let mut entry = self.lower(part, END)?;
                // If a part can be empty, any number of the others up to the maximum is as good. Otherwise a text would
                // be in all later parts at once.
                if let Node::Fork(ways) = &self.nodes[entry as usize]
                    && ways.contains(&END)
                {
                    let others = ways.iter().copied().filter(|&way| way != END).collect();
                    (entry, least) = (self.add(Node::Fork(others))?, 0);
                }
                self.rule(entry)
            }
        };
        let mut first = match most {
            None => {
                let again = self.add(Node::Fork(Vec::new()))?;
                let once_more = self.add(Node::Call { rule, next: again })?;
                self.nodes[again as usize] = Node::Fork(vec![next, once_more]);
                again
            }
            Some(most) => (least..most).try_fold(next, |after, _| {
                let once_more = self.add(Node::Call { rule, next: after })?;
                self.add(Node::Fork(vec![next, once_more]))
            })?,
        };
        for _ in 0..least {
            first = self.add(Node::Call { rule, next: first })?;
        }
        Ok(first)
    }
}

/// Whether a terminal has the empty text.
fn is_nullable(terminal: &Expression) -> bool {
    match terminal {
        Expression::Regular(regular) => regular.is_nullable(),
        Expression::Automaton(automaton) => automaton.accepts(Automaton::START),
        _ => true,
    }
}
