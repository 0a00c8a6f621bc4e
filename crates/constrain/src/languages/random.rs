//! Random grammars, compared with the definition of their language.

use std::collections::BTreeSet;

use verdigris_logits::{Purpose, Random};

use super::compile::compile;
use super::expression::{Expression, Rules};
use super::fault::{BadGrammar, Position};
use crate::automata::budget::Budget;
use crate::fixture::{LEXICON, machine_of};
use crate::grammar::Grammar;
use crate::machine::Machine;

/// A random part of a rule.
#[derive(Debug)]
enum Part {
    Text(&'static str),
    Rule(usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat(Box<Part>, u32, Option<u32>),
}

/// The longest text that is compared.
const LONGEST: usize = 5;

struct Source {
    random: Random,
    at: u64,
}

impl Source {
    fn below(&mut self, count: usize) -> usize {
        self.at += 1;
        (self.random.uniform(self.at, Purpose::Token) * count as f64) as usize
    }

    fn part(&mut self, rules: usize, depth: usize) -> Part {
        let many = |source: &mut Self| (0..source.below(4)).map(|_| source.part(rules, depth - 1)).collect();
        match self.below(if depth == 0 { 6 } else { 12 }) {
            0..3 => Part::Text(["a", "b", "", "ab"][self.below(4)]),
            3..6 => Part::Rule(self.below(rules)),
            6..9 => Part::Sequence(many(self)),
            9..11 => Part::Choice(many(self)),
            _ => {
                let (least, more) = (self.below(3) as u32, self.below(3) as u32);
                let most = (self.below(2) == 0).then_some(least + more);
                Part::Repeat(Box::new(self.part(rules, depth - 1)), least, most)
            }
        }
    }
}

/// The short texts of a part, given those of all rules so far.
fn texts(part: &Part, rules: &[BTreeSet<String>]) -> BTreeSet<String> {
    let joined = |a: &BTreeSet<String>, b: &BTreeSet<String>| -> BTreeSet<String> {
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| format!("{a}{b}")));
        pairs.filter(|text| text.len() <= LONGEST).collect()
    };
    let empty = || BTreeSet::from([String::new()]);
    match part {
        Part::Text(text) => BTreeSet::from([(*text).to_owned()]),
        Part::Rule(rule) => rules[*rule].clone(),
        Part::Sequence(parts) => parts.iter().fold(empty(), |so_far, part| joined(&so_far, &texts(part, rules))),
        Part::Choice(ways) => ways.iter().flat_map(|way| texts(way, rules)).collect(),
        Part::Repeat(part, least, most) => {
            let one = texts(part, rules);
            let times = |times: u32| (0..times).fold(empty(), |so_far, _| joined(&so_far, &one));
            (*least..=most.unwrap_or(*least + LONGEST as u32)).flat_map(times).collect()
        }
    }
}

fn expression(part: &Part, rules: &mut Rules) -> Expression {
    let mut all = |parts: &[Part]| parts.iter().map(|part| expression(part, rules)).collect();
    match part {
        Part::Text(text) => Expression::literal(text.as_bytes()),
        Part::Rule(rule) => Expression::Rule(rules.mention(&rule.to_string(), Position::default())),
        Part::Sequence(parts) => Expression::sequence(all(parts)),
        Part::Choice(ways) => Expression::choice(all(ways)),
        Part::Repeat(part, least, most) => expression(part, rules).repeated(*least, *most),
    }
}

