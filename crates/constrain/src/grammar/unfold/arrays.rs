//! Steps inside arrays.

use std::sync::Arc;

use super::{MAX_LEVEL, Unfolding};
use crate::grammar::array::{ArrayShape, Unique};
use crate::grammar::state::{ArrayState, Phase, State};
use crate::grammar::step::{NO_END, RETURN, Rule, Step, StepIndex};
use crate::terminal::Terminal;
use crate::terminal::distinct::Distinct;
use crate::terminal::fresh::{Ends, Fresh, shortest};

impl Unfolding {
    /// The step of a position in an array; `number` is the index of its state.
    pub(super) fn in_array(&mut self, at: ArrayState, phase: Phase, number: u32) -> Step {
        let grammar = self.grammar.clone();
        let shape = grammar.shapes.of_array(at);
        let punctuation = shape.punctuation;
        let rule = grammar.shapes.rule();
        let mut steps = Vec::new();
        let is_enough = shape.counted.as_ref().is_none_or(|counted| counted.is_enough(at.matched));
        let closes = at.index >= shape.least && is_enough;
        let goes_on = shape.longest(&rule).is_none_or(|longest| at.index < longest);
        // The alternatives for an item: its rule, and the counts of the kinds after it.
        let mut ways: Vec<(Rule, u32)> = Vec::new();
        match (&shape.counted, &shape.unique) {
            (None, None) => ways.push((shape.item(at.index), 0)),
            (None, Some(Unique::AsValues { .. })) if self.level == MAX_LEVEL && phase == Phase::First => {
                ways.push((shape.item(at.index), 0));
            }
            (None, Some(_)) => {}
            (Some(counted), _) => ways.extend(counted.items.iter().filter_map(|item| {
                counted.matched(at.matched, item.kinds).map(|matched| (item.at(at.index), matched))
            })),
        }
        ways.retain(|&(item, _)| goes_on && rule(item) != NO_END);
        let index = (at.index + 1).min(shape.limit());
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
        let unique = if goes_on { self.unique_items(shape, at) } else { Vec::new() };
        for terminal in unique {
            let terminal = self.add_terminal(terminal);
            let item = self.make(Step::Name { terminal, state: number });
            steps.push(if phase == Phase::First {
                item
            } else {
                self.make(Step::Read { terminal: punctuation.comma, next: item })
            });
        }
        Step::Fork(steps)
    }

    /// The terminals for the next item, if all must differ.
    fn unique_items(&mut self, shape: &ArrayShape, at: ArrayState) -> Vec<Terminal> {
        let seen = self.written.seen(at.seen).clone();
        match &shape.unique {
            None => Vec::new(),
            Some(Unique::AsTexts(terminals)) => {
                let more = shape.least.saturating_sub(at.index + 1);
                let Some(lengths) = shortest(terminals, &seen, more as usize + 1) else { return Vec::new() };
                let width = shape.punctuation.width;
                let cheapest: Vec<u64> = lengths.iter().map(|length| length + width).collect();
                let fresh = |(kind, terminal): (u32, &(u32, Arc<Terminal>))| {
                    let ends = Ends { cheapest: cheapest.clone(), beside: width, rest: 1 };
                    Fresh::new((kind, terminal.clone()), seen.clone(), at.pending, ends, self.made.clone())
                };
                let fresh = (0..).zip(terminals).filter_map(fresh);
                fresh.map(|fresh| Terminal::Fresh(Box::new(fresh))).collect()
            }
            Some(Unique::AsValues { any_order }) => {
                let rule = shape.item(at.index);
                if self.grammar.shapes.rule()(rule) == NO_END || self.level == MAX_LEVEL {
                    return Vec::new();
                }
                let distinct = Distinct::new(rule, self.values(rule, *any_order), seen, at.pending, self.made.clone());
                distinct.map(|distinct| Terminal::Distinct(Box::new(distinct))).into_iter().collect()
            }
        }
    }

    /// The step after an item of an array whose items must all differ; `text` is the item, if known.
    pub(super) fn after_item_in(&mut self, at: ArrayState, text: Option<Vec<u8>>) -> StepIndex {
        let at = match text {
            Some(text) => ArrayState { seen: self.written.with(at.seen, text), ..at },
            None => ArrayState { pending: true, ..at },
        };
        let index = (at.index + 1).min(self.grammar.shapes.of_array(at).limit());
        self.at_state(State::Array { state: ArrayState { index, ..at }, phase: Phase::Later })
    }
}
