//! Steps inside objects.

use super::Unfolding;
use crate::grammar::object::{ObjectShape, OtherNames, has};
use crate::grammar::state::{ObjectState, Phase, State};
use crate::grammar::step::{NO_END, RETURN, Rule, Step, StepIndex, sum};
use crate::terminal::Terminal;
use crate::terminal::fresh::Fresh;
use crate::terminal::names::{Named, Names};
use crate::terminal::quoted::Quoted;

impl Unfolding {
    /// The step of a position in an object; `number` is the index of its state.
    pub(super) fn in_object(&mut self, inside: ObjectState, phase: Phase, number: u32) -> Step {
        if phase == Phase::Name {
            return self.names(inside, number);
        }
        let names = self.at_state(State::Object { state: inside, phase: Phase::Name });
        self.open(names);
        let goes_on = !matches!(self.step(names), Step::Fork(ways) if ways.is_empty());
        let shape = self.grammar.shapes.of_object(inside).clone();
        let punctuation = shape.punctuation;
        let (passed, present) = self.written.properties(inside);
        let is_whole = shape.missing(passed, present).is_empty();
        let closes = is_whole && inside.certain >= shape.least && inside.met == shape.some;
        let mut ways = Vec::new();
        if closes {
            let close = punctuation.close_object[usize::from(phase != Phase::First)];
            ways.push(self.make(Step::Read { terminal: close, next: RETURN }));
        }
        if goes_on {
            let comma = Step::Read { terminal: punctuation.comma, next: names };
            ways.push(if phase == Phase::First { names } else { self.make(comma) });
        }
        Step::Fork(ways)
    }

    fn names(&mut self, at: ObjectState, number: u32) -> Step {
        let (known, others) = self.names_to_end(at);
        let ObjectShape { table, escapes, .. } = &**self.grammar.shapes.of_object(at);
        let (table, escapes) = (table.clone(), *escapes);
        let mut terminals: Vec<Terminal> = Vec::new();
        if let Some(content) = Names::new(table, |number| known[number as usize], others) {
            terminals.push(Terminal::Names(Quoted::new(content, escapes)));
        }
        terminals.extend(self.counted_names(at).into_iter().map(|names| Terminal::Fresh(Box::new(names))));
        let mut steps: Vec<Step> = Vec::new();
        for terminal in terminals {
            steps.push(Step::Name { terminal: self.add_terminal(terminal), state: number });
        }
        match <[Step; 1]>::try_from(steps) {
            Ok([step]) => step,
            Err(steps) => Step::Fork(steps.into_iter().map(|step| self.make(step)).collect()),
        }
    }

    /// The fewest bytes from after a name to the end of its object.
    fn name_to_end(&self, at: ObjectState, named: Named) -> u64 {
        let shape = self.grammar.shapes.of_object(at);
        let (passed, present, next) = self.written.advanced(&self.grammar.shapes, at, named);
        let way = |(meets, value): (u32, Rule)| {
            let next = ObjectState { met: next.met | meets, ..next };
            let seen = self.written.seen(next.seen);
            let rest = shape
                .rest((&passed, &present), next, seen, &self.grammar.shapes.rule())
                .map_or(NO_END, |(bytes, _)| bytes);
            sum([shape.punctuation.width + 1, self.grammar.shapes.rule()(value), rest])
        };
        shape.value(named).ways().map(way).min().unwrap_or(NO_END)
    }

