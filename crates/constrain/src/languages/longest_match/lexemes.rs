//! The different terminals of a grammar.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::bytes::Bytes;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::dfa::Dfa;
use crate::languages::fault::{Result, take};
use crate::languages::graph::{Graph, Segment};
use crate::languages::lexeme::too_large;
use crate::languages::operation::MAX_BYTES;

/// A terminal.
pub(super) struct Lexeme {
    pub(super) automaton: Arc<Automaton>,
    /// Whether it ends as soon as it can.
    pub(super) is_lazy: bool,
    /// The bytes that its texts begin with.
    pub(super) first: Bytes,
}

/// All terminals of a grammar; equal ones are shared.
pub(super) struct Lexemes {
    pub(super) all: Vec<Lexeme>,
    /// By segment, its terminal, if it has any text.
    of_segments: Vec<Option<u32>>,
}

impl Lexemes {
    pub(super) fn of(graph: &Graph<'_>) -> Result<Self> {
        let mut lexemes = Self { all: Vec::new(), of_segments: Vec::with_capacity(graph.segments.len()) };
        let mut known: HashMap<(String, bool), Option<u32>> = HashMap::new();
        for (index, segment) in (0..).zip(&graph.segments) {
            let (at, is_lazy) = graph.terminals.get(&index).copied().unwrap_or_default();
            let number = match segment {
                Segment::Automaton(automaton) => Some(lexemes.add(automaton.clone(), is_lazy)),
                Segment::Regular(regular) => {
                    let key = (regular.hir().to_string(), is_lazy);
                    take(graph.budget, 1 + key.0.len() as u64 / 16)?;
                    match known.get(&key) {
                        Some(&number) => number,
                        None => {
                            let Ok(dfa) = Dfa::within(regular.hir(), None, MAX_BYTES) else {
                                return too_large(at, graph.budget);
                            };
                            let number = match dfa.automaton() {
                                Ok(automaton) => {
                                    take(graph.budget, automaton.cells() as u64 / 4)?;
                                    Some(lexemes.add(Arc::new(automaton), is_lazy))
                                }
                                Err(NoAutomaton::Empty) => None,
                                Err(NoAutomaton::TooLarge) => return too_large(at, graph.budget),
                            };
                            known.insert(key, number);
                            number
                        }
                    }
                }
            };
            lexemes.of_segments.push(number);
        }
        Ok(lexemes)
    }

    fn add(&mut self, automaton: Arc<Automaton>, is_lazy: bool) -> u32 {
        let first = Bytes::of(|byte| automaton.next(Automaton::START, byte).is_some());
        self.all.push(Lexeme { automaton, is_lazy, first });
        self.all.len() as u32 - 1
    }

    /// The terminal of a segment, if it has any text.
    pub(super) fn of_segment(&self, segment: u32) -> Option<u32> {
        self.of_segments[segment as usize]
    }

    pub(super) fn get(&self, lexeme: u32) -> &Lexeme {
        &self.all[lexeme as usize]
    }
}
