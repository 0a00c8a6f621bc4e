//! Operations on the texts of terminals: intersection, complement, and shortest matches.

use std::sync::Arc;

use super::expression::{Expression, Operation};
use super::fault::{BadGrammar, Position, Result, over, take};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::automata::dfa::Dfa;

/// The maximum size, in bytes, of the automaton of one operand.
pub(super) const MAX_BYTES: usize = 4 << 20;

impl Operation {
    /// The texts of operands, which must be single terminals.
    pub(super) fn apply(&self, operands: &[Expression], at: Position, budget: &Budget) -> Result<Expression> {
        let mut automata = Vec::with_capacity(operands.len());
        for operand in operands {
            let Some(automaton) = automaton(operand, budget)? else {
                let cure = "use & and ~ on texts and expressions";
                return at.unsupported("an operation on several terminals", cure);
            };
            automata.push(automaton);
        }
        let result = match (self, &automata[..]) {
            (Self::And, automata) => {
                let parts: Option<Vec<&Arc<Automaton>>> = automata.iter().map(Option::as_ref).collect();
                match parts {
                    None => Err(NoAutomaton::Empty),
                    Some(parts) => {
                        Automaton::all_of(budget, &parts.iter().map(|part| (&***part, true)).collect::<Vec<_>>())
                    }
                }
            }
            (Self::Not, [Some(automaton)]) => Automaton::all_of(budget, &[(&**automaton, false)]),
            (Self::Not, _) => Ok(Automaton::utf8()),
            (Self::Lazy, [Some(automaton)]) => lazy(automaton, budget),
            _ => Err(NoAutomaton::Empty),
        };
        match result {
            Ok(automaton) => Ok(Expression::Automaton(Arc::new(automaton))),
            Err(NoAutomaton::Empty) => Ok(Expression::Choice(Vec::new())),
            Err(NoAutomaton::TooLarge) => Err(over(budget)),
        }
    }
}

/// The automaton of an operand: the inner `None` if it has no text, the outer one if it is not one terminal.
#[expect(clippy::option_option, reason = "the two differ: no terminal, and no text")]
pub(super) fn automaton(operand: &Expression, budget: &Budget) -> Result<Option<Option<Arc<Automaton>>>> {
    match operand {
        Expression::Automaton(automaton) => Ok(Some(Some(automaton.clone()))),
        Expression::Choice(ways) if ways.is_empty() => Ok(Some(None)),
        Expression::Regular(regular) => {
            take(budget, regular.size())?;
            let dfa = Dfa::within(regular.hir(), None, MAX_BYTES).map_err(|_| BadGrammar::TooLarge)?;
            match dfa.automaton() {
                Ok(automaton) => Ok(Some(Some(Arc::new(automaton)))),
                Err(NoAutomaton::Empty) => Ok(Some(None)),
                Err(NoAutomaton::TooLarge) => Err(BadGrammar::TooLarge),
            }
        }
        _ => Ok(None),
    }
}

/// The shortest texts: nothing continues after one.
fn lazy(automaton: &Automaton, budget: &Budget) -> Result<Automaton, NoAutomaton> {
    let next = |&state: &u32, byte| if automaton.accepts(state) { None } else { automaton.next(state, byte) };
    Automaton::explore_within(
        budget,
        Automaton::START,
        |byte| automaton.class(byte),
        next,
        |&state| automaton.accepts(state),
    )
}
