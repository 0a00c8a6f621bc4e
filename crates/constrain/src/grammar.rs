//! Automata that call each other: what a text with nested parts looks like.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use crate::automaton::{Automaton, NoAutomaton};

/// The most steps of one grammar.
const MAX_STEPS: usize = 1 << 20;

/// The most cells that the tables of a grammar's automata may have together; each takes four bytes.
const MAX_CELLS: usize = 32 << 20;

/// The number of a step.
pub(crate) type At = u32;

/// The number of a rule.
pub(crate) type Rule = u32;

/// What a text does at a point.
pub(crate) enum Step {
    /// It goes on with something that an automaton accepts.
    Read { automaton: u32, next: At },
    /// It goes on with something that a rule describes.
    Call { rule: Rule, next: At },
    /// It goes on in any of these ways.
    Fork(Vec<At>),
    /// The rule is at its end.
    Return,
}

/// A language of texts: rules that call each other, as deep as they like, over automata.
///
/// Every point that can be reached has a way to the end of the text.
pub struct Grammar {
    pub(crate) steps: Vec<Step>,
    pub(crate) automata: Vec<Automaton>,
    /// The first step of each rule.
    pub(crate) entries: Vec<At>,
    /// The fewest bytes from each step to the end of its rule; [`NO_END`] where there is none.
    pub(crate) to_end: Vec<u64>,
}

/// No number of bytes leads to the end.
const NO_END: u64 = u64::MAX;

/// Longer ways to the end are all alike: rules that double each other's length reach any number.
const FAR: u64 = 1 << 48;

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (steps, automata) = (self.steps.len(), self.automata.len());
        write!(f, "Grammar {{ {steps} steps, {automata} automata, {} rules }}", self.entries.len())
    }
}

/// Why steps are no grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoGrammar {
    /// No text is described.
    Empty,
    /// It has too many steps.
    TooLarge,
    /// This rule calls itself before it reads anything.
    Loop(Rule),
}

/// A grammar that is being built, from the end of each rule to its beginning.
pub(crate) struct Builder {
    steps: Vec<Step>,
    automata: Vec<Automaton>,
    cells: usize,
    entries: Vec<At>,
}

impl Builder {
    /// The end of a rule.
    pub(crate) const RETURN: At = 0;

    pub(crate) fn new() -> Self {
        Self { steps: vec![Step::Return], automata: Vec::new(), cells: 0, entries: Vec::new() }
    }

    fn step(&mut self, step: Step) -> At {
        self.steps.push(step);
        self.steps.len() as At - 1
    }

    /// Whether there are more steps or states than a grammar may have.
    pub(crate) fn is_too_large(&self) -> bool {
        self.steps.len() > MAX_STEPS || self.cells > MAX_CELLS
    }

    /// Keeps an automaton, which any number of steps can read with.
    pub(crate) fn automaton(&mut self, automaton: Automaton) -> u32 {
        self.cells += automaton.cells();
        self.automata.push(automaton);
        self.automata.len() as u32 - 1
    }

    pub(crate) fn read(&mut self, automaton: u32, next: At) -> At {
        self.step(Step::Read { automaton, next })
    }

    pub(crate) fn call(&mut self, rule: Rule, next: At) -> At {
        self.step(Step::Call { rule, next })
    }

    pub(crate) fn fork(&mut self, ways: Vec<At>) -> At {
        self.step(Step::Fork(ways))
    }