/// Rules begin with themselves, directly and through others, behind parts that can be empty, and in any number of ways.
#[test]
fn texts_are_those_of_the_definition() {
    let mut letters = vec![String::new()];
    for at in 0.. {
        let Some(text) = letters.get(at).filter(|text| text.len() < LONGEST) else { break };
        letters.extend(["a", "b"].map(|letter| format!("{text}{letter}")));
    }
    assert_eq!(letters.len(), 63);
    let mut compared = 0;
    for seed in 0..1_500 {
        let mut source = Source { random: Random::new(seed), at: 0 };
        let count = 1 + source.below(4);
        let parts: Vec<Part> = (0..count).map(|_| source.part(count, 3)).collect();
        let mut known = vec![BTreeSet::new(); count];
        loop {
            let next: Vec<_> = parts.iter().map(|part| texts(part, &known)).collect();
            if next == known {
                break;
            }
            known = next;
        }
        let mut rules = Rules::default();
        for (rule, part) in parts.iter().enumerate() {
            let body = expression(part, &mut rules);
            rules.define(&rule.to_string(), Position::default(), body).unwrap();
        }
        let machine = match compile(rules, "0", &Budget::default()) {
            Ok(grammar) => machine_of(grammar),
            Err(BadGrammar::Empty) => {
                assert!(known[0].is_empty(), "{seed}");
                continue;
            }
            Err(other) => panic!("{seed}: {other}"),
        };
        for text in &letters {
            let state = machine.next(machine.start(), text.as_bytes());
            assert_eq!(machine.accepts(state), known[0].contains(text), "{seed}: {text:?}");
            let is_begun = known[0].iter().any(|whole| whole.starts_with(text));
            assert!(machine.goes_on(state) || !is_begun, "{seed}: {text:?}");
            // Every text that can continue can be completed.
            if machine.goes_on(state) {
                let rest = machine.completion(state).unwrap();
                assert!(machine.accepts(machine.next(state, &rest)), "{seed}: {text:?}");
                assert_eq!(machine.to_end(state), rest.len() as u64);
            }
        }
        if seed % 5 == 0 {
            masks_are_those_of_the_definition(&machine, &letters[..7], &known[0]);
        }
        compared += 1;
    }
    assert!(compared > 900, "{compared}");
}

/// A token is allowed if and only if some text continues with it: those that begin a short text are known to, and after
/// every other one that is allowed the text can be completed.
fn masks_are_those_of_the_definition(machine: &Machine, begun: &[String], texts: &BTreeSet<String>) {
    for begun in begun {
        let state = machine.next(machine.start(), begun.as_bytes());
        let mask = machine.mask(state);
        assert_eq!(mask.accepts, texts.contains(begun));
        for token in 0..LEXICON.tokenizer().vocabulary().size() as u32 {
            let bytes = LEXICON.bytes(token);
            let is_allowed = mask.tokens.contains(token);
            if bytes.is_empty() || !bytes.iter().all(|byte| b"ab".contains(byte)) {
                assert!(!is_allowed, "{begun:?}: {bytes:?}");
                continue;
            }
            let longer = format!("{begun}{}", String::from_utf8_lossy(bytes));
            let next = machine.next(state, bytes);
            assert_eq!(is_allowed, machine.goes_on(next), "{longer:?}");
            assert!(is_allowed || !texts.iter().any(|text| text.starts_with(&longer)), "{longer:?}");
        }
    }
}

/// Random characters, and random pieces of the languages, never panic.
#[test]
fn any_text_is_read_or_refused() {
    const PIECES: &[&str] = &[
        "root",
        "start",
        "::=",
        ":",
        "|",
        "(",
        ")",
        "\"",
        "a",
        "\\",
        "[",
        "]",
        "^",
        "-",
        "{",
        "}",
        "1",
        ",",
        "*",
        "?",
        "+",
        "\n",
        " ",
        "é",
        "\0",
        "x41",
        "/",
        "~",
        "&",
        "..",
        "%ignore",
        "%json",
        "%import common.INT",
        "A",
        ".",
        "#",
        "//",
        "<|a|>",
        "<[",
        ">",
        "!",
        "->",
        "\"a\"",
        "/a/i",
        "\u{1F600}",
        "0",
        "ffff",
        "u",
        "%regex",
        "[lazy]",
        ";",
    ];
    for seed in 0..3_000 {
        let mut source = Source { random: Random::new(seed), at: 0 };
        let length = source.below(30);
        let text: String = (0..length).map(|_| PIECES[source.below(PIECES.len())]).collect();
        for text in [text.clone(), format!("root ::= {text}"), format!("start: {text}")] {
            for read in [Grammar::gbnf, Grammar::ebnf, Grammar::lark] {
                if let Err(fault) = read(&text) {
                    assert!(!fault.to_string().contains('\n'), "{fault}");
                }
            }
        }
    }
}
