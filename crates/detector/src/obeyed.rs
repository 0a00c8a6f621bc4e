//! The constraints that a text may obey.

use std::ops::Range;

use verdigris_constrain::{Constraint, Departure};
use verdigris_logits::TokenId;

/// The constraints that a text may obey. The first one that the text obeys counts, so a later one may allow anything
/// without hiding where an earlier one left no choice. Which one counts depends on the text only, and so p-values stay
/// exact.
#[derive(Clone)]
pub(crate) struct Obeyed(Vec<Constraint>);

impl Obeyed {
    /// Returns `None` without a constraint.
    pub(crate) fn new(constraints: Vec<Constraint>) -> Option<Self> {
        (!constraints.is_empty()).then_some(Self(constraints))
    }

    /// The constraint that a text obeys, and the number of ways in which the text could have continued before each
    /// token ([`Constraint::choices`]).
    pub(crate) fn of(&self, before: &[u8], tokens: &[TokenId]) -> Result<(&Constraint, Vec<u32>), Departure> {
        let mut farthest: Option<Departure> = None;
        for constraint in &self.0 {
            match constraint.choices(before, tokens) {
                Err(departure) if departure.explanation.over_budget.is_none() => {
                    if farthest.as_ref().is_none_or(|other| other.at < departure.at) {
                        farthest = Some(departure);
                    }
                }
                read => return Ok((constraint, read?)),
            }
        }
        Err(farthest.expect("there is a constraint"))
    }

    /// The part of a text that obeys a constraint: all of it, or all except the line end or the white space around it,
    /// which files and programs add. All of it if none of these obeys one, so that the error refers to all of the text.
    pub(crate) fn extent(&self, text: &str) -> Range<usize> {
        let from = text.len() - text.trim_start().len();
        let to = text.trim_end().len().max(from);
        let line = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
        let parts = [0..text.len(), 0..line.len(), 0..to, from..text.len(), from..to];
        let obeys = |constraint: &Constraint| {
            parts.iter().find(|part| constraint.begins(text[Range::clone(part)].as_bytes())).cloned()
        };
        self.0.iter().find_map(obeys).unwrap_or(0..text.len())
    }
}
