//! Terminals divided by the bytes that cannot come after them.

use std::rc::Rc;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::bytes::Bytes;
use super::competitors::Set;
use super::lexemes::Lexemes;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::languages::fault::{Result, over};

/// A part of the texts of a terminal.
pub(super) struct Part {
    /// The bytes that cannot come after these texts.
    pub(super) guard: Bytes,
    /// The automaton of these texts, `None` if they are all of the terminal.
    pub(super) automaton: Option<Arc<Automaton>>,
}

/// The conditions under which a terminal is read.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Conditions {
    lexeme: u32,
    /// The terminals that are read together with it.
    competitors: Vec<u32>,
    /// The bytes that may come after it.
    follow: Bytes,
    /// Bytes that it cannot begin with.
    guard: Bytes,
}

/// All texts of a terminal that is read together with others, under any other conditions.
struct Whole {
    /// Their automaton.
    automaton: Automaton,
    /// For each kind of its final states, the bytes by which the text becomes that of a longer terminal.
    longer: Vec<Bytes>,
    /// Whether the terminal alone has more texts.
    is_cut: bool,
}

/// Terminals and their parts.
pub(super) struct Divided<'b> {
    lexemes: Lexemes,
    /// The automata of terminals that are read together.
    together: HashMap<Vec<u32>, Arc<Automaton>>,
    wholes: HashMap<(u32, Vec<u32>), Option<Rc<Whole>>>,
    parts: HashMap<Conditions, Rc<[Part]>>,
    budget: &'b Budget,
}

/// A state of a terminal: its own, [`BEGIN`] before the first byte, and the state of all that are read together.
type Pair = (u32, u32);

const BEGIN: u32 = u32::MAX;

/// The kinds of texts of terminals that are read together.
const GREEDY: u32 = 0;
const LAZY: u32 = 1;

impl<'b> Divided<'b> {
    pub(super) fn new(lexemes: Lexemes, budget: &'b Budget) -> Self {
        Self { lexemes, together: HashMap::new(), wholes: HashMap::new(), parts: HashMap::new(), budget }
    }

    pub(super) fn lexemes(&self) -> &Lexemes {
        &self.lexemes
    }

    /// The parts of a terminal that is read together with others, that does not begin with a byte of `guard`, and after
    /// which a byte of `follow` may come.
    pub(super) fn parts(&mut self, lexeme: u32, competitors: &Set, follow: Bytes, guard: Bytes) -> Result<Rc<[Part]>> {
        let own = self.lexemes.get(lexeme);
        let is_together = |&other: &u32| other == lexeme || !self.lexemes.get(other).first.and(own.first).is_empty();
        let mut competitors: Vec<u32> = competitors.iter().copied().filter(is_together).collect();
        if competitors.is_empty() {
            competitors.push(lexeme);
        }
        let conditions = Conditions { lexeme, competitors, follow, guard: guard.and(own.first) };
        if let Some(known) = self.parts.get(&conditions) {
            return Ok(known.clone());
        }
        let parts: Rc<[Part]> = self.divide(&conditions)?.into();
        self.parts.insert(conditions, parts.clone());
        Ok(parts)
    }

    fn divide(&mut self, conditions: &Conditions) -> Result<Vec<Part>> {
        let Some(whole) = self.whole(conditions)? else { return Ok(Vec::new()) };
        let Conditions { follow, guard: barred, .. } = conditions;
        // The guard of each kind of texts.
        let of_kinds: Vec<Bytes> = whole.longer.iter().map(|longer| follow.and(*longer)).collect();
        let mut guards: Vec<Bytes> = Vec::new();
        of_kinds.iter().for_each(|guard| {
            if !guards.contains(guard) {
                guards.push(*guard);
            }
        });
        if let ([guard], false) = (&guards[..], whole.is_cut || !barred.is_empty()) {
            return Ok(vec![Part { guard: *guard, automaton: None }]);
        }
        let automaton = &whole.automaton;
        let start = if barred.is_empty() { Automaton::START } else { BEGIN };
        let mut parts = Vec::with_capacity(guards.len());
        for guard in guards {
            let part = Automaton::explore_within(
                self.budget,
                start,
                |byte| (automaton.class(byte), barred.contains(byte)),
                |&state, byte| match state {
                    BEGIN if barred.contains(byte) => None,
                    BEGIN => automaton.next(Automaton::START, byte),
                    state => automaton.next(state, byte),
                },
                |&state| {
                    let kind = if state == BEGIN { None } else { automaton.kind(state) };
                    kind.is_some_and(|kind| of_kinds[kind as usize] == guard)
                },
            );
            match part {
                Ok(part) => parts.push(Part { guard, automaton: Some(Arc::new(part)) }),
                Err(NoAutomaton::Empty) => {}
                Err(NoAutomaton::TooLarge) => return Err(over(self.budget)),
            }
        }
        Ok(parts)
    }

