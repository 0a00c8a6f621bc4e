//! The steps inside objects and arrays, created as texts reach them.
//!
//! An object has as many positions as there are sets of properties, so a [`Grammar`] contains none of them: each
//! machine creates those that its texts reach, and shares none with other machines.

mod arrays;
mod objects;
mod written;

use std::sync::Arc;

use foldhash::HashMap;

use self::written::Written;
use super::Grammar;
use super::state::{ArrayState, ObjectState, Phase, State};
use super::step::{Container, NO_END, Rule, Step, StepIndex};
use crate::terminal::Terminal;
use crate::terminal::distinct::Values;
use crate::terminal::language::Language;
use crate::terminal::memory_counter::MemoryCounter;
use crate::terminal::names::Named;
use crate::terminal::nested::Nested;

/// Begins to read the values of a rule as one segment, at a nesting level. It is a function since the reader of nested
/// values depends on grammars.
pub(crate) type BeginNested = fn(&Arc<Grammar>, Rule, u32) -> Box<dyn Nested>;

/// The nesting level of items compared as values at which arrays of such items have at most one item. Whether there is
/// another takes a search on every level, and schemas can nest without end.
const MAX_LEVEL: u32 = 3;

/// A grammar with all steps that its texts have reached. The grammar's own steps come first.
///
/// It only grows, with the states that texts reach, and its owner has to limit it: a [`Constraint`](crate::Constraint)
/// gives new texts another machine when [`Unfolding::bytes`] and the states built on it become too much.
pub(crate) struct Unfolding {
    grammar: Arc<Grammar>,
    /// The terminals of the grammar, without the states that other machines created in them, then those created here.
    terminals: Vec<Arc<Terminal>>,
    /// The terminals of the grammar that grow with texts.
    growing: Vec<Arc<Terminal>>,
    /// The steps beyond those of the grammar; for each, the fewest bytes to the end of its rule, if known, and the
    /// index of its path in the schema.
    steps: Vec<Step>,
    distances: Vec<Option<u64>>,
    origins: Vec<u32>,
    /// The origin of the steps that are being created.
    origin: u32,
    /// The positions in objects and arrays, and the step of each.
    states: Vec<State>,
    state_steps: HashMap<State, StepIndex>,
    /// The step just inside each object and array.
    entered: HashMap<Container, StepIndex>,
    /// Read and call steps, by their contents.
    made_once: HashMap<(bool, u32, StepIndex), StepIndex>,
    /// The values of rules whose items must differ.
    values: HashMap<Rule, Arc<Values>>,
    begin_nested: BeginNested,
    /// The number of such items that this is nested in.
    level: u32,
    written: Written,
    /// Counts the memory of terminals that compare texts.
    made: MemoryCounter,
    /// The approximate number of bytes of the steps and terminals created here.
    bytes: usize,
}

impl Unfolding {
    /// Starts without any created steps.
    pub(crate) fn new(grammar: Arc<Grammar>, begin_nested: BeginNested, level: u32) -> Self {
        let mut growing = Vec::new();
        let own = |terminal: &Arc<Terminal>| match terminal.renewed() {
            Some(renewed) => {
                let renewed = Arc::new(renewed);
                growing.push(renewed.clone());
                renewed
            }
            None => terminal.clone(),
        };
        let terminals = grammar.terminals.iter().map(own).collect();
        Self {
            grammar,
            terminals,
            growing,
            steps: Vec::new(),
            distances: Vec::new(),
            origins: Vec::new(),
            origin: 0,
            states: Vec::new(),
            state_steps: HashMap::default(),
            entered: HashMap::default(),
            made_once: HashMap::default(),
            values: HashMap::default(),
            begin_nested,
            level,
            written: Written::new(),
            made: MemoryCounter::default(),
            bytes: 0,
        }
    }

    /// The grammar.
    pub(crate) fn grammar(&self) -> &Grammar {
        &self.grammar
    }

    /// The approximate number of bytes of everything created as texts reached it.
    pub(crate) fn bytes(&self) -> usize {
        let growing: usize = self.growing.iter().map(|terminal| terminal.made_bytes()).sum();
        let values: usize = self.values.values().map(|values| values.bytes()).sum();
        self.bytes + self.written.bytes() + self.made.bytes() + growing + values
    }

