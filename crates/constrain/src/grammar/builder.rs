//! Builds grammars.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Grammar;
use super::shapes::Shapes;
use super::step::{Container, NO_END, RETURN, Rule, Step, StepIndex};
use crate::automata::budget::Budget;
use crate::terminal::Terminal;
use crate::terminal::language::Language;

/// The maximum number of steps of a grammar.
const MAX_STEPS: usize = 1 << 20;

/// The maximum number of cells of all tables of a grammar; each takes four bytes.
const MAX_CELLS: usize = 16 << 20;

/// The cap on distances: rules that double each other's length would reach any number.
const FAR: u64 = 1 << 48;

/// The reason why steps do not make a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoGrammar {
    /// They accept no text.
    Empty,
    /// There are too many steps or states.
    TooLarge,
}

/// A grammar under construction. Each rule is built from its end to its beginning.
pub(crate) struct GrammarBuilder {
    steps: Vec<Step>,
    terminals: Vec<Arc<Terminal>>,
    /// The first step of each rule.
    entries: Vec<StepIndex>,
    shapes: Shapes,
    /// For each step, the index of its path in the schema.
    origins: Vec<u32>,
    paths: Vec<Arc<str>>,
    /// The names of control tokens.
    controls: Vec<Box<str>>,
}

impl GrammarBuilder {
    /// A builder without rules.
    pub(crate) fn new() -> Self {
        Self {
            steps: vec![Step::Return],
            terminals: Vec::new(),
            entries: Vec::new(),
            shapes: Shapes::default(),
            origins: vec![0],
            paths: vec!["".into()],
            controls: Vec::new(),
        }
    }

    /// Adds names of control tokens that the grammar contains.
    pub(crate) fn add_controls(&mut self, names: impl IntoIterator<Item = Box<str>>) {
        for name in names {
            if !self.controls.contains(&name) {
                self.controls.push(name);
            }
        }
    }

    /// Sets the path in the schema of the steps that are added next.
    pub(crate) fn set_path(&mut self, path: &str) {
        if *self.paths[self.paths.len() - 1] != *path {
            self.paths.push(path.into());
        }
    }

    pub(crate) fn step(&mut self, step: Step) -> StepIndex {
        self.steps.push(step);
        self.origins.push(self.paths.len() as u32 - 1);
        self.steps.len() as StepIndex - 1
    }

    /// Whether there are more steps or states than allowed.
    pub(crate) fn is_too_large(&self) -> bool {
        self.steps.len() > MAX_STEPS
            || self.terminals.iter().map(|terminal| terminal.cells()).sum::<usize>() > MAX_CELLS
    }

    /// Adds a terminal, which any number of steps can use.
    pub(crate) fn terminal(&mut self, terminal: Terminal) -> u32 {
        self.terminals.push(Arc::new(terminal));
        self.terminals.len() as u32 - 1
    }

    /// A terminal that was added.
    pub(crate) fn kept_terminal(&self, terminal: u32) -> &Arc<Terminal> {
        &self.terminals[terminal as usize]
    }

    pub(crate) fn read(&mut self, terminal: u32, next: StepIndex) -> StepIndex {
        self.step(Step::Read { terminal, next })
    }

    pub(crate) fn call(&mut self, rule: Rule, next: StepIndex) -> StepIndex {
        self.step(Step::Call { rule, next })
    }

    pub(crate) fn fork(&mut self, ways: Vec<StepIndex>) -> StepIndex {
        self.step(Step::Fork(ways))
    }

    /// Replaces a step by a fork.
    pub(crate) fn set_fork(&mut self, at: StepIndex, ways: Vec<StepIndex>) {
        self.steps[at as usize] = Step::Fork(ways);
    }

    /// All objects and arrays.
    pub(crate) fn shapes(&mut self) -> &mut Shapes {
        &mut self.shapes
    }

    /// Declares a rule. The first is the text itself.
    pub(crate) fn rule(&mut self) -> Rule {
        self.entries.push(RETURN);
        self.entries.len() as Rule - 1
    }

    /// Sets the first step of a rule.
    pub(crate) fn define(&mut self, rule: Rule, entry: StepIndex) {
        self.entries[rule as usize] = entry;
    }

    /// Adds all of a grammar; returns its first rule.
    pub(crate) fn take_in(&mut self, other: &Grammar) -> Rule {
        let (steps, terminals) = (self.steps.len() as u32 - 1, self.terminals.len() as u32);
        let (rules, paths) = (self.entries.len() as u32, self.paths.len() as u32);
        let (objects, arrays) = self.shapes.take_in(&other.shapes, rules, terminals);
        // All rules share one end.
        let at = |at: StepIndex| if at == RETURN { at } else { at + steps };
        for (step, origin) in other.steps.iter().zip(&other.origins).skip(1) {
            self.origins.push(origin + paths);
            self.steps.push(match step {
                Step::Read { terminal, next } => Step::Read { terminal: terminal + terminals, next: at(*next) },
                Step::Call { rule, next } => Step::Call { rule: rule + rules, next: at(*next) },
                Step::Fork(ways) => Step::Fork(ways.iter().copied().map(at).collect()),
                Step::Inside(Container::Object(shape)) => Step::Inside(Container::Object(shape + objects)),
                Step::Inside(Container::Array(shape)) => Step::Inside(Container::Array(shape + arrays)),
                Step::Return | Step::Unmade { .. } | Step::Name { .. } => {
                    unreachable!("left out, or made while texts are written")
                }
            });
        }
        self.terminals.extend(other.terminals.iter().cloned());
        self.entries.extend(other.entries.iter().copied().map(at));
        self.paths.extend(other.paths.iter().cloned());
        self.add_controls(other.controls.iter().cloned());
        rules
    }

