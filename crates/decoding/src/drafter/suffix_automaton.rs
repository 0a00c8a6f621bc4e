//! Finds earlier occurrences of the end of a text.

use verdigris_logits::TokenId;

/// No state: the link of the state of the empty string.
const NONE: u32 = u32::MAX;

/// The number of states whose latest position is updated for a new token. States of shorter suffixes keep an earlier
/// position, so that the cost of a token stays constant in a text that repeats itself for long.
const TOLD: usize = 32;

/// All substrings of a text, as the smallest automaton that reads them (Blumer et al., *The smallest automaton
/// recognizing the subwords of a text*, 1985), which grows with the text: a token takes amortised constant time, and at
/// most two states and three transitions.
#[derive(Clone, Debug)]
pub(super) struct SuffixAutomaton {
    states: Vec<State>,
    /// The state of the whole text.
    last: u32,
    text: Vec<TokenId>,
    /// Earlier occurrences of the longest suffixes, longest first.
    found: Vec<Occurrence>,
}

/// An earlier occurrence of the end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// The number of last tokens that occur there.
    pub(super) length: usize,
    /// The number of tokens up to the end of the occurrence.
    pub(super) end: usize,
}

/// Strings that end at the same positions.
#[derive(Clone, Debug)]
struct State {
    /// The length of the longest string.
    length: u32,
    /// The state of the longest suffix that ends at more positions.
    link: u32,
    /// The number of tokens up to the latest known position where they end.
    latest: u32,
    /// Ascending by token.
    next: Vec<(TokenId, u32)>,
}

impl State {
    fn after(&self, token: TokenId) -> Option<u32> {
        let at = self.next.binary_search_by_key(&token, |next| next.0).ok()?;
        Some(self.next[at].1)
    }

    fn lead(&mut self, token: TokenId, to: u32) {
        match self.next.binary_search_by_key(&token, |next| next.0) {
            Ok(at) => self.next[at].1 = to,
            Err(at) => self.next.insert(at, (token, to)),
        }
    }
}

impl Default for SuffixAutomaton {
    fn default() -> Self {
        let empty = State { length: 0, link: NONE, latest: 0, next: Vec::new() };
        Self { states: vec![empty], last: 0, text: Vec::new(), found: Vec::new() }
    }
}

impl SuffixAutomaton {
    /// Reads a text, continuing from the previous one if the text begins with it, else from scratch. Then
    /// [`found`](SuffixAutomaton::found) holds up to `most` of the longest suffixes that occurred before, each followed
    /// by a different token.
    pub(super) fn read(&mut self, text: &[TokenId], most: usize) {
        if !text.starts_with(&self.text) {
            *self = Self::default();
        }
        for &token in &text[self.text.len()..] {
            self.push(token, most);
        }
    }

    /// The longest suffixes of the text that occurred before, each at its latest known position, longest first.
    pub(super) fn found(&self) -> &[Occurrence] {
        &self.found
    }

    fn add(&mut self, state: State) -> u32 {
        self.states.push(state);
        (self.states.len() - 1) as u32
    }

    fn push(&mut self, token: TokenId, most: usize) {
        self.text.push(token);
        let length = self.text.len() as u32;
        let new = self.add(State { length, link: 0, latest: length, next: Vec::new() });
        let mut at = self.last;
        while at != NONE && self.states[at as usize].after(token).is_none() {
            self.states[at as usize].lead(token, new);
            at = self.states[at as usize].link;
        }
        if at != NONE {
            let next = self.states[at as usize].after(token).expect("where the walk ended");
            let length = self.states[at as usize].length + 1;
            self.states[new as usize].link = match self.states[next as usize].length == length {
                true => next,
                // The strings of `next` up to this length end here too, and the others do not.
                false => self.split(next, length, at, token),
            };
        }
        self.last = new;
        self.find(most);
        let mut told = new;
        for _ in 0..TOLD {
            if told == 0 {
                break;
            }
            self.states[told as usize].latest = length;
            told = self.states[told as usize].link;
        }
    }

    /// Moves the strings of a state up to `length` to a new state, which the transitions from `at` and its suffixes
    /// then lead to.
    fn split(&mut self, state: u32, length: u32, mut at: u32, token: TokenId) -> u32 {
        let shorter = State { length, ..self.states[state as usize].clone() };
        let shorter = self.add(shorter);
        while at != NONE && self.states[at as usize].after(token) == Some(state) {
            self.states[at as usize].lead(token, shorter);
            at = self.states[at as usize].link;
        }
        self.states[state as usize].link = shorter;
        shorter
    }

    /// Finds earlier occurrences of the end of the text, before its own position is recorded.
    fn find(&mut self, most: usize) {
        self.found.clear();
        let mut at = self.states[self.last as usize].link;
        for _ in 0..TOLD {
            if at == 0 || self.found.len() == most {
                break;
            }
            let State { length, latest, link, .. } = self.states[at as usize];
            let follows = |end: usize| self.text[end];
            if self.found.iter().all(|found| follows(found.end) != follows(latest as usize)) {
                self.found.push(Occurrence { length: length as usize, end: latest as usize });
            }
            at = link;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random};

    /// The longest suffix of a text that occurred before, at its latest position, by exhaustive search.
    fn everywhere(text: &[TokenId]) -> Option<Occurrence> {
        let mut best: Option<Occurrence> = None;
        for end in (1..text.len()).rev() {
            let length = text[..end].iter().rev().zip(text.iter().rev()).take_while(|(a, b)| a == b).count();
            if length > best.map_or(0, |best| best.length) {
                best = Some(Occurrence { length, end });
            }
        }
        best
    }

    #[test]
    fn the_longest_suffix_is_found_at_its_latest_place() {
        for (seed, tokens) in [(1, 2), (2, 3), (3, 8), (4, 40)] {
            let random = Random::new(seed);
            let token = |i: u64| (random.uniform(i, Purpose::Token) * f64::from(tokens)) as TokenId;
            let text: Vec<TokenId> = (0..400).map(token).collect();
            let mut automaton = SuffixAutomaton::default();
            for end in 1..text.len() {
                automaton.read(&text[..end], 3);
                assert_eq!(automaton.found().first().copied(), everywhere(&text[..end]), "{tokens}: {end}");
                for found in automaton.found() {
                    let Occurrence { length, end: before } = *found;
                    assert_eq!(text[before - length..before], text[end - length..end]);
                }
                let next: Vec<TokenId> = automaton.found().iter().map(|found| text[found.end]).collect();
                assert!((1..next.len()).all(|i| !next[..i].contains(&next[i])), "{next:?}");
            }
            assert!(automaton.states.len() <= 2 * text.len());
            assert!(automaton.states.iter().map(|state| state.next.len()).sum::<usize>() <= 3 * text.len());
        }
    }

    #[test]
    fn another_text_is_read_anew() {
        let mut automaton = SuffixAutomaton::default();
        automaton.read(&[1, 2, 3, 1, 2], 1);
        assert_eq!(automaton.found(), [Occurrence { length: 2, end: 2 }]);
        automaton.read(&[1, 2, 4], 1);
        assert_eq!(automaton.found(), []);
    }

    /// A text that repeats one token has the most states to update for each.
    #[test]
    fn a_long_repetition_takes_no_longer() {
        let mut automaton = SuffixAutomaton::default();
        automaton.read(&[7; 200_000], 1);
        assert_eq!(automaton.found(), [Occurrence { length: 199_999, end: 199_999 }]);
    }
}