    /// The part of these bytes in states of terminals that compare texts.
    pub(crate) fn told_apart_bytes(&self) -> usize {
        self.made.bytes()
    }

    /// The first step of a rule; rule 0 is the text itself.
    pub(crate) fn entry(&self, rule: Rule) -> StepIndex {
        self.grammar.entries[rule as usize]
    }

    /// The step at an index.
    pub(crate) fn step(&self, at: StepIndex) -> &Step {
        let at = at as usize;
        self.grammar.steps.get(at).unwrap_or_else(|| &self.steps[at - self.grammar.steps.len()])
    }

    /// The index of a step among those created here, if it is one.
    fn made(&self, at: StepIndex) -> Option<usize> {
        (at as usize).checked_sub(self.grammar.steps.len())
    }

    /// The path in the schema that a step comes from, as a JSON pointer in a URI fragment; empty without a schema.
    pub(crate) fn path(&self, at: StepIndex) -> &str {
        &self.grammar.paths[self.origin_of(at) as usize]
    }

    fn origin_of(&self, at: StepIndex) -> u32 {
        self.made(at).map_or_else(|| self.grammar.origins[at as usize], |made| self.origins[made])
    }

    /// The terminal at an index.
    pub(crate) fn terminal(&self, terminal: u32) -> &Arc<Terminal> {
        &self.terminals[terminal as usize]
    }

    /// The terminal that a step reads with.
    pub(crate) fn terminal_at(&self, at: StepIndex) -> &Arc<Terminal> {
        match *self.step(at) {
            Step::Read { terminal, .. } | Step::Name { terminal, .. } => self.terminal(terminal),
            _ => unreachable!("asked of steps that read alone"),
        }
    }

    /// The fewest bytes from a step to the end of its rule.
    pub(crate) fn bytes_to_end(&mut self, at: StepIndex) -> u64 {
        let Some(made) = self.made(at) else { return self.grammar.distances[at as usize] };
        if let Some(distance) = self.distances[made] {
            return distance;
        }
        let from_start = |terminal: &Terminal| terminal.to_end(terminal.start());
        let distance = match self.step(at).clone() {
            Step::Read { terminal, next } => {
                from_start(self.terminal(terminal)).saturating_add(self.bytes_to_end(next))
            }
            // The distances of names include what follows.
            Step::Name { terminal, .. } => from_start(self.terminal(terminal)),
            Step::Call { rule, next } => {
                let entry = self.entry(rule);
                self.bytes_to_end(entry).saturating_add(self.bytes_to_end(next))
            }
            Step::Fork(ways) => ways.iter().map(|&way| self.bytes_to_end(way)).min().unwrap_or(NO_END),
            Step::Unmade { .. } => {
                self.open(at);
                self.bytes_to_end(at)
            }
            Step::Return | Step::Inside(_) => unreachable!("those are the grammar's"),
        };
        self.distances[made] = Some(distance);
        distance
    }

    /// Creates the steps of a position if they do not exist yet; returns the step to use instead.
    pub(crate) fn open(&mut self, at: StepIndex) -> StepIndex {
        match *self.step(at) {
            Step::Inside(container) => {
                if let Some(&entered) = self.entered.get(&container) {
                    return entered;
                }
                self.origin = self.origin_of(at);
                let nothing_seen = self.written.nothing_seen();
                let first = match container {
                    Container::Object(shape) => {
                        let none = self.written.set(self.grammar.shapes.no_properties(shape));
                        let state = ObjectState::start(shape, none, nothing_seen);
                        State::Object { state, phase: Phase::First }
                    }
                    Container::Array(shape) => {
                        let state = ArrayState::start(shape, nothing_seen);
                        State::Array { state, phase: Phase::First }
                    }
                };
                let first = self.at_state(first);
                self.open(first);
                self.entered.insert(container, first);
                first
            }
            Step::Unmade { state } => {
                self.origin = self.origin_of(at);
                let step = match self.states[state as usize] {
                    State::Object { state: inside, phase } => self.in_object(inside, phase, state),
                    State::Array { state: inside, phase } => self.in_array(inside, phase, state),
                };
                let made = self.made(at).expect("the grammar has no such steps");
                self.steps[made] = step;
                at
            }
            _ => at,
        }
    }

