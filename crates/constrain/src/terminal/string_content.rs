//! Contents of strings: texts of an automaton with a bounded number of characters.
//!
//! Characters are counted in the state rather than by states of the automaton, so the cost does not depend on the
//! bounds.

use std::sync::{Arc, OnceLock};

use super::characters::{ANY, Characters};
use super::content::{Content, STATES, written};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::distances::{NEVER, edges};
use crate::automata::self_loop::{SelfLoop, self_loop_characters};
use crate::automata::utf8::begins_character;

/// The maximum number of cells of a table of distances by state and count.
const MAX_DISTANCES: usize = 1 << 22;

/// The maximum number of lengths in the table of an automaton whose texts have gaps between their lengths.
const MAX_LENGTHS: usize = 1 << 12;

/// Texts of an automaton with `least` to `most` characters.
#[derive(Clone, Debug)]
pub(crate) struct StringContent {
    characters: Arc<Characters>,
    least: u32,
    most: Option<u32>,
    /// The largest count that is distinguished.
    limit: u32,
    /// The number of low bits that hold the count; the automaton's state is above them.
    bits: u32,
    /// For each number of characters, the states from which a text of exactly that many can be completed; only if
    /// states have gaps between their lengths.
    exactly: Option<Arc<[Vec<bool>]>>,
    distances: Arc<OnceLock<Vec<u64>>>,
}

impl StringContent {
    /// Returns `None` if no content has such a length.
    pub(crate) fn new(characters: Arc<Characters>, least: u64, most: Option<u64>) -> Result<Option<Self>, NoAutomaton> {
        // Drop bounds that have no effect.
        let longest = characters.longest[Automaton::START as usize];
        let most = most.filter(|&most| most < u64::from(longest));
        let least = if least <= u64::from(characters.shortest[Automaton::START as usize]) { 0 } else { least };
        if most.is_some_and(|most| most < least) {
            return Ok(None);
        }
        if least > u64::from(longest) {
            // This is also the length of texts without a longest one.
            return if longest == u32::MAX { Err(NoAutomaton::TooLarge) } else { Ok(None) };
        }
        let limit = most.unwrap_or(least);
        let states = characters.automaton.states() as u64;
        let bits = u64::BITS - limit.leading_zeros();
        if states << bits > u64::from(STATES) {
            return Err(NoAutomaton::TooLarge);
        }
        let (least, most, limit) = (least as u32, most.map(|most| most as u32), limit as u32);
        // With only one bound, the shortest or the longest text decides.
        let exactly = if least > 0 && most.is_some() { exactly(&characters, limit)?.map(Arc::from) } else { None };
        let text = Self { characters, least, most, limit, bits, exactly, distances: Arc::default() };
        Ok(text.is_alive(Automaton::START, 0).then_some(text))
    }

    /// The number of distances and lengths that may have to be computed, as work.
    pub(crate) fn cells(&self) -> u64 {
        let states = self.characters.automaton.states();
        let distances = Some(states * self.layers()).filter(|&cells| self.least > 0 && cells <= MAX_DISTANCES);
        let lengths = self.exactly.as_ref().map_or(0, |rows| rows.len() * states);
        (distances.unwrap_or(0) + lengths / 4) as u64 / 2
    }

    /// Whether a text of an allowed length can be completed.
    fn is_alive(&self, state: u32, count: u32) -> bool {
        let (least, most) = (self.least.saturating_sub(count), self.most.map(|most| most - count));
        let Characters { shortest, longest, .. } = &*self.characters;
        let (shortest, longest) = (shortest[state as usize], longest[state as usize]);
        if longest < least || most.is_some_and(|most| shortest > most) {
            return false;
        }
        let (Some(exactly), Some(most)) = (&self.exactly, most) else { return true };
        // Beyond the table, its last row repeats.
        let last = exactly.len() as u32 - 1;
        (least.min(last)..=most.min(last)).any(|length| exactly[length as usize][state as usize])
    }

    /// The number of characters that may still come, whichever they are, and the number still required; only if all
    /// texts are contents.
    pub(crate) fn free_count(&self, state: u32) -> Option<(u32, u32)> {
        let (inner, count) = self.split(state);
        // Inside a character, fewer bytes are allowed.
        let is_any = Arc::ptr_eq(&self.characters, &ANY) && inner == Automaton::START;
        is_any.then(|| (self.most.map_or(u32::MAX, |most| most - count), self.least.saturating_sub(count)))
    }

