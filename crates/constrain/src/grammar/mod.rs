//! Pieces of text that follow each other and nest: what a text with parts looks like.

mod compose;
pub(crate) mod place;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::grammar::place::Places;
use crate::terminal::Terminal;
use crate::terminal::names::Named;

/// The most steps of one grammar.
const MAX_STEPS: usize = 1 << 20;

/// The most cells that the tables of a grammar may have together; each takes four bytes.
const MAX_CELLS: usize = 16 << 20;

/// The number of a step.
pub(crate) type At = u32;

/// The number of a rule.
pub(crate) type Rule = u32;

/// What a text does at a point.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// It goes on with something that a terminal accepts.
    Read { terminal: u32, next: At },
    /// It goes on with a name or an item that a terminal accepts, and what follows depends on which it is: the step's
    /// place says.
    Name { terminal: u32, place: u32 },
    /// It goes on with something that a rule describes.
    Call { rule: Rule, next: At },
    /// It goes on in any of these ways.
    Fork(Vec<At>),
    /// The rule is at its end.
    Return,
    /// A place in an object or an array, whose steps are made when a text first comes there.
    Place(u32),
}

/// A language of texts: rules that call each other, as deep as they like, over terminals.
///
/// Every point that can be reached has a way to the end of the text. Most of a grammar is there from the beginning;
/// the insides of objects and arrays, of which there are as many as sets of properties, are made as texts come to them.
#[derive(Clone)]
pub struct Grammar {
    pub(crate) steps: Vec<Step>,
    pub(crate) terminals: Vec<Arc<Terminal>>,
    /// The first step of each rule.
    pub(crate) entries: Vec<At>,
    /// The fewest bytes from each step to the end of its rule, as far as they are known.
    pub(crate) distances: Vec<Option<u64>>,
    pub(crate) places: Places,
    /// Where in a schema each step comes from, by the number of a path.
    pub(crate) origins: Vec<u32>,
    pub(crate) paths: Vec<Arc<str>>,
    /// The origin of steps that are made now.
    pub(crate) here: u32,
    /// About how many bytes steps and terminals take.
    bytes: usize,
}

/// No number of bytes leads to the end.
pub(crate) const NO_END: u64 = u64::MAX;

/// Longer ways to the end are all alike: rules that double each other's length reach any number.
const FAR: u64 = 1 << 48;

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, terminals) = (self.steps.len(), self.terminals.len());
        write!(f, "Grammar {{ {steps} steps, {terminals} terminals, {} rules }}", self.entries.len())
    }
}

/// A grammar that would be too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parts together are too large for a grammar")]
pub struct TooLarge;

/// Why steps are no grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoGrammar {
    /// No text is described.
    Empty,
    /// It has too many steps.
    TooLarge,
}

impl Grammar {
    /// The end of a rule.
    pub(crate) const RETURN: At = 0;

    /// One without rules, to be filled: from the end of each rule to its beginning.
    pub(crate) fn empty() -> Self {
        Self {
            steps: vec![Step::Return],
            terminals: Vec::new(),
            entries: Vec::new(),
            distances: vec![Some(0)],
            places: Places::default(),
            origins: vec![0],
            paths: vec!["".into()],
            here: 0,
            bytes: 0,
        }
    }

    /// The same, which shares nothing that grows with texts.
    pub(crate) fn renewed(&self) -> Self {
        let renewed = |terminal: &Arc<Terminal>| match terminal.renewed() {
            Some(renewed) => Arc::new(renewed),
            None => terminal.clone(),
        };
        Self { terminals: self.terminals.iter().map(renewed).collect(), ..self.clone() }
    }