    /// The texts of a terminal that is read together with others; `None` if there are none.
    fn whole(&mut self, Conditions { lexeme, competitors, .. }: &Conditions) -> Result<Option<Rc<Whole>>> {
        let key = (*lexeme, competitors.clone());
        if let Some(known) = self.wholes.get(&key) {
            return Ok(known.clone());
        }
        let together = self.together(competitors)?;
        let own = self.lexemes.get(*lexeme);
        let continued = |state: u32| match own.is_lazy {
            true => Bytes::default(),
            false => Bytes::of(|byte| together.next(state, byte).is_some()),
        };
        // Kinds are found while walking.
        let kinds = std::cell::RefCell::new((Vec::<Bytes>::new(), HashMap::<u32, u32>::new()));
        let kind = |&(state, others): &Pair| {
            if state == BEGIN || !own.automaton.accepts(state) || (!own.is_lazy && is_ended(&together, others)) {
                return None;
            }
            let (longer, known) = &mut *kinds.borrow_mut();
            Some(*known.entry(others).or_insert_with(|| {
                let bytes = continued(others);
                longer.iter().position(|known| *known == bytes).unwrap_or_else(|| {
                    longer.push(bytes);
                    longer.len() - 1
                }) as u32
            }))
        };
        let cut = std::cell::Cell::new(false);
        let automaton = Automaton::explore_kinds(
            (self.budget, 1),
            (BEGIN, Automaton::START),
            |byte| (own.automaton.class(byte), together.class(byte)),
            |&(state, others), byte| {
                let from = if state == BEGIN { Automaton::START } else { state };
                let to = own.automaton.next(from, byte)?;
                // Another terminal has ended as soon as it could.
                let after = together.next(others, byte).filter(|_| state == BEGIN || !is_ended(&together, others));
                if after.is_none() {
                    cut.set(true);
                }
                Some((to, after?))
            },
            kind,
        );
        let whole = match automaton {
            Ok(automaton) => {
                let ends_early = !own.is_lazy && competitors.iter().any(|&other| self.lexemes.get(other).is_lazy);
                let is_cut = cut.get() || ends_early;
                Some(Rc::new(Whole { automaton, longer: kinds.into_inner().0, is_cut }))
            }
            Err(NoAutomaton::Empty) => None,
            Err(NoAutomaton::TooLarge) => return Err(over(self.budget)),
        };
        self.wholes.insert(key, whole.clone());
        Ok(whole)
    }

    /// The automaton of the texts of several terminals that are read together.
    fn together(&mut self, competitors: &[u32]) -> Result<Arc<Automaton>> {
        if let [only] = competitors {
            let own = self.lexemes.get(*only);
            if !own.is_lazy {
                return Ok(own.automaton.clone());
            }
        }
        if let Some(known) = self.together.get(competitors) {
            return Ok(known.clone());
        }
        type States = smallvec::SmallVec<[(u32, u32); 4]>;
        let lexemes: Vec<_> = competitors.iter().map(|&lexeme| self.lexemes.get(lexeme)).collect();
        let ends = |states: &States, is_lazy: bool| {
            states.iter().any(|&(lexeme, state)| {
                let lexeme = lexemes[lexeme as usize];
                lexeme.is_lazy == is_lazy && lexeme.automaton.accepts(state)
            })
        };
        let automaton = Automaton::explore_kinds(
            (self.budget, 1 + competitors.len() as u64 / 8),
            (0..competitors.len() as u32).map(|lexeme| (lexeme, Automaton::START)).collect::<States>(),
            |byte| lexemes.iter().map(|lexeme| lexeme.automaton.class(byte)).collect::<Vec<u8>>(),
            |states: &States, byte| {
                if ends(states, true) {
                    return None;
                }
                let next = |&(lexeme, state): &(u32, u32)| {
                    Some((lexeme, lexemes[lexeme as usize].automaton.next(state, byte)?))
                };
                let after: States = states.iter().filter_map(next).collect();
                (!after.is_empty()).then_some(after)
            },
            |states: &States| match (ends(states, true), ends(states, false)) {
                (true, _) => Some(LAZY),
                (false, true) => Some(GREEDY),
                (false, false) => None,
            },
        );
        match automaton {
            Ok(automaton) => {
                let automaton = Arc::new(automaton);
                self.together.insert(competitors.to_vec(), automaton.clone());
                Ok(automaton)
            }
            Err(_) => Err(over(self.budget)),
        }
    }
}

/// Whether a terminal that ends as soon as it can has ended.
fn is_ended(together: &Automaton, state: u32) -> bool {
    together.kind(state) == Some(LAZY)
}