    /// The step after a reading step whose terminal accepts in `state`.
    pub(crate) fn after(&mut self, at: StepIndex, state: u32) -> StepIndex {
        self.origin = self.origin_of(at);
        match *self.step(at) {
            Step::Read { next, .. } => next,
            Step::Name { terminal, state: inside } => match &*self.terminals[terminal as usize] {
                Terminal::Names(names) => {
                    let named: Named = names.content.named(names.content_state(state));
                    self.after_name(inside, named)
                }
                Terminal::Fresh(fresh) => {
                    let (kind, text) = (fresh.kind, fresh.text(state));
                    self.after_item(inside, kind, Some(text))
                }
                Terminal::Distinct(distinct) => {
                    let value = distinct.value(state);
                    self.after_item(inside, 0, Some(value))
                }
                _ => unreachable!("names are read with names"),
            },
            _ => unreachable!("asked of steps that read alone"),
        }
    }

    /// The step after an item of an array whose items must all differ, or after a counted name; `text` is the item or
    /// name, if known.
    pub(crate) fn after_item(&mut self, state: u32, kind: u32, text: Option<Vec<u8>>) -> StepIndex {
        match self.states[state as usize] {
            State::Object { state: at, .. } => {
                let next = self.written.after_counted(&self.grammar.shapes, at, kind, text);
                self.after_name_in(next, Named::Other(kind))
            }
            State::Array { state: at, .. } => self.after_item_in(at, text),
        }
    }

    /// The step that reads with the given terminal.
    pub(crate) fn read(&mut self, terminal: u32, next: StepIndex) -> StepIndex {
        self.make_once(Step::Read { terminal, next })
    }

    /// The step of a position in an object or array.
    fn at_state(&mut self, state: State) -> StepIndex {
        if let Some(&at) = self.state_steps.get(&state) {
            return at;
        }
        self.states.push(state);
        // It is stored twice: in the list, and as a key.
        self.bytes += 3 * size_of::<State>();
        let at = self.make(Step::Unmade { state: self.states.len() as u32 - 1 });
        if let State::Object { phase: Phase::Later, .. } | State::Array { phase: Phase::Later, .. } = state {
            let to_end = self.written.to_end_later(&self.grammar.shapes, state);
            *self.distances.last_mut().expect("it was made just now") = Some(to_end);
        }
        self.state_steps.insert(state, at);
        at
    }

    /// The step of a position after a value, if the end can be reached from there.
    fn at_state_with_end(&mut self, state: State) -> Option<StepIndex> {
        let at = self.at_state(state);
        (self.bytes_to_end(at) != NO_END).then_some(at)
    }

    /// Adds a step.
    fn make(&mut self, step: Step) -> StepIndex {
        let ways = if let Step::Fork(ways) = &step { size_of_val(&ways[..]) } else { 0 };
        self.bytes += size_of::<Step>() + size_of::<Option<u64>>() + size_of::<u32>() + ways;
        self.steps.push(step);
        self.distances.push(None);
        self.origins.push(self.origin);
        (self.grammar.steps.len() + self.steps.len()) as StepIndex - 1
    }

    /// Adds a step unless an equal one exists.
    fn make_once(&mut self, step: Step) -> StepIndex {
        let key = match step {
            Step::Call { rule, next } => (true, rule, next),
            Step::Read { terminal, next } => (false, terminal, next),
            _ => unreachable!("asked of two kinds of steps"),
        };
        if let Some(&at) = self.made_once.get(&key) {
            return at;
        }
        let at = self.make(step);
        self.bytes += 32;
        self.made_once.insert(key, at);
        at
    }

    /// The values of a rule.
    fn values(&mut self, rule: Rule, any_order: bool) -> Arc<Values> {
        let new = || Arc::new(Values::new((self.begin_nested)(&self.grammar, rule, self.level + 1), any_order));
        self.values.entry(rule).or_insert_with(new).clone()
    }

    /// Adds a terminal.
    fn add_terminal(&mut self, terminal: Terminal) -> u32 {
        self.bytes += terminal.bytes();
        self.terminals.push(Arc::new(terminal));
        self.terminals.len() as u32 - 1
    }
}
