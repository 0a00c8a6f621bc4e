//! Terminals as one automaton each, with those that they consist of.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use smallvec::SmallVec;

use super::expression::{Expression, Operation, RuleId, Rules};
use super::fault::{BadGrammar, Position, Result, take};
use super::operation::automaton;
use super::regular::Regular;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;

/// The maximum number of parts of a terminal, with repetitions written out.
const MAX_PARTS: usize = 100_000;

/// Replaces the contents of all terminals in rules by single regular expressions or automata. `terminals` are the rules
/// of terminals, each after those that it mentions.
pub(super) fn resolve(rules: &mut Rules, terminals: &[RuleId], budget: &Budget) -> Result<()> {
    let mut resolving = Resolving { known: HashMap::with_capacity(terminals.len()), empty: HashSet::new(), budget };
    for &id in terminals {
        let body = rules.bodies[id as usize].replace(Expression::empty()).unwrap_or_else(Expression::empty);
        let is_lazy = resolving.is_lazy(&body);
        let part = resolving.part(body, rules.position(id))?;
        resolving.known.insert(id, (part, is_lazy));
    }
    let is_empty = |body: &Expression| matches!(body, Expression::Sequence(parts) if parts.is_empty());
    resolving.empty =
        (0..).zip(&rules.bodies).filter(|(_, body)| body.as_ref().is_some_and(is_empty)).map(|(id, _)| id).collect();
    for id in 0..rules.bodies.len() {
        if let Some(body) = rules.bodies[id].take() {
            rules.bodies[id] = Some(resolving.resolved(body)?);
        }
    }
    Ok(())
}

struct Resolving<'b> {
    /// The terminals that are known, and whether each ends as soon as it can.
    known: HashMap<RuleId, (Expression, bool)>,
    /// The rules of the empty text alone.
    empty: HashSet<RuleId>,
    budget: &'b Budget,
}

impl Resolving<'_> {
    /// A part of a rule with resolved terminals.
    fn resolved(&self, expression: Expression) -> Result<Expression> {
        take(self.budget, 1)?;
        let all = |parts: Vec<Expression>| parts.into_iter().map(|part| self.resolved(part)).collect::<Result<_>>();
        Ok(match expression {
            Expression::Sequence(mut parts) => {
                // Such as ignored texts, if there are none.
                parts.retain(|part| !matches!(part, Expression::Rule(rule) if self.empty.contains(rule)));
                Expression::sequence(all(parts)?)
            }
            Expression::Choice(ways) => Expression::Choice(all(ways)?),
            Expression::Repeat { part, least, most } => self.resolved(*part)?.repeated(least, most),
            Expression::Lexeme { body, at, .. } => {
                let is_lazy = self.is_lazy(&body);
                match self.part(*body, at)? {
                    // The texts of other grammars are divided by themselves.
                    grammar @ Expression::Grammar(_) => grammar,
                    body => Expression::Lexeme { body: Box::new(body), is_lazy, at },
                }
            }
            other => other,
        })
    }

    fn is_lazy(&self, expression: &Expression) -> bool {
        match expression {
            Expression::Rule(rule) => self.known.get(rule).is_some_and(|(_, is_lazy)| *is_lazy),
            Expression::Of { operation, .. } => matches!(operation, Operation::Lazy),
            _ => false,
        }
    }

    /// A part of a terminal as one regular expression, automaton or grammar, or as the empty choice.
    fn part(&self, expression: Expression, at: Position) -> Result<Expression> {
        take(self.budget, 1)?;
        let all =
            |parts: Vec<Expression>| parts.into_iter().map(|part| self.part(part, at)).collect::<Result<Vec<_>>>();
        let joined = match expression {
            Expression::Rule(rule) => match self.known.get(&rule) {
                Some((known, _)) => return Ok(known.clone()),
                None => return at.wrong("a rule is in a terminal", "write its name in capitals"),
            },
            Expression::Of { operation, operands, at } => {
                let operands = all(operands)?;
                return operation.apply(&operands, at, self.budget);
            }
            Expression::Sequence(parts) => match regulars(all(parts)?) {
                Ok(parts) if Regular::fit_together(&parts) => {
                    return Ok(Expression::Regular(Regular::sequence(parts)));
                }
                Ok(parts) => Expression::Sequence(parts.into_iter().map(Expression::Regular).collect()),
                Err(parts) => Expression::Sequence(parts),
            },
            Expression::Choice(ways) => match regulars(all(ways)?) {
                Ok(ways) if ways.is_empty() => return Ok(Expression::Choice(Vec::new())),
                Ok(ways) if Regular::fit_together(&ways) => return Ok(Expression::Regular(Regular::choice(ways))),
                Ok(ways) => Expression::Choice(ways.into_iter().map(Expression::Regular).collect()),
                Err(ways) => Expression::Choice(ways),
            },
            Expression::Repeat { part, least, most } => match self.part(*part, at)? {
                Expression::Regular(regular) => {
                    let repeated = regular.clone().repeated(least, most);
                    if repeated.fits() {
                        return Ok(Expression::Regular(repeated));
                    }
                    Expression::Regular(regular).repeated(least, most)
                }
                part => part.repeated(least, most),
            },
            other => return Ok(other),
        };
        match composed(&joined, self.budget) {
            Ok(automaton) => Ok(Expression::Automaton(Arc::new(automaton))),
            Err(Composition::Fault(fault)) => Err(fault),
            Err(Composition::No(NoAutomaton::Empty)) => Ok(Expression::Choice(Vec::new())),
            Err(Composition::No(NoAutomaton::TooLarge)) => too_large(at, self.budget),
        }
    }
}