    /// The fewest bytes from after each name to the end of the object, first for the names of the schema, then for each
    /// kind of other name; [`NO_END`] for a name that may not come.
    fn names_to_end(&self, at: ObjectState) -> (Vec<u64>, Vec<u64>) {
        let shape = self.grammar.shapes.of_object(at);
        let (passed, present) = self.written.properties(at);
        let missing = shape.missing(passed, present);
        // In schema order, a required property must not be skipped.
        let first_missing = if shape.any_order { None } else { missing.iter().copied().min() };
        let is_full = shape.most.is_some_and(|most| at.count >= most);
        let may_come =
            |number: u32| !is_full && !has(passed, number) && first_missing.is_none_or(|first| number <= first);
        // If nothing depends on which properties are present, one name changes one summand.
        let is_plain = !shape.follows_presence() && shape.least == 0 && shape.some == at.met;
        let rule = self.grammar.shapes.rule();
        let seen = self.written.seen(at.seen);
        let all = shape.rest((passed, present), at, seen, &rule).map_or(NO_END, |(bytes, _)| bytes);
        let fits = |wanted: usize| shape.most.is_none_or(|most| at.count as usize + 1 + wanted <= most as usize);
        let after = |number: u32| {
            if !may_come(number) {
                return NO_END;
            }
            if !is_plain {
                return self.name_to_end(at, Named::Known(number));
            }
            let is_missing = missing.binary_search(&number).is_ok();
            let value = rule(shape.properties[number as usize].value.rule);
            if all == NO_END || value == NO_END || !fits(missing.len() - usize::from(is_missing)) {
                return NO_END;
            }
            let this = if is_missing { shape.bytes(number, &rule) + shape.punctuation.width } else { 0 };
            sum([shape.punctuation.width + 1, value, all - this])
        };
        let known = (0..shape.properties.len() as u32).map(after).collect();
        let others: Vec<u64> = match first_missing.is_none() && !is_full && !shape.counts_others(at) {
            true => (0..shape.others.len() as u32).map(|kind| self.name_to_end(at, Named::Other(kind))).collect(),
            false => Vec::new(),
        };
        // Either all of them may come or none; kinds without a value were removed from the names.
        let others = if others.iter().all(|&after| after == NO_END) { Vec::new() } else { others };
        (known, others)
    }

    /// The counted names that may come in an object, by kind.
    fn counted_names(&self, at: ObjectState) -> Vec<Fresh<Terminal>> {
        let shape = self.grammar.shapes.of_object(at);
        let sets = self.written.properties(at);
        let is_last = !shape.any_order && !shape.missing(sets.0, sets.1).is_empty();
        if !shape.counts_others(at) || is_last || shape.most.is_some_and(|most| at.count >= most) {
            return Vec::new();
        }
        let seen = self.written.seen(at.seen);
        let fresh = |(kind, other): (u32, &OtherNames)| {
            let (terminal, _) = other.counted.clone()?;
            let ends = shape.after_counted(kind, sets, (at, seen), &self.grammar.shapes.rule())?;
            Fresh::new((kind, terminal), seen.clone(), at.pending, ends, self.made.clone())
        };
        (0..).zip(&shape.others).filter_map(fresh).collect()
    }

    /// The step after a property's name.
    pub(super) fn after_name(&mut self, state: u32, named: Named) -> StepIndex {
        let State::Object { state: at, .. } = self.states[state as usize] else {
            unreachable!("names occur in objects")
        };
        let next = self.written.after_property(&self.grammar.shapes, at, named);
        self.after_name_in(next, named)
    }

    /// The step after a property's name; `next` is the state of the object after the value.
    pub(super) fn after_name_in(&mut self, next: ObjectState, named: Named) -> StepIndex {
        let shape = self.grammar.shapes.of_object(next).clone();
        let mut ways = Vec::new();
        for (meets, rule) in shape.value(named).ways() {
            let is_new = meets == 0 || meets & !next.met != 0;
            let later = State::Object { state: ObjectState { met: next.met | meets, ..next }, phase: Phase::Later };
            if is_new
                && self.grammar.shapes.rule()(rule) != NO_END
                && let Some(next) = self.at_state_with_end(later)
            {
                ways.push(self.make_once(Step::Call { rule, next }));
            }
        }
        let call = if let [call] = ways[..] { call } else { self.make(Step::Fork(ways)) };
        self.make_once(Step::Read { terminal: shape.punctuation.colon, next: call })
    }
}
