//! The runs of parts of a text: `cd` and `bc`, but not `bd`, are runs of the characters of `abcd`.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use regex_syntax::is_word_character;
use smallvec::SmallVec;

use super::compile::compile;
use super::expression::{Expression, Rules};
use super::fault::{BadGrammar, Position, Result};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::grammar::Grammar;

/// The maximum number of transitions and states of an automaton.
const MAX_EDGES: usize = 8 << 20;

/// The parts of a text that are not split.
#[derive(Clone, Copy, Debug)]
pub enum Chunks<'t> {
    /// The characters of a text.
    Characters(&'t str),
    /// Its words, runs of white space, and other characters: a word is a run of letters, digits and `_`.
    Words(&'t str),
    /// Its lines, each with its line end.
    Lines(&'t str),
    /// These parts, in sequence.
    Given(&'t [String]),
}

impl Grammar {
    /// Creates the grammar of the runs of parts of a text, which includes the empty text: what a citation may be.
    ///
    /// Its size is linear in the text.
    ///
    /// # Errors
    /// The text is too long.
    pub fn substring(chunks: Chunks) -> Result<Self, BadGrammar> {
        let mut rules = Rules::default();
        rules.define("root", Position::default(), substring(chunks)?)?;
        compile(rules, "root", &Budget::without_end())
    }
}

/// The runs of parts of a text.
pub(super) fn substring(chunks: Chunks) -> Result<Expression> {
    let automaton = match chunks {
        Chunks::Characters(text) => {
            runs(&text.char_indices().map(|(at, c)| &text[at..at + c.len_utf8()]).collect::<Vec<_>>())
        }
        Chunks::Words(text) => runs(&words(text)),
        Chunks::Lines(text) => runs(&text.split_inclusive('\n').collect::<Vec<_>>()),
        Chunks::Given(parts) => {
            runs(&parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect::<Vec<_>>())
        }
    };
    match automaton {
        Ok(automaton) => Ok(Expression::Automaton(Arc::new(automaton))),
        Err(_) => Err(BadGrammar::TooLarge),
    }
}

/// The words, runs of white space and other characters of a text.
fn words(text: &str) -> Vec<&str> {
    let kind = |character: char| match character {
        character if character.is_whitespace() => 0,
        character if is_word_character(character) => 1,
        _ => 2,
    };
    let (mut words, mut begin, mut before) = (Vec::new(), 0, None);
    for (at, character) in text.char_indices() {
        if before.is_some_and(|before| before == 2 || before != kind(character)) {
            words.push(&text[begin..at]);
            begin = at;
        }
        before = Some(kind(character));
    }
    if begin < text.len() {
        words.push(&text[begin..]);
    }
    words
}

/// A state of a suffix automaton.
#[derive(Clone, Default)]
struct State {
    /// The length of its longest text.
    length: u32,
    /// The state of the longest suffix that ends at more positions.
    link: Option<u32>,
    /// By chunk, in order.
    next: Vec<(u32, u32)>,
}

impl State {
    fn after(&self, chunk: u32) -> Option<u32> {
        self.next.binary_search_by_key(&chunk, |next| next.0).ok().map(|at| self.next[at].1)
    }

    fn lead(&mut self, chunk: u32, to: u32) {
        match self.next.binary_search_by_key(&chunk, |next| next.0) {
            Ok(at) => self.next[at].1 = to,
            Err(at) => self.next.insert(at, (chunk, to)),
        }
    }
}

/// The smallest automaton of the runs of some chunks (Blumer et al., *The smallest automaton recognizing the subwords
/// of a text*, 1985), whose transitions are spelled byte by byte.
fn runs(chunks: &[&str]) -> Result<Automaton, NoAutomaton> {
    let mut numbers = HashMap::new();
    let mut texts: Vec<&str> = Vec::new();
    let (mut states, mut last) = (vec![State::default()], 0u32);
    for &chunk in chunks {
        let chunk = *numbers.entry(chunk).or_insert_with(|| {
            texts.push(chunk);
            texts.len() as u32 - 1
        });
        let new = states.len() as u32;
        states.push(State { length: states[last as usize].length + 1, link: Some(0), next: Vec::new() });
        let mut at = Some(last);
        while let Some(from) = at.filter(|&from| states[from as usize].after(chunk).is_none()) {
            states[from as usize].lead(chunk, new);
            at = states[from as usize].link;
        }
        if let Some(from) = at {
            let next = states[from as usize].after(chunk).expect("where the walk ended");
            let length = states[from as usize].length + 1;
            let link = match states[next as usize].length == length {
                true => next,
                false => {
                    // The texts of `next` up to this length end here too, and the others do not.
                    let shorter = states.len() as u32;
                    states.push(State { length, ..states[next as usize].clone() });
                    while let Some(from) = at.filter(|&from| states[from as usize].after(chunk) == Some(next)) {
                        states[from as usize].lead(chunk, shorter);
                        at = states[from as usize].link;
                    }
                    states[next as usize].link = Some(shorter);
                    shorter
                }
            };
            states[new as usize].link = Some(link);
        }
        last = new;
    }
    let spelled = |state: &State| {
        let mut ways: Vec<(&str, u32)> = state.next.iter().map(|&(chunk, to)| (texts[chunk as usize], to)).collect();
        ways.sort_unstable();
        ways
    };
    spelled_out(&states.iter().map(spelled).collect::<Vec<_>>())
}

/// A position between the bytes of chunks: those of a state from `first` up to `end` begin with the same `read` bytes,
/// which have been read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Between {
    state: u32,
    first: u32,
    end: u32,
    read: u32,
}

/// The automaton of chunks, read byte by byte; each state has its chunks in order, and accepts.
fn spelled_out(states: &[Vec<(&str, u32)>]) -> Result<Automaton, NoAutomaton> {
    let whole = |state: u32| Between { state, first: 0, end: states[state as usize].len() as u32, read: 0 };
    let start: SmallVec<[Between; 2]> = SmallVec::from_slice(&[whole(0)]);
    let (mut numbers, mut open) = (HashMap::from_iter([(start.clone(), 0u32)]), vec![start]);
    let (mut rows, mut accepts): (Vec<Vec<(u8, u32)>>, Vec<bool>) = (Vec::new(), Vec::new());
    let mut edges = 0;
    while rows.len() < open.len() {
        let at = open[rows.len()].clone();
        let mut after: BTreeMap<u8, SmallVec<[Between; 2]>> = BTreeMap::new();
        for &Between { state, first, end, read } in &at {
            let ways = &states[state as usize][first as usize..end as usize];
            let byte = |way: &(&str, u32)| way.0.as_bytes()[read as usize];
            let mut from = first;
            for same in ways.chunk_by(|a, b| byte(a) == byte(b)) {
                let next = after.entry(byte(&same[0])).or_default();
                // The one that ends here comes first.
                let is_whole = same[0].0.len() == read as usize + 1;
                let end = from + same.len() as u32;
                if is_whole {
                    next.push(whole(same[0].1));
                }
                if same.len() > usize::from(is_whole) {
                    next.push(Between { state, first: from + u32::from(is_whole), end, read: read + 1 });
                }
                from = end;
            }
        }
        let mut row = Vec::with_capacity(after.len());
        for (byte, mut next) in after {
            next.sort_unstable();
            next.dedup();
            let number = *numbers.entry(next).or_insert_with_key(|next| {
                open.push(next.clone());
                open.len() as u32 - 1
            });
            row.push((byte, number));
        }
        edges += row.len() + 1;
        if edges > MAX_EDGES {
            return Err(NoAutomaton::TooLarge);
        }
        rows.push(row);
        accepts.push(at.iter().any(|between| between.read == 0));
    }
    Ok(Automaton::of_rows(&rows, &accepts))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::fixture::{accepts, machine_of};

    /// Compares with the definition: all runs, and all texts that are made of runs with one character changed.
    #[test]
    fn texts_are_the_runs() {
        let given = ["ab", "a", "b", "abc", "", "c", "ab"].map(String::from);
        let text = "ab aab, é ab!\nabé é";
        let characters: Vec<String> = text.chars().map(String::from).collect();
        for (chunks, parts) in [
            (Chunks::Characters(text), characters),
            (Chunks::Words(text), words(text).into_iter().map(String::from).collect()),
            (Chunks::Lines(text), text.split_inclusive('\n').map(String::from).collect()),
            (Chunks::Given(&given), given.to_vec()),
        ] {
            let machine = machine_of(Grammar::substring(chunks).unwrap());
            let runs: BTreeSet<String> = (0..=parts.len())
                .flat_map(|from| (from..=parts.len()).map(move |to| (from, to)))
                .map(|(from, to)| parts[from..to].concat())
                .collect();
            let others = runs.iter().flat_map(|run| ["a", "b", "é", " "].map(|more| format!("{run}{more}")));
            let cut = runs.iter().flat_map(|run| run.char_indices().map(move |(at, _)| run[..at].to_owned()));
            for text in runs.iter().cloned().chain(others).chain(cut) {
                assert_eq!(accepts(&machine, &text), runs.contains(&text), "{chunks:?}: {text:?}");
            }
        }
        assert_eq!(words("foo bar. baz_1!? "), ["foo", " ", "bar", ".", " ", "baz_1", "!", "?", " "]);
    }

    #[test]
    fn sizes_are_linear() {
        let text: String =
            (0..20_000u32).map(|i| char::from(b'a' + (i.wrapping_mul(2_654_435_761) >> 27) as u8 % 26)).collect();
        let machine = machine_of(Grammar::substring(Chunks::Characters(&text)).unwrap());
        assert!(accepts(&machine, &text[1_000..1_200]) && accepts(&machine, "") && !accepts(&machine, "a b"));
        let words: String = (0..8_000u32).map(|i| format!("word{} ", i.wrapping_mul(2_654_435_761) % 5_000)).collect();
        let machine = machine_of(Grammar::substring(Chunks::Words(&words)).unwrap());
        let from = words.find(' ').unwrap();
        assert!(accepts(&machine, &words[from..from + words[from..].rfind(' ').unwrap()]));
    }
}