/// The error that a terminal has too many states.
pub(super) fn too_large<T>(at: Position, budget: &Budget) -> Result<T> {
    match budget.is_cancelled() {
        true => Err(BadGrammar::Cancelled),
        false => {
            at.wrong("a terminal has too many states", "repeat less in it, or make it a rule of shorter terminals")
        }
    }
}

/// The parts as regular expressions, if all are.
fn regulars(parts: Vec<Expression>) -> Result<Vec<Regular>, Vec<Expression>> {
    if !parts.iter().all(|part| matches!(part, Expression::Regular(_))) {
        return Err(parts);
    }
    let regular = |part| match part {
        Expression::Regular(regular) => Some(regular),
        _ => None,
    };
    Ok(parts.into_iter().filter_map(regular).collect())
}

enum Composition {
    Fault(BadGrammar),
    No(NoAutomaton),
}

impl From<BadGrammar> for Composition {
    fn from(fault: BadGrammar) -> Self {
        Self::Fault(fault)
    }
}

/// A position in a terminal that consists of automata.
enum Part {
    End,
    Run { automaton: Arc<Automaton>, next: usize },
    Fork(Vec<usize>),
}

/// The states that a text may be in: a part and the state of its automaton, in order. The first part is the end.
type States = SmallVec<[(u32, u32); 4]>;

/// The automaton of automata that are joined (the subset construction, Rabin and Scott 1959).
fn composed(expression: &Expression, budget: &Budget) -> Result<Automaton, Composition> {
    let mut parts = vec![Part::End];
    let first = lower(expression, 0, &mut parts, budget)?;
    let enter = |at: usize, found: &mut States| {
        let (mut open, mut seen) = (vec![at], SmallVec::<[usize; 8]>::new());
        while let Some(at) = open.pop() {
            if seen.contains(&at) {
                continue;
            }
            seen.push(at);
            match &parts[at] {
                Part::End => found.push((0, 0)),
                Part::Fork(ways) => open.extend(ways),
                Part::Run { automaton, next } => {
                    found.push((at as u32, Automaton::START));
                    if automaton.accepts(Automaton::START) {
                        open.push(*next);
                    }
                }
            }
        }
    };
    let settled = |mut states: States| {
        states.sort_unstable();
        states.dedup();
        states
    };
    let mut start = States::new();
    enter(first, &mut start);
    let mut distinct: Vec<&Arc<Automaton>> = Vec::new();
    for part in &parts {
        if let Part::Run { automaton, .. } = part
            && !distinct.iter().any(|known| Arc::ptr_eq(known, automaton))
        {
            distinct.push(automaton);
        }
    }
    let next = |states: &States, byte| {
        let mut after = States::new();
        for &(at, state) in states {
            if let Part::Run { automaton, next } = &parts[at as usize]
                && let Some(state) = automaton.next(state, byte)
            {
                after.push((at, state));
                if automaton.accepts(state) {
                    enter(*next, &mut after);
                }
            }
        }
        (!after.is_empty()).then(|| settled(after))
    };
    Automaton::explore_within(
        budget,
        settled(start),
        |byte| distinct.iter().map(|automaton| automaton.class(byte)).collect::<Vec<u8>>(),
        next,
        |states| states.first() == Some(&(0, 0)),
    )
    .map_err(Composition::No)
}

/// Adds the parts of an expression before `next`.
fn lower(expression: &Expression, next: usize, parts: &mut Vec<Part>, budget: &Budget) -> Result<usize, Composition> {
    if parts.len() > MAX_PARTS {
        return Err(Composition::No(NoAutomaton::TooLarge));
    }
    let add = |part: Part, parts: &mut Vec<Part>| {
        parts.push(part);
        parts.len() - 1
    };
    Ok(match expression {
        Expression::Sequence(all) => all.iter().rev().try_fold(next, |next, part| lower(part, next, parts, budget))?,
        Expression::Choice(ways) => {
            let ways = ways.iter().map(|way| lower(way, next, parts, budget)).collect::<Result<_, _>>()?;
            add(Part::Fork(ways), parts)
        }
        Expression::Repeat { part, least, most } => {
            // Each copy has the same automaton.
            let part = match automaton(part, budget)? {
                Some(Some(automaton)) => Expression::Automaton(automaton),
                Some(None) => Expression::Choice(Vec::new()),
                None => (**part).clone(),
            };
            let mut first = match most {
                None => {
                    let again = add(Part::Fork(Vec::new()), parts);
                    let once_more = lower(&part, again, parts, budget)?;
                    parts[again] = Part::Fork(vec![next, once_more]);
                    again
                }
                Some(most) => (*least..*most).try_fold(next, |after, _| {
                    let once_more = lower(&part, after, parts, budget)?;
                    Ok::<_, Composition>(add(Part::Fork(vec![next, once_more]), parts))
                })?,
            };
            for _ in 0..*least {
                first = lower(&part, first, parts, budget)?;
            }
            first
        }
        other => match automaton(other, budget)? {
            Some(Some(automaton)) => add(Part::Run { automaton, next }, parts),
            _ => add(Part::Fork(Vec::new()), parts),
        },
    })
}
