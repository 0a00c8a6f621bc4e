//! Steps inside arrays.

use super::Unfolding;
use crate::grammar::state::{ArrayState, Phase, State};
use crate::grammar::step::{At, NO_END, RETURN, Rule, Step};
use crate::terminal::Terminal;
use crate::terminal::fresh::{Ends, Fresh, shortest};

impl Unfolding {
    /// The step of a point in an array; `number` is that of its state.
    pub(super) fn in_array(&mut self, at: ArrayState, phase: Phase, number: u32) -> Step {
        let grammar = self.grammar.clone();
        let shape = grammar.shapes.of_array(at);
        let punctuation = shape.punctuation;
        let rule = grammar.shapes.rule();
        let mut steps = Vec::new();
        let is_enough = shape.counted.as_ref().is_none_or(|counted| counted.is_enough(at.matched));
        let closes = at.index >= shape.least && is_enough;
        let goes_on = shape.longest(&rule).is_none_or(|longest| at.index < longest);
        // Each way to write an item: by which rule, and how many are of the kinds after it.
        let mut ways: Vec<(Rule, u32)> = Vec::new();
        match (&shape.counted, &shape.unique) {
            (None, None) => ways.push((shape.item(at.index), 0)),
            (None, Some(_)) => {}
            (Some(counted), _) => ways.extend(counted.items.iter().filter_map(|item| {
                counted.matched(at.matched, item.kinds).map(|matched| (item.at(at.index), matched))
            })),
        }
        ways.retain(|&(item, _)| goes_on && rule(item) != NO_END);
        let index = (at.index + 1).min(shape.limit());
        let more = shape.least.saturating_sub(at.index + 1);
        let unique = shape.unique.clone().filter(|_| goes_on).unwrap_or_default();
        let seen = self.written.seen(at.seen).clone();
        let cheapest = if unique.is_empty() { None } else { shortest(&unique, &seen, more as usize + 1) };
        let cheapest: Option<Vec<u64>> =
            cheapest.map(|lengths| lengths.iter().map(|length| length + punctuation.width).collect());
        if closes {
            let close = punctuation.close_array[usize::from(phase != Phase::First)];
            steps.push(self.make(Step::Read { terminal: close, next: RETURN }));
        }
        for (item, matched) in ways {
            let next = State::Array { state: ArrayState { index, matched, ..at }, phase: Phase::Later };
            if let Some(next) = self.at_state_with_end(next) {
                let item = self.make(Step::Call { rule: item, next });
                steps.push(if phase == Phase::First {
                    item
                } else {
                    self.make(Step::Read { terminal: punctuation.comma, next: item })
                });
            }
        }
        for (kind, terminal) in (0..).zip(unique) {
            let Some(cheapest) = cheapest.clone() else { continue };
            let ends = Ends { cheapest, beside: punctuation.width, rest: 1 };
            if let Some(fresh) = Fresh::new((kind, terminal), seen.clone(), at.pending, ends) {
                let terminal = self.add_terminal(Terminal::Fresh(Box::new(fresh)));
                let item = self.make(Step::Name { terminal, state: number });
                steps.push(if phase == Phase::First {
                    item
                } else {
                    self.make(Step::Read { terminal: punctuation.comma, next: item })
                });
            }
        }
        Step::Fork(steps)
    }

    /// The step after an item of an array whose items are all different: what it was, if that is known.
    pub(super) fn after_item_in(&mut self, at: ArrayState, text: Option<Vec<u8>>) -> At {
        let at = match text {
            Some(text) => ArrayState { seen: self.written.with(at.seen, text), ..at },
            None => ArrayState { pending: true, ..at },
        };
        let index = (at.index + 1).min(self.grammar.shapes.of_array(at).limit());
        self.at_state(State::Array { state: ArrayState { index, ..at }, phase: Phase::Later })
    }
}