    /// A state that is equivalent to this one for the next `max_token_chars` characters: far from the bounds, the count
    /// does not matter.
    pub(crate) fn representative(&self, state: u32, max_token_chars: u32) -> u32 {
        let (inner, count) = self.split(state);
        let Some(most) = self.most.filter(|_| self.exactly.is_none() && count > self.least) else { return state };
        let farthest = self.characters.farthest;
        if most - count >= farthest.saturating_add(max_token_chars) { inner << self.bits | self.least } else { state }
    }

    /// The characters that need no escape and keep a state except for its count, and how many of them may come.
    pub(crate) fn self_loop(&self, state: u32) -> Option<SelfLoop> {
        let (inner, count) = self.split(state);
        if self.exactly.is_some() {
            return None;
        }
        let automaton = &self.characters.automaton;
        let characters = self_loop_characters(automaton, inner, |byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
        let shortest = self.characters.shortest[inner as usize];
        let most = self.most.map_or(u32::MAX, |most| (most - count).saturating_sub(shortest));
        // Below the minimum length the count differs, but nothing is forbidden.
        let most = if self.most.is_none() && count < self.least { u32::MAX - 1 } else { most };
        Some(SelfLoop { characters, most, strangers: true })
    }

    /// The state after `characters` characters of the loop at `state`.
    pub(crate) fn after_loop(&self, state: u32, characters: u32) -> u32 {
        let (inner, count) = self.split(state);
        let count = match self.most {
            Some(_) => count + characters,
            None => count.saturating_add(characters).min(self.limit),
        };
        inner << self.bits | count
    }

    fn distances(&self) -> &[u64] {
        self.distances.get_or_init(|| {
            let automaton = &self.characters.automaton;
            let states = automaton.states();
            let edges: Vec<Vec<(u32, u64, bool)>> = (0..states as u32)
                .map(|state| {
                    let step = |byte| Some((automaton.next(state, byte)?, written(byte), begins_character(byte)));
                    let mut edges: Vec<_> = (0..=255).filter_map(step).collect();
                    edges.sort_unstable();
                    edges.dedup();
                    edges
                })
                .collect();
            let layers = self.layers();
            let mut table = vec![NEVER; states * layers];
            for count in (0..layers as u32).rev() {
                let row = count as usize * states;
                let is_last = count as usize + 1 == layers && self.exactly.is_none();
                for state in 0..states as u32 {
                    if is_last && self.is_alive(state, count) {
                        table[row + state as usize] = self.characters.to_end(state);
                    } else if count >= self.least && automaton.accepts(state) {
                        table[row + state as usize] = 0;
                    }
                }
                let mut changed = !is_last;
                while changed {
                    changed = false;
                    for state in 0..states {
                        let nearest = edges[state].iter().filter_map(|&(to, cost, begins)| {
                            let next = if begins { self.counted(count)? } else { count };
                            Some(table[next as usize * states + to as usize].saturating_add(cost))
                        });
                        let nearest = nearest.min().unwrap_or(NEVER);
                        if nearest < table[row + state] {
                            (table[row + state], changed) = (nearest, true);
                        }
                    }
                }
            }
            table
        })
    }

    /// The count after one more character, if it is allowed.
    fn counted(&self, count: u32) -> Option<u32> {
        match self.most {
            Some(most) => (count < most).then_some(count + 1),
            // Above the minimum all counts are equivalent.
            None => Some((count + 1).min(self.limit)),
        }
    }

    /// An upper bound on the bytes to the end from any state.
    pub(crate) fn farthest(&self) -> u64 {
        let most = self.characters.farthest_end();
        most + 6 * u64::from(self.least)
    }

    /// The number of counts that have distances of their own. Once no length is too short, the path with the fewest
    /// characters is always allowed.
    fn layers(&self) -> usize {
        1 + if self.exactly.is_some() { self.limit as usize } else { self.least as usize }
    }

    fn split(&self, state: u32) -> (u32, u32) {
        (state >> self.bits, state & ((1 << self.bits) - 1))
    }
}

impl Content for StringContent {
    fn start(&self) -> u32 {
        Automaton::START << self.bits
    }

