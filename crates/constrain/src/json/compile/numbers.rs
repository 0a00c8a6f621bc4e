//! The terminals of numbers.

use super::Compiler;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::json::fault::{Result, bad};
use crate::json::flat::Numbers;
use crate::json::number::{Bound, Decimal, MAX_STEP, far, in_more_forms, integer, multiples, number, one_form};
use crate::json::style::NumberForms;
use crate::terminal::Terminal;

impl Compiler<'_> {
    pub(super) fn number(&mut self, numbers: &Numbers, path: &str) -> Result<Option<u32>> {
        if let Some(among) = &numbers.among {
            self.schemas.budget.take(among.len() as u64);
            let fits = among.iter().filter(|value| numbers.admits(value));
            let texts: Vec<String> = fits.map(Decimal::text).collect();
            return match (&texts[..], self.forms(numbers)) {
                ([], _) => Ok(None),
                (_, NumberForms::Plain) => self.literals(texts, path).map(Some),
                (_, NumberForms::Full) => {
                    let values = Automaton::literals(&texts).ok().and_then(|values| in_more_forms(&values, false).ok());
                    let Some(values) = values else { return bad(path, "the list of values is too long") };
                    Ok(Some(self.grammar.terminal(Terminal::Table(Box::new(values)))))
                }
            };
        }
        if let Some(&terminal) = self.numbers.get(numbers) {
            return Ok(terminal);
        }
        let mut automaton = number_automaton(&self.schemas.budget, numbers);
        if let (Ok(plain), NumberForms::Full) = (&automaton, self.forms(numbers)) {
            automaton = in_more_forms(plain, numbers.is_free());
        }
        let terminal = match automaton {
            Ok(automaton) => Some(self.grammar.terminal(Terminal::Table(Box::new(automaton)))),
            Err(NoAutomaton::Empty) => {
                self.narrower.get_or_insert_with(|| format!("no number of up to 15 digits obeys {path}"));
                None
            }
            Err(NoAutomaton::TooLarge) => {
                let several = "the steps of \"multipleOf\" are too large together";
                let one = format!(
                    "\"multipleOf\" is too large: without its point and the zeros at its end it may be at most \
                     {MAX_STEP}, or less where those zeros are more than two"
                );
                return self.large(path, if numbers.multiples.len() > 1 { several } else { &one });
            }
        };
        self.numbers.insert(numbers.clone(), terminal);
        Ok(terminal)
    }

    fn forms(&self, numbers: &Numbers) -> NumberForms {
        if numbers.one_form { NumberForms::Plain } else { self.style.numbers }
    }
}

/// All numbers that obey some demands, without a list of values.
fn number_automaton(budget: &Budget, numbers: &Numbers) -> Result<Automaton, NoAutomaton> {
    let (low, high) = (numbers.low.as_ref(), numbers.high.as_ref());
    let whole = numbers.whole == Some(true);
    let near = if whole { integer(low, high) } else { number(low, high) };
    match near.and_then(|near| those_of(budget, near, numbers)) {
        Err(NoAutomaton::Empty) => those_of(budget, far(low, high, whole)?, numbers),
        near => near,
    }
}

/// The numbers in `all` that obey everything except bounds.
fn those_of(budget: &Budget, all: Automaton, numbers: &Numbers) -> Result<Automaton, NoAutomaton> {
    let mut others = Vec::new();
    for (of, wanted) in &numbers.multiples {
        others.push((multiples(budget, of)?, *wanted));
    }
    if numbers.one_form {
        others.push((one_form(), true));
    }
    if numbers.whole == Some(false) {
        others.push((multiples(budget, &Decimal::parse("1"))?, false));
    }
    for value in &numbers.except {
        let bound = Bound { value: value.clone(), inclusive: true };
        match number(Some(&bound), Some(&bound)) {
            Ok(automaton) => others.push((automaton, false)),
            Err(NoAutomaton::Empty) => {}
            Err(fault) => return Err(fault),
        }
    }
    if others.is_empty() {
        return Ok(all);
    }
    let parts: Vec<(&Automaton, bool)> =
        std::iter::once((&all, true)).chain(others.iter().map(|(part, wanted)| (part, *wanted))).collect();
    Automaton::all_of(budget, &parts)
}