    /// About how many bytes it takes, apart from tables.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.places.bytes()
    }

    /// Says where in a schema the steps that are made next come from.
    pub(crate) fn stand_at(&mut self, path: &str) {
        if *self.paths[self.paths.len() - 1] != *path {
            self.paths.push(path.into());
        }
        self.here = self.paths.len() as u32 - 1;
    }

    pub(crate) fn step(&mut self, step: Step) -> At {
        let ways = if let Step::Fork(ways) = &step { size_of_val(&ways[..]) } else { 0 };
        self.bytes += size_of::<Step>() + size_of::<Option<u64>>() + size_of::<u32>() + ways;
        self.steps.push(step);
        self.distances.push(None);
        self.origins.push(self.here);
        self.steps.len() as At - 1
    }

    /// Whether there are more steps or states than a grammar may have.
    pub(crate) fn is_too_large(&self) -> bool {
        self.steps.len() > MAX_STEPS
            || self.terminals.iter().map(|terminal| terminal.cells()).sum::<usize>() > MAX_CELLS
    }

    /// Keeps a terminal, which any number of steps can read with.
    pub(crate) fn terminal(&mut self, terminal: Terminal) -> u32 {
        self.bytes += terminal.bytes();
        self.terminals.push(Arc::new(terminal));
        self.terminals.len() as u32 - 1
    }

    pub(crate) fn read(&mut self, terminal: u32, next: At) -> At {
        self.step(Step::Read { terminal, next })
    }

    pub(crate) fn call(&mut self, rule: Rule, next: At) -> At {
        self.step(Step::Call { rule, next })
    }

    pub(crate) fn fork(&mut self, ways: Vec<At>) -> At {
        self.step(Step::Fork(ways))
    }

    /// Declares a rule. The first is the text itself.
    pub(crate) fn rule(&mut self) -> Rule {
        self.entries.push(Self::RETURN);
        self.entries.len() as Rule - 1
    }

    /// Says where a rule begins.
    pub(crate) fn define(&mut self, rule: Rule, entry: At) {
        self.entries[rule as usize] = entry;
    }

    /// Closes the grammar: works out what leads to an end, and leaves out what does not.
    pub(crate) fn finish(self) -> Result<Self, NoGrammar> {
        self.finish_within(&Budget::without_end())
    }

    /// As [`Grammar::finish`], as far as a budget goes.
    pub(crate) fn finish_within(mut self, budget: &Budget) -> Result<Self, NoGrammar> {
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
        self.distances = distances.into_iter().map(Some).collect();
        self.places.settle(&rules);
        Ok(self)
    }

    /// The fewest bytes from each step to the end of its rule. A way that becomes shorter is passed on to the steps that
    /// lead to it (Bellman 1958; Ford 1956, with a queue).
    fn shortest(&self, budget: &Budget) -> Option<Vec<u64>> {
        let mut before: Vec<Vec<At>> = vec![Vec::new(); self.steps.len()];
        for (at, step) in (0..).zip(&self.steps) {
            match step {
                Step::Read { next, .. } => before[*next as usize].push(at),
                Step::Call { rule, next } => {
                    before[*next as usize].push(at);
                    before[self.entries[*rule as usize] as usize].push(at);
                }
                Step::Fork(ways) => ways.iter().for_each(|&way| before[way as usize].push(at)),
                Step::Place(place) => {
                    let rules = self.places.rules_of(*place);
                    rules.iter().for_each(|&rule| before[self.entries[rule as usize] as usize].push(at));
                }
                Step::Return | Step::Name { .. } => {}
            }
        }
        let mut distances = vec![NO_END; self.steps.len()];
        distances[Self::RETURN as usize] = 0;
        // What is made last is often needed first.
        let mut open: VecDeque<At> = (0..self.steps.len() as At).rev().collect();
        let mut is_open = vec![true; self.steps.len()];
        while let Some(at) = open.pop_front() {
            is_open[at as usize] = false;
            let work = if let Step::Place(place) = self.steps[at as usize] { self.places.work(place) } else { 0 };
            if !budget.take(1 + work) {
                return None;
            }
            let new = self.distance(at, &distances);
            let new = if new == NO_END { NO_END } else { new.min(FAR) };
            if new < distances[at as usize] || at == Self::RETURN {
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

    fn distance(&self, at: At, distances: &[u64]) -> u64 {
        let to = |at: At| distances[at as usize];
        match &self.steps[at as usize] {
            Step::Read { terminal, next } => {
                let terminal = &self.terminals[*terminal as usize];
                to(*next).saturating_add(if to(*next) == NO_END { 0 } else { terminal.to_end(terminal.start()) })
            }
            Step::Call { rule, next } => to(*next).saturating_add(to(self.entries[*rule as usize])),
            Step::Fork(ways) => ways.iter().map(|&way| to(way)).min().unwrap_or(NO_END),
            Step::Return => 0,
            Step::Place(place) => self.places.first_distance(*place, |rule| to(self.entries[rule as usize])),
            Step::Name { .. } => unreachable!("made after the grammar is closed"),
        }
    }

    /// The fewest bytes from a step to the end of its rule.
    pub(crate) fn bytes_to_end(&mut self, at: At) -> u64 {
        if let Some(distance) = self.distances[at as usize] {
            return distance;
        }
        let distance = match self.steps[at as usize].clone() {
            Step::Read { terminal, next } => {
                let terminal = &self.terminals[terminal as usize];
                let bytes = terminal.to_end(terminal.start());
                bytes.saturating_add(self.bytes_to_end(next))
            }
            Step::Name { terminal, .. } => {
                let terminal = &self.terminals[terminal as usize];
                terminal.to_end(terminal.start())
            }
            Step::Call { rule, next } => {
                let entry = self.entries[rule as usize];
                self.bytes_to_end(entry).saturating_add(self.bytes_to_end(next))
            }
            Step::Fork(ways) => ways.iter().map(|&way| self.bytes_to_end(way)).min().unwrap_or(NO_END),
            Step::Return => 0,
            Step::Place(_) => {
                self.open(at);
                self.bytes_to_end(at)
            }
        };
        self.distances[at as usize] = Some(distance);
        distance
    }

    /// What a step reads with.
    pub(crate) fn terminal_at(&self, at: At) -> &Arc<Terminal> {
        match self.steps[at as usize] {
            Step::Read { terminal, .. } | Step::Name { terminal, .. } => &self.terminals[terminal as usize],
            _ => unreachable!("asked of steps that read alone"),
        }
    }

    /// The step after one that reads, whose terminal accepts in `state`.
    pub(crate) fn after(&mut self, at: At, state: u32) -> At {
        self.here = self.origins[at as usize];
        match self.steps[at as usize] {
            Step::Read { next, .. } => next,
            Step::Name { terminal, place } => match &*self.terminals[terminal as usize] {
                Terminal::Names(names) => {
                    let named: Named = names.content.named(names.content_state(state));
                    self.after_name(place, named)
                }
                Terminal::Fresh(fresh) => {
                    let (kind, text) = (fresh.kind, fresh.text(state));
                    self.after_item(place, kind, Some(text))
                }
                _ => unreachable!("names are read with names"),
            },
            _ => unreachable!("asked of steps that read alone"),
        }
    }

    /// The grammar of one automaton.
    pub(crate) fn of(automaton: Automaton) -> Self {
        Self::of_terminal(Terminal::Table(Box::new(automaton)))
    }

    /// The grammar of one terminal.
    pub(crate) fn of_terminal(terminal: Terminal) -> Self {
        let mut grammar = Self::empty();
        let (rule, terminal) = (grammar.rule(), grammar.terminal(terminal));
        let entry = grammar.read(terminal, Self::RETURN);
        grammar.define(rule, entry);
        grammar.finish().expect("a terminal accepts something")
    }

    /// The grammar of a list of texts, one of which is to be written.
    pub fn choice<T: AsRef<str>>(texts: &[T]) -> Result<Self, BadChoice> {
        match Automaton::literals(texts.iter().map(|text| text.as_ref().as_bytes())) {
            Ok(automaton) => Ok(Self::of(automaton)),
            Err(NoAutomaton::Empty) => Err(BadChoice::Empty),
            Err(NoAutomaton::TooLarge) => Err(BadChoice::TooLarge),
        }
    }
}

/// A list of texts that cannot be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChoice {
    /// There is nothing to choose.
    #[error("a choice needs at least one text")]
    Empty,
    /// The texts together are too long.
    #[error("the texts to choose from are too many or too long")]
    TooLarge,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grammar() -> (Grammar, u32) {
        let mut grammar = Grammar::empty();
        let x = grammar.terminal(Terminal::Table(Box::new(Automaton::literals(["x"]).unwrap())));
        (grammar, x)
    }

    #[test]
    fn a_rule_without_an_end_is_empty_and_ways_to_it_are_left_out() {
        let (mut some, x) = grammar();
        let (text, endless) = (some.rule(), some.rule());
        let again = some.call(endless, Grammar::RETURN);
        let body = some.read(x, again);
        some.define(endless, body);
        let bad = some.call(endless, Grammar::RETURN);
        let good = some.read(x, Grammar::RETURN);
        let fork = some.fork(vec![bad, good]);
        some.define(text, fork);
        let some = some.finish().unwrap();
        assert!(matches!(&some.steps[fork as usize], Step::Fork(ways) if *ways == [good]));

        let (mut none, x) = grammar();
        let text = none.rule();
        let again = none.call(text, Grammar::RETURN);
        let body = none.read(x, again);
        none.define(text, body);
        assert_eq!(none.finish().err(), Some(NoGrammar::Empty));
    }
}