    #[inline]
    fn next(&self, state: u32, byte: u8) -> Option<u32> {
        let (state, count) = self.split(state);
        let next = self.characters.automaton.next(state, byte)?;
        if self.limit == 0 && self.most.is_none() {
            return Some(next);
        }
        let count = if begins_character(byte) { self.counted(count)? } else { count };
        self.is_alive(next, count).then_some(next << self.bits | count)
    }

    fn accepts(&self, state: u32) -> bool {
        let (state, count) = self.split(state);
        count >= self.least && self.characters.automaton.accepts(state)
    }

    fn to_end(&self, state: u32) -> u64 {
        let (state, count) = self.split(state);
        if self.characters.is_universal(state) {
            return u64::from(self.least.saturating_sub(count));
        }
        if count >= self.least && self.exactly.is_none() {
            return self.characters.to_end(state);
        }
        if self.characters.automaton.states() * self.layers() > MAX_DISTANCES {
            // An upper bound: the path of the shortest text, plus the characters missing to the minimum length at their
            // longest.
            return self.characters.to_end(state) + 6 * u64::from(self.least.saturating_sub(count));
        }
        self.distances()[count as usize * self.characters.automaton.states() + state as usize]
    }

    fn free(&self, state: u32) -> Option<u32> {
        let (state, count) = self.split(state);
        // With bounded lengths, a distant end may come too late.
        match self.most {
            None => self.characters.is_immortal(state).then_some(u32::MAX),
            Some(most) => self.characters.is_universal(state).then_some(most - count),
        }
    }
}

/// For each length up to a limit, the states from which a text of exactly that many characters can be completed; `None`
/// if each state has all lengths between its shortest and its longest.
fn exactly(characters: &Characters, limit: u32) -> Result<Option<Vec<Vec<bool>>>, NoAutomaton> {
    let Characters { automaton, shortest, longest, .. } = characters;
    let edges = edges(automaton, |byte| u64::from(begins_character(byte)));
    // Inside a character the count stays the same.
    let settle = |row: &mut Vec<bool>| {
        loop {
            let mut changed = false;
            for (state, edges) in edges.iter().enumerate() {
                if !row[state] && edges.iter().any(|&(to, cost)| cost == 0 && row[to as usize]) {
                    (row[state], changed) = (true, true);
                }
            }
            if !changed {
                return;
            }
        }
    };
    let mut rows: Vec<Vec<bool>> = Vec::new();
    let mut row: Vec<bool> = (0..automaton.states() as u32).map(|state| automaton.accepts(state)).collect();
    settle(&mut row);
    for length in 0..=limit {
        if rows.last() == Some(&row) {
            break;
        }
        if length as usize == MAX_LENGTHS {
            return Err(NoAutomaton::TooLarge);
        }
        let has_one_more = |edges: &Vec<(u32, u64)>| edges.iter().any(|&(to, cost)| cost == 1 && row[to as usize]);
        let mut next: Vec<bool> = edges.iter().map(has_one_more).collect();
        settle(&mut next);
        rows.push(std::mem::replace(&mut row, next));
    }
    let full = (0u32..).zip(&rows).all(|(length, row)| {
        let all = |state: usize| shortest[state] <= length && length <= longest[state];
        row.iter().enumerate().all(|(state, &has)| has == all(state))
    });
    Ok((!full).then_some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automata::dfa::Dfa;
    use crate::terminal::escape::Escapes;
    use crate::terminal::quoted::Quoted;

    fn characters(pattern: &str) -> Arc<Characters> {
        let dfa = Dfa::new(pattern).unwrap();
        Arc::new(Characters::new(dfa.automaton().unwrap()))
    }

    fn quoted(pattern: &str, least: u64, most: Option<u64>) -> Option<Quoted<StringContent>> {
        StringContent::new(characters(pattern), least, most)
            .unwrap()
            .map(|content| Quoted::new(content, Escapes::Minimal))
    }

    fn accepts(string: &Quoted<StringContent>, text: &[u8]) -> bool {
        let end = text.iter().try_fold(string.start(), |state, &byte| string.next(state, byte));
        end.is_some_and(|state| string.accepts(state))
    }

    /// serde_json writes strings in exactly this way.
    fn write(content: &str) -> Vec<u8> {
        serde_json::to_vec(content).unwrap()
    }

    #[test]
    fn every_character_has_one_way_to_be_written() {
        let any = quoted("(?s:.*)", 0, None).unwrap();
        for c in (0..0x300).chain([0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff]).filter_map(char::from_u32)
        {
            assert!(accepts(&any, &write(&format!("a{c}b"))), "{c:?}");
        }
        for bad in [r#""\/""#, r#""\u0041""#, r#""\u000a""#, r#""\u001F""#, "\"\n\"", r#"""""#, r#"""#, r#""\x""#, ""] {
            assert!(!accepts(&any, bad.as_bytes()), "{bad}");
        }
        assert!(!accepts(&any, b"\"\xc3\""), "half a character");
    }

    /// Every prefix of a string that the definition accepts is alive, and nothing else is; distances are exact.
    #[test]
    fn lengths_and_patterns_hold_together_without_dead_ends() {
        let alphabet = ["a", "b", "é", "\"", "\\", "\n", "\u{1}", "\u{8}", "n", "u", "0", "1"];
        let mut contents = vec![String::new()];
        let mut last = contents.clone();
        for _ in 0..4 {
            last = last.iter().flat_map(|text| alphabet.iter().map(move |c| format!("{text}{c}"))).collect();
            contents.extend(last.iter().cloned());
        }
        for pattern in ["(?s:.*)", "(aa)*", "a*b?", "(aab|é)*", "a{2}|b{4,}", "(?s:.*)b+", "(a|\")\\n*", "\u{1}*é"] {
            for (least, most) in [(0, None), (2, None), (0, Some(3)), (3, Some(4)), (4, Some(4)), (1, Some(1))] {
                let judge = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
                let fits = |text: &String| {
                    let length = text.chars().count() as u64;
                    judge.is_match(text) && length >= least && most.is_none_or(|most| length <= most)
                };
                let mut good: Vec<Vec<u8>> =
                    contents.iter().filter(|text| fits(text)).map(|text| write(text)).collect();
                good.sort_unstable();
                let Some(string) = quoted(pattern, least, most) else {
                    assert!(good.is_empty(), "{pattern} {least} {most:?}");
                    continue;
                };
                for text in &good {
                    assert!(accepts(&string, text), "{pattern} {least} {most:?} {text:?}");
                }
                // All prefixes, each with the fewest bytes to an end.
                let mut open = vec![(Vec::new(), string.start())];
                while let Some((text, state)) = open.pop() {
                    let ends = good[good.partition_point(|good| *good < text)..].iter();
                    let ends = ends.take_while(|good| good.starts_with(&text)).map(|good| good.len() - text.len());
                    let nearest = ends.min().map(|bytes| bytes as u64);
                    assert_eq!(nearest, Some(string.to_end(state)), "{pattern} {least} {most:?} {text:?}");
                    if string.accepts(state) {
                        assert!(good.contains(&text), "{pattern} {least} {most:?} {text:?}");
                    } else if text.len() < 4 {
                        for byte in b"\"\\ab\xc3\xa9\n\x01nu01" {
                            if let Some(next) = string.next(state, *byte) {
                                open.push(([&text[..], &[*byte]].concat(), next));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_free_is_known() {
        let free = |pattern: &str, most, begun: &str| {
            let string = quoted(pattern, 0, most).unwrap();
            let state = begun.bytes().try_fold(string.start(), |state, byte| string.next(state, byte)).unwrap();
            string.free(state)
        };
        assert_eq!(free("(?s:.*)", None, "\"ab"), Some(u32::MAX));
        assert_eq!(free("(?s:.*)", Some(10), "\"abé"), Some(7));
        assert_eq!(free("(?s:.*)", Some(10), ""), None);
        assert_eq!(free("(?s:.*)x(?s:.*)", None, "\"ab"), Some(u32::MAX));
        assert_eq!(free("(?s:.*)x(?s:.*)", Some(9), "\"ab"), None);
        assert_eq!(free("(?s:.*)x(?s:.*)", None, "\"abx"), Some(u32::MAX));
        assert_eq!(free("[a-z]*", None, "\"abx"), None);
    }

    #[test]
    fn long_texts_cost_nothing() {
        let string = quoted("(?s:.*)", 100_000, Some(1_000_000)).unwrap();
        assert_eq!(string.to_end(string.start()), 100_002);
        assert!(quoted("[a-c]{3}", 4, None).is_none() && quoted("[a-c]{3}", 0, Some(2)).is_none());
    }
}
