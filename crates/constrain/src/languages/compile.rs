//! Compiles rules to a grammar.

use std::mem::take as taken;

use foldhash::{HashMap, HashMapExt};

use super::expression::{RuleId, Rules};
use super::fault::{BadGrammar, Result, over, take};
use super::graph::{END, Graph, Node, NodeIndex, Segment};
use super::simplify::simplify;
use super::{left_recursion, lexeme, longest_match};
use crate::automata::budget::Budget;
use crate::grammar::Grammar;
use crate::grammar::builder::{GrammarBuilder, NoGrammar};
use crate::grammar::step::{RETURN, Step, StepIndex};
use crate::regex::{BadRegex, terminal};
use crate::terminal::Terminal;

/// The work of an expression that takes too many states to build at once, and the cells of a table that count as one
/// unit.
const WORK_OF_LAZY: u64 = 20_000;
const CELLS: u64 = 4;

/// The grammar of the texts of the rule `root`.
pub(super) fn compile(mut rules: Rules, root: &str, budget: &Budget) -> Result<Grammar> {
    let root = rules.root(root)?;
    simplify(&mut rules, budget)?;
    let (names, controls) = (taken(&mut rules.names), taken(&mut rules.controls));
    built(Graph::new(rules, root, budget)?, &names, controls, budget)
}

/// The grammar of the texts of the rule `root`, which are divided into terminals by the longest match. `terminals` are
/// the rules of terminals, each after those that it mentions.
pub(super) fn compile_longest(mut rules: Rules, terminals: &[RuleId], root: &str, budget: &Budget) -> Result<Grammar> {
    let root = rules.root(root)?;
    lexeme::resolve(&mut rules, terminals, budget)?;
    simplify(&mut rules, budget)?;
    let (names, controls) = (taken(&mut rules.names), taken(&mut rules.controls));
    let graph = Graph::new(rules, root, budget)?;
    built(longest_match::divide(&graph)?, &names, controls, budget)
}

/// The grammar of the rules of a graph, as far as the first one needs them.
fn built(mut graph: Graph, names: &[String], controls: Vec<Box<str>>, budget: &Budget) -> Result<Grammar> {
    left_recursion::remove(&mut graph)?;
    let Reached { mut nodes, rules } = Reached::of(&graph);
    // Rules that are next to each other share their names.
    nodes.sort_unstable_by_key(|&node| (graph.origins[node as usize], node));
    let mut builder = GrammarBuilder::new();
    builder.add_controls(controls);
    let mut numbers = HashMap::with_capacity(rules.len());
    for rule in &rules {
        numbers.insert(*rule, builder.rule());
    }
    let grammars: Vec<u32> = graph.grammars.iter().map(|grammar| builder.take_in(grammar)).collect();
    // Steps are numbered in the order in which they are added.
    let first = builder.fork(Vec::new()) + 1;
    let mut steps: HashMap<NodeIndex, StepIndex> = (first..).zip(&nodes).map(|(step, &node)| (node, step)).collect();
    steps.insert(END, RETURN);
    let at = |node: NodeIndex| steps[&node];
    let mut terminals = Terminals { known: vec![None; graph.segments.len()], same: HashMap::new(), budget };
    for &node in &nodes {
        builder.set_path(&names[graph.origins[node as usize] as usize]);
        let step = match &graph.nodes[node as usize] {
            &Node::Read { segment, next } => {
                match terminals.number(segment, &graph.segments[segment as usize], &mut builder)? {
                    Some(terminal) => Step::Read { terminal, next: at(next) },
                    None => Step::Fork(Vec::new()),
                }
            }
            &Node::Call { rule, next } => Step::Call { rule: numbers[&rule], next: at(next) },
            &Node::Grammar { grammar, next } => Step::Call { rule: grammars[grammar as usize], next: at(next) },
            Node::Fork(ways) => Step::Fork(ways.iter().map(|&way| at(way)).collect()),
            Node::End => unreachable!("all rules share one end"),
        };
        builder.step(step);
        if builder.is_too_large() {
            return Err(BadGrammar::TooLarge);
        }
    }
    for rule in &rules {
        builder.define(numbers[rule], at(graph.entries[*rule as usize]));
    }
    builder.finish_within(budget).map_err(|fault| match fault {
        NoGrammar::Empty => BadGrammar::Empty,
        NoGrammar::TooLarge => over(budget),
    })
}

/// The nodes, without the end, and the rules that the first rule needs; that one comes first.
struct Reached {
    nodes: Vec<NodeIndex>,
    rules: Vec<u32>,
}

impl Reached {
    fn of(graph: &Graph) -> Self {
        let (mut is_node, mut is_rule) = (vec![false; graph.nodes.len()], vec![false; graph.entries.len()]);
        let mut reached = Self { nodes: Vec::new(), rules: vec![0] };
        is_node[END as usize] = true;
        is_rule[0] = true;
        let mut open = vec![graph.entries[0]];
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut is_node[node as usize], true) {
                continue;
            }
            reached.nodes.push(node);
            match &graph.nodes[node as usize] {
                &Node::Call { rule, next } => {
                    open.push(next);
                    if !std::mem::replace(&mut is_rule[rule as usize], true) {
                        reached.rules.push(rule);
                        open.push(graph.entries[rule as usize]);
                    }
                }
                &Node::Read { next, .. } | &Node::Grammar { next, .. } => open.push(next),
                Node::Fork(ways) => open.extend(ways),
                Node::End => {}
            }
        }
        reached
    }
}

/// The terminals of segments; equal ones are shared.
struct Terminals<'b> {
    /// By segment, its terminal, if it has any text.
    known: Vec<Option<Option<u32>>>,
    /// By expression.
    same: HashMap<String, Option<u32>>,
    budget: &'b Budget,
}

/// The maximum size of expressions that are compared.
const COMPARED: u64 = 500;

impl Terminals<'_> {
    fn number(&mut self, index: u32, segment: &Segment, builder: &mut GrammarBuilder) -> Result<Option<u32>> {
        if let Some(known) = self.known[index as usize] {
            return Ok(known);
        }
        let number = match segment {
            Segment::Automaton(automaton) => {
                take(self.budget, automaton.cells() as u64 / CELLS)?;
                Some(builder.terminal(Terminal::Table(Box::new(automaton.as_ref().clone()))))
            }
            Segment::Regular(regular) => {
                let key = (regular.size() <= COMPARED).then(|| regular.hir().to_string());
                match key.as_ref().and_then(|key| self.same.get(key)) {
                    Some(&known) => known,
                    None => {
                        let made = self.made(terminal(regular.hir()))?;
                        let number = made.map(|terminal| builder.terminal(terminal));
                        if let Some(key) = key {
                            self.same.insert(key, number);
                        }
                        number
                    }
                }
            }
        };
        self.known[index as usize] = Some(number);
        Ok(number)
    }

    fn made(&self, terminal: Result<Terminal, BadRegex>) -> Result<Option<Terminal>> {
        match terminal {
            Ok(terminal) => {
                let cells = terminal.cells() as u64 / CELLS;
                let lazy = if terminal.lazy().is_some() { WORK_OF_LAZY } else { 0 };
                take(self.budget, 16 + cells + lazy)?;
                Ok(Some(terminal))
            }
            Err(BadRegex::Empty) => Ok(None),
            Err(_) => Err(BadGrammar::TooLarge),
        }
    }
}