    /// Adds a way to a fork that is there already: so loops are made.
    pub(crate) fn add_way(&mut self, fork: At, way: At) {
        let Step::Fork(ways) = &mut self.steps[fork as usize] else { unreachable!("only a fork has ways") };
        ways.push(way);
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

    /// Closes the grammar: what leads nowhere is left out.
    pub(crate) fn finish(mut self) -> Result<Grammar, NoGrammar> {
        if self.is_too_large() {
            return Err(NoGrammar::TooLarge);
        }
        if let Some(rule) = self.silent_loop() {
            return Err(NoGrammar::Loop(rule));
        }
        let to_end = self.to_end();
        if to_end[self.entries[0] as usize] == NO_END {
            return Err(NoGrammar::Empty);
        }
        for step in &mut self.steps {
            if let Step::Fork(ways) = step {
                ways.retain(|&way| to_end[way as usize] != NO_END);
            }
        }
        Ok(Grammar { steps: self.steps, automata: self.automata, entries: self.entries, to_end })
    }

    /// The fewest bytes from each step to the end of its rule, each settled once, the smallest first (Knuth, *A
    /// Generalization of Dijkstra's Algorithm*, 1977).
    fn to_end(&self) -> Vec<u64> {
        // Who waits for a step; one that calls waits for two.
        let mut waiting: Vec<Vec<At>> = vec![Vec::new(); self.steps.len()];
        for (at, step) in (0..).zip(&self.steps) {
            match step {
                Step::Read { next, .. } => waiting[*next as usize].push(at),
                Step::Call { rule, next } => {
                    waiting[*next as usize].push(at);
                    waiting[self.entries[*rule as usize] as usize].push(at);
                }
                Step::Fork(ways) => ways.iter().for_each(|&way| waiting[way as usize].push(at)),
                Step::Return => {}
            }
        }
        let mut to_end = vec![NO_END; self.steps.len()];
        // Of a step that calls: the one of the two that is settled.
        let mut half: Vec<Option<u64>> = vec![None; self.steps.len()];
        let mut open = BinaryHeap::from([Reverse((0, Self::RETURN))]);
        while let Some(Reverse((bytes, settled))) = open.pop() {
            if to_end[settled as usize] != NO_END {
                continue;
            }
            let bytes = bytes.min(FAR);
            to_end[settled as usize] = bytes;
            for &at in &waiting[settled as usize] {
                let bytes = match &self.steps[at as usize] {
                    Step::Read { automaton, .. } => {
                        bytes + u64::from(self.automata[*automaton as usize].to_end(Automaton::START))
                    }
                    Step::Call { .. } => match half[at as usize].replace(bytes) {
                        None => continue,
                        Some(other) => bytes + other,
                    },
                    Step::Fork(_) | Step::Return => bytes,
                };
                open.push(Reverse((bytes, at)));
            }
        }
        to_end
    }

    /// A rule that can call itself before anything is read. A machine would never come to an end there.
    fn silent_loop(&self) -> Option<Rule> {
        // Depth first over the steps that follow each other without a byte. Every automaton of a grammar with
        // calls reads at least one byte, so a rule does too.
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.steps.len()];
        for (rule, &entry) in self.entries.iter().enumerate() {
            let mut path = vec![(entry, 0usize)];
            while let Some((at, way)) = path.pop() {
                if way == 0 && marks[at as usize] == Mark::Done {
                    continue;
                }
                let follower = match &self.steps[at as usize] {
                    Step::Call { rule, .. } if way == 0 => Some(self.entries[*rule as usize]),
                    Step::Fork(ways) => ways.get(way).copied(),
                    _ => None,
                };
                let Some(follower) = follower else {
                    marks[at as usize] = Mark::Done;
                    continue;
                };
                marks[at as usize] = Mark::Open;
                path.push((at, way + 1));
                match marks[follower as usize] {
                    Mark::Open => return Some(rule as Rule),
                    Mark::New => path.push((follower, 0)),
                    Mark::Done => {}
                }
            }
        }
        None
    }
}

impl Grammar {
    /// What a step reads with, and the step after it.
    pub(crate) fn read_at(&self, at: At) -> (&Automaton, At) {
        match self.steps[at as usize] {
            Step::Read { automaton, next } => (&self.automata[automaton as usize], next),
            _ => unreachable!("asked of steps that read alone"),
        }
    }

    /// The grammar of one automaton.
    pub(crate) fn of(automaton: Automaton) -> Self {
        let mut builder = Builder::new();
        let (rule, automaton) = (builder.rule(), builder.automaton(automaton));
        let entry = builder.read(automaton, Builder::RETURN);
        builder.define(rule, entry);
        builder.finish().expect("an automaton accepts something")
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

    fn builder() -> (Builder, u32) {
        let mut builder = Builder::new();
        let x = builder.automaton(Automaton::literals(["x"]).unwrap());
        (builder, x)
    }

    #[test]
    fn a_rule_without_an_end_is_empty_and_ways_to_it_are_left_out() {
        let (mut builder, x) = builder();
        let (text, endless) = (builder.rule(), builder.rule());
        let again = builder.call(endless, Builder::RETURN);
        let body = builder.read(x, again);
        builder.define(endless, body);
        let bad = builder.call(endless, Builder::RETURN);
        let good = builder.read(x, Builder::RETURN);
        let fork = builder.fork(vec![bad, good]);
        builder.define(text, fork);
        let grammar = builder.finish().unwrap();
        assert!(matches!(&grammar.steps[fork as usize], Step::Fork(ways) if *ways == [good]));

        let (mut builder, x) = self::builder();
        let text = builder.rule();
        let again = builder.call(text, Builder::RETURN);
        let body = builder.read(x, again);
        builder.define(text, body);
        assert_eq!(builder.finish().err(), Some(NoGrammar::Empty));
    }

    #[test]
    fn a_rule_that_calls_itself_before_it_reads_is_found() {
        let (mut builder, x) = builder();
        let (text, other) = (builder.rule(), builder.rule());
        let end = builder.read(x, Builder::RETURN);
        let call = builder.call(other, Builder::RETURN);
        builder.define(text, call);
        let back = builder.call(other, end);
        let fork = builder.fork(vec![end, back]);
        builder.define(other, fork);
        assert!(matches!(builder.finish(), Err(NoGrammar::Loop(_))));
    }
}
