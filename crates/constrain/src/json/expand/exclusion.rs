//! Demands that exclude each other.

use super::Schemas;
use super::demands::{NOTHING, item};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::json::fault::Result;
use crate::json::flat::{Flat, Key, Types};

impl Schemas<'_> {
    /// Whether it is certain that no value obeys some demands together.
    pub(super) fn excludes(&mut self, key: &Key, depth: u32) -> Result<bool> {
        match self.excluded.get(key) {
            Some(&(excludes, so_deep)) if excludes || so_deep >= depth => return Ok(excludes),
            _ => {}
        }
        let unknown = self.unknown;
        let before = std::mem::replace(&mut self.depth, depth);
        let excludes = self.excludes_at_depth(key);
        self.depth = before;
        let excludes = excludes?;
        if excludes || self.unknown == unknown {
            self.budget.take(4 + key.len() as u64);
            self.excluded.insert(key.clone(), (excludes, depth));
        }
        Ok(excludes)
    }

    fn excludes_at_depth(&mut self, key: &Key) -> Result<bool> {
        // Branches are compared in pairs, which are too many to cache.
        let ways = match self.ways_once(key) {
            // The value of a property may be the schema whose branches are being compared, or be unsupported.
            Err(_) if !self.budget.is_spent() => {
                self.unknown += 1;
                return Ok(false);
            }
            ways => ways?,
        };
        if ways.is_empty() || self.depth == 0 {
            return Ok(ways.is_empty());
        }
        if !self.comparing.insert(key.clone()) {
            self.unknown += 1;
            return Ok(false);
        }
        let mut all = Ok(true);
        for flat in &ways {
            all = self.is_empty(flat);
            if all != Ok(true) {
                break;
            }
        }
        self.comparing.remove(key);
        all
    }

    /// Whether it is certain that no value obeys a demand.
    pub(crate) fn is_empty(&mut self, flat: &Flat) -> Result<bool> {
        let Some(depth) = self.depth.checked_sub(1) else { return Ok(false) };
        if flat.types.without(Types::OBJECT.or(Types::STRING).or(Types::ARRAY)) != Types::NONE {
            return Ok(false);
        }
        if flat.types.has(Types::STRING) && !self.string_is_empty(flat) {
            return Ok(false);
        }
        if flat.types.has(Types::ARRAY) && !self.array_is_empty(flat, depth)? {
            return Ok(false);
        }
        if !flat.types.has(Types::OBJECT) {
            return Ok(true);
        }
        for name in &flat.objects.required {
            let key = self.property(&flat.objects, name);
            if key.contains(&NOTHING) || self.excludes(&key, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a text is accepted by all automata that must accept it, and by none that must not.
    pub(crate) fn contents_accept(&self, contents: &[(u32, bool)], text: &str) -> bool {
        contents.iter().all(|&(content, wanted)| self.contents[content as usize].matches(text.as_bytes()) == wanted)
    }

    fn string_is_empty(&self, flat: &Flat) -> bool {
        let strings = &flat.strings;
        match &strings.among {
            Some(among) => !among.iter().any(|text| self.contents_accept(&strings.contents, text)),
            None => {
                let parts: Vec<(&Automaton, bool)> = strings
                    .contents
                    .iter()
                    .map(|&(content, wanted)| (&*self.contents[content as usize], wanted))
                    .collect();
                parts.len() > 1
                    && Automaton::all_of(&self.budget, &parts).is_err_and(|fault| fault == NoAutomaton::Empty)
            }
        }
    }

    fn array_is_empty(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
        let arrays = flat.arrays.clone();
        for at in 0..arrays.least.min(16) as usize {
            let key = item(&arrays.items, at);
            if key.contains(&NOTHING) || self.excludes(&key, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