    /// Finishes the grammar: computes distances, and removes alternatives without an end.
    pub(crate) fn finish(self) -> Result<Grammar, NoGrammar> {
        self.finish_within(&Budget::without_end())
    }

    /// Like [`GrammarBuilder::finish`], within a budget.
    pub(crate) fn finish_within(mut self, budget: &Budget) -> Result<Grammar, NoGrammar> {
        if self.is_too_large() {
            return Err(NoGrammar::TooLarge);
        }
        let distances = self.shortest(budget).ok_or(NoGrammar::TooLarge)?;
        if distances[self.entries[0] as usize] == NO_END {
            return Err(NoGrammar::Empty);
        }
        for step in &mut self.steps {
            if let Step::Fork(ways) = step {
                ways.retain(|&way| distances[way as usize] != NO_END);
            }
        }
        let rules: Vec<u64> = self.entries.iter().map(|&entry| distances[entry as usize]).collect();
        self.shapes.settle(&rules);
        let Self { steps, terminals, entries, shapes, origins, paths, controls } = self;
        Ok(Grammar { steps, terminals, entries, distances, shapes, origins, paths, controls })
    }

    /// The fewest bytes from each step to the end of its rule. Improvements are propagated to the preceding steps
    /// (Bellman 1958; Ford 1956, with a queue).
    fn shortest(&self, budget: &Budget) -> Option<Vec<u64>> {
        let mut before: Vec<Vec<StepIndex>> = vec![Vec::new(); self.steps.len()];
        for (at, step) in (0..).zip(&self.steps) {
            match step {
                Step::Read { next, .. } => before[*next as usize].push(at),
                Step::Call { rule, next } => {
                    before[*next as usize].push(at);
                    before[self.entries[*rule as usize] as usize].push(at);
                }
                Step::Fork(ways) => ways.iter().for_each(|&way| before[way as usize].push(at)),
                Step::Inside(container) => {
                    let rules = self.shapes.rules_of(*container);
                    rules.iter().for_each(|&rule| before[self.entries[rule as usize] as usize].push(at));
                }
                Step::Return => {}
                Step::Unmade { .. } | Step::Name { .. } => unreachable!("made while texts are written"),
            }
        }
        let mut distances = vec![NO_END; self.steps.len()];
        distances[RETURN as usize] = 0;
        // Steps that were added last are often needed first.
        let mut open: VecDeque<StepIndex> = (0..self.steps.len() as StepIndex).rev().collect();
        let mut is_open = vec![true; self.steps.len()];
        while let Some(at) = open.pop_front() {
            is_open[at as usize] = false;
            let work = match self.steps[at as usize] {
                Step::Inside(container) => self.shapes.work(container),
                _ => 0,
            };
            if !budget.take(1 + work) {
                return None;
            }
            let new = self.distance(at, &distances);
            let new = if new == NO_END { NO_END } else { new.min(FAR) };
            if new < distances[at as usize] || at == RETURN {
                distances[at as usize] = new;
                for &at in &before[at as usize] {
                    if !std::mem::replace(&mut is_open[at as usize], true) {
                        open.push_back(at);
                    }
                }
            }
        }
        Some(distances)
    }

    fn distance(&self, at: StepIndex, distances: &[u64]) -> u64 {
        let to = |at: StepIndex| distances[at as usize];
        match &self.steps[at as usize] {
            Step::Read { terminal, next } => {
                let terminal = &self.terminals[*terminal as usize];
                to(*next).saturating_add(if to(*next) == NO_END { 0 } else { terminal.to_end(terminal.start()) })
            }
            Step::Call { rule, next } => to(*next).saturating_add(to(self.entries[*rule as usize])),
            Step::Fork(ways) => ways.iter().map(|&way| to(way)).min().unwrap_or(NO_END),
            Step::Return => 0,
            Step::Inside(container) => self.shapes.first_distance(*container, |rule| to(self.entries[rule as usize])),
            Step::Unmade { .. } | Step::Name { .. } => unreachable!("made while texts are written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automata::automaton::Automaton;

    fn grammar() -> (GrammarBuilder, u32) {
        let mut grammar = GrammarBuilder::new();
        let x = grammar.terminal(Terminal::Table(Box::new(Automaton::literals(["x"]).unwrap())));
        (grammar, x)
    }

    #[test]
    fn a_rule_without_an_end_is_empty_and_ways_to_it_are_left_out() {
        let (mut some, x) = grammar();
        let (text, endless) = (some.rule(), some.rule());
        let again = some.call(endless, RETURN);
        let body = some.read(x, again);
        some.define(endless, body);
        let bad = some.call(endless, RETURN);
        let good = some.read(x, RETURN);
        let fork = some.fork(vec![bad, good]);
        some.define(text, fork);
        let some = some.finish().unwrap();
        assert!(matches!(&some.steps[fork as usize], Step::Fork(ways) if *ways == [good]));

        let (mut none, x) = grammar();
        let text = none.rule();
        let again = none.call(text, RETURN);
        let body = none.read(x, again);
        none.define(text, body);
        assert_eq!(none.finish().err(), Some(NoGrammar::Empty));
    }
}
