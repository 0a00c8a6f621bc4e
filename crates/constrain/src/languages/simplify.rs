//! Joins the regular parts of a grammar, across rules that are regular themselves.

use super::expression::{Expression, Rules};
use super::fault::{Result, take};
use super::regular::Regular;
use crate::automata::budget::Budget;

/// The maximum total size of the regular parts that are written out where their rules are used.
const MAX_INLINED: u64 = 1_000_000;

/// Replaces rules that are regular by their texts where they are used, and joins adjacent regular parts. Each is read
/// by one automaton then, which is faster than rules.
pub(super) fn simplify(rules: &mut Rules, budget: &Budget) -> Result<()> {
    let count = rules.bodies.len();
    // The number of mentions of rules in each that are not known to be regular, and where each rule is mentioned.
    let (mut open, mut users) = (vec![0usize; count], vec![Vec::new(); count]);
    for (id, body) in rules.bodies.iter().flatten().enumerate() {
        mentions(body, &mut |rule| {
            open[id] += 1;
            users[rule as usize].push(id);
        });
    }
    let mut simplifying = Simplifying { known: vec![None; count], inlined: 0, budget };
    let mut ready: Vec<usize> = (0..count).filter(|&id| open[id] == 0).collect();
    while let Some(id) = ready.pop() {
        let body = rules.bodies[id].take().unwrap_or_else(Expression::empty);
        let body = simplifying.simplified(body)?;
        // A rule without a text is an empty choice. Terminals that are ignored are repeated.
        let is_one = match &body {
            Expression::Regular(_) | Expression::Automaton(_) | Expression::Lexeme { .. } => true,
            Expression::Repeat { part, least: 0, most: None } => matches!(**part, Expression::Lexeme { .. }),
            Expression::Choice(ways) => ways.is_empty(),
            _ => false,
        };
        if is_one {
            simplifying.known[id] = Some(body.clone());
            for &user in &users[id] {
                open[user] -= 1;
                if open[user] == 0 {
                    ready.push(user);
                }
            }
        }
        rules.bodies[id] = Some(body);
    }
    for id in (0..count).filter(|&id| open[id] > 0) {
        let body = rules.bodies[id].take().unwrap_or_else(Expression::empty);
        rules.bodies[id] = Some(simplifying.simplified(body)?);
    }
    Ok(())
}

/// Calls `found` with every rule that an expression mentions.
fn mentions(expression: &Expression, found: &mut impl FnMut(u32)) {
    match expression {
        Expression::Rule(rule) => found(*rule),
        Expression::Sequence(parts) | Expression::Choice(parts) => parts.iter().for_each(|part| mentions(part, found)),
        Expression::Repeat { part, .. } => mentions(part, found),
        Expression::Of { operands, .. } => operands.iter().for_each(|operand| mentions(operand, found)),
        Expression::Regular(_) | Expression::Automaton(_) | Expression::Grammar(_) | Expression::Lexeme { .. } => {}
    }
}

struct Simplifying<'b> {
    /// The rules that are known to be one terminal.
    known: Vec<Option<Expression>>,
    inlined: u64,
    budget: &'b Budget,
}

impl Simplifying<'_> {
    fn simplified(&mut self, expression: Expression) -> Result<Expression> {
        take(self.budget, 1)?;
        Ok(match expression {
            Expression::Rule(rule) => match &self.known[rule as usize] {
                Some(Expression::Regular(regular)) => {
                    if !regular.fits() || self.inlined + regular.size() > MAX_INLINED {
                        return Ok(Expression::Rule(rule));
                    }
                    self.inlined += regular.size();
                    Expression::Regular(regular.clone())
                }
                Some(known) => known.clone(),
                None => Expression::Rule(rule),
            },
            Expression::Of { operation, operands, at } => {
                let operands = self.all(operands)?;
                operation.apply(&operands, at, self.budget)?
            }
            Expression::Sequence(parts) => {
                let parts = self.all(parts)?;
                Expression::sequence(joined(parts, Regular::sequence))
            }
            Expression::Choice(ways) => {
                // The order of alternatives does not matter.
                let (mut ways, others): (Vec<_>, Vec<_>) =
                    self.all(ways)?.into_iter().partition(|way| matches!(way, Expression::Regular(_)));
                ways = joined(ways, Regular::choice);
                ways.extend(others);
                Expression::choice(ways)
            }
            Expression::Repeat { part, least, most } => match self.simplified(*part)? {
                Expression::Regular(regular) => {
                    let repeated = regular.clone().repeated(least, most);
                    match repeated.fits() {
                        true => Expression::Regular(repeated),
                        false => Expression::Regular(regular).repeated(least, most),
                    }
                }
                part => part.repeated(least, most),
            },
            other => other,
        })
    }

    fn all(&mut self, parts: Vec<Expression>) -> Result<Vec<Expression>> {
        parts.into_iter().map(|part| self.simplified(part)).collect()
    }
}

/// Joins runs of regular parts.
fn joined(parts: Vec<Expression>, join: impl Fn(Vec<Regular>) -> Regular) -> Vec<Expression> {
    let (mut done, mut run) = (Vec::new(), Vec::new());
    // Without parts, it is the empty text or no text.
    let is_none = parts.is_empty();
    let close = |run: &mut Vec<Regular>, done: &mut Vec<Expression>| match run.len() {
        0 => {}
        1 => done.extend(run.pop().map(Expression::Regular)),
        _ => done.push(Expression::Regular(join(std::mem::take(run)))),
    };
    for part in parts {
        match part {
            Expression::Regular(regular) => {
                run.push(regular);
                if !Regular::fit_together(&run) {
                    let last = run.pop();
                    close(&mut run, &mut done);
                    run.extend(last);
                }
            }
            other => {
                close(&mut run, &mut done);
                done.push(other);
            }
        }
    }
    close(&mut run, &mut done);
    if is_none {
        done.push(Expression::Regular(join(Vec::new())));
    }
    done
}
