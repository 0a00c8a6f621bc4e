//! The names of properties that a schema does not list.

use std::rc::Rc;
use std::sync::Arc;

use super::Compiler;
use super::objects::Demanded;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::json::expand::{NOTHING, normal};
use crate::json::fault::Result;
use crate::json::flat::{Key, Objects, Strings};
use crate::terminal::characters::Characters;

/// The names that a schema does not list, if any are allowed; and for each of their kinds, the demands on the values,
/// and the demands on some property that they may meet.
pub(super) type Others = (Option<Arc<Characters>>, Vec<(Key, u32)>);

impl Compiler<'_> {
    /// The names that the schema does not list, grouped by the demands on their values and the demands on some property
    /// that they may meet.
    pub(super) fn other_names(
        &mut self,
        objects: &Objects,
        some: &[Demanded],
        allowed: Option<&[Strings]>,
        path: &str,
    ) -> Result<Others> {
        let given =
            objects.properties.iter().flat_map(|properties| properties.patterns.iter().map(|(pattern, _)| *pattern));
        let mut patterns: Vec<u32> = given.chain(some.iter().flat_map(|some| some.patterns.iter().copied())).collect();
        patterns.sort_unstable();
        patterns.dedup();
        let mut filters = Vec::new();
        for strings in allowed.unwrap_or_default() {
            filters.extend(self.content_of(strings, path)?);
        }
        if allowed.is_some() && filters.is_empty() {
            return Ok((None, Vec::new()));
        }
        // The demands on a name that matches the given patterns.
        let demands = |matched: &[bool]| {
            let mut key = Key::new();
            for properties in &objects.properties {
                let mut evaluated = false;
                for (pattern, demands) in &properties.patterns {
                    let number = patterns.binary_search(pattern).expect("all patterns are listed");
                    if matched[number] {
                        key.extend(demands);
                        evaluated = true;
                    }
                }
                if !evaluated {
                    key.extend(&properties.others);
                }
            }
            let matches = |pattern: &u32| matched[patterns.binary_search(pattern).expect("all patterns are listed")];
            let meets = |some: &Demanded| some.patterns.iter().any(matches) == some.with;
            (normal(key), (0..).zip(some).filter(|(_, some)| meets(some)).map(|(i, _)| 1 << i).sum())
        };
        if patterns.is_empty() {
            let key = demands(&[]);
            if key.0 == [NOTHING] {
                return Ok((None, Vec::new()));
            }
            let characters = match &filters[..] {
                [] => self.characters(&Strings::default(), path)?,
                filters => {
                    let parts: Vec<&Automaton> = filters.iter().collect();
                    match Automaton::any_of(&self.schemas.budget, &parts) {
                        Ok(automaton) => Some(Arc::new(Characters::new(automaton))),
                        Err(NoAutomaton::Empty) => None,
                        Err(NoAutomaton::TooLarge) => {
                            return self.large(path, "\"propertyNames\" is too large for an automaton");
                        }
                    }
                }
            };
            return Ok((characters, vec![key]));
        }
        let mut kinds: Vec<(Key, u32)> = Vec::new();
        let numbers = std::cell::RefCell::new(&mut kinds);
        let parts: Vec<Rc<Automaton>> =
            patterns.iter().map(|&pattern| self.schemas.contents[pattern as usize].clone()).collect();
        let utf8 = Automaton::utf8();
        let step =
            |automaton: &Automaton, state: Option<u32>, byte| state.and_then(|state| automaton.next(state, byte));
        let automaton = Automaton::explore_kinds(
            (&*self.schemas.budget, 2 + (parts.len() + filters.len()) as u64 / 4),
            (vec![Some(Automaton::START); parts.len()], vec![Some(Automaton::START); filters.len()], Automaton::START),
            |byte| {
                let classes =
                    parts.iter().map(|part| part.class(byte)).chain(filters.iter().map(|part| part.class(byte)));
                (classes.collect::<Vec<u8>>(), utf8.class(byte))
            },
            |(states, filtered, valid), byte| {
                let valid = utf8.next(*valid, byte)?;
                let states = parts.iter().zip(states).map(|(part, state)| step(part, *state, byte)).collect();
                let filtered: Vec<Option<u32>> =
                    filters.iter().zip(filtered).map(|(part, state)| step(part, *state, byte)).collect();
                let lives = filters.is_empty() || filtered.iter().any(Option::is_some);
                lives.then_some((states, filtered, valid))
            },
            |(states, filtered, valid)| {
                let accepts = |part: &Automaton, state: &Option<u32>| state.is_some_and(|state| part.accepts(state));
                let passes =
                    filters.is_empty() || filters.iter().zip(filtered).any(|(part, state)| accepts(part, state));
                if !utf8.accepts(*valid) || !passes {
                    return None;
                }
                let matched: Vec<bool> = parts.iter().zip(states).map(|(part, state)| accepts(part, state)).collect();
                let key = demands(&matched);
                if key.0 == [NOTHING] {
                    return None;
                }
                let mut kinds = numbers.borrow_mut();
                let known = kinds.iter().position(|known| *known == key);
                Some(known.unwrap_or_else(|| {
                    kinds.push(key);
                    kinds.len() - 1
                }) as u32)
            },
        );
        match automaton {
            Ok(automaton) => Ok((Some(Arc::new(Characters::new(automaton))), kinds)),
            Err(NoAutomaton::Empty) => Ok((None, Vec::new())),
            Err(NoAutomaton::TooLarge) => self.large(path, "\"patternProperties\" are too large for an automaton"),
        }
    }
}
