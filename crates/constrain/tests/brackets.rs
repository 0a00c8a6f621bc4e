//! Masks of deeply nested texts equal their definition byte by byte, for tokens that close several brackets at once.

mod lexicon;

use std::collections::BTreeSet;

use verdigris_constrain::{Grammar, Language, Lexicon, Machine};
use verdigris_logits::{Purpose, Random};

use self::lexicon::lexicon_of;

/// Three kinds of brackets, operators of several precedences, and a bracket that needs an ending of its own.
const SUMS: &str = r#"
root    ::= sum
sum     ::= sum [-+] product | product
product ::= product "*" atom | atom
atom    ::= "a" | "b" | "1" | "(" sum ")" | "[" (sum ("," sum)*)? "]" | "{" sum ":" sum "}" | "<" root? ">;"
"#;

/// The same with names and keywords that are divided by the longest match, so that rules are divided by guards.
const NAMES: &str = r#"
start: test
test: sum ("if" sum "else" test)?
sum: sum ("+" | "-") atom | atom
atom: NAME | NUMBER | "not" atom | "(" (test ("," test)*)? ")" | "[" test "]" | "{" test ":" test "}"
NAME: /[abefilnost]+/
NUMBER: /[1]+/
%ignore / +/
"#;

/// A closing bracket that may be left out never ends the search for what else may follow.
const OPTIONAL: &str = r#"
root ::= "(" root? ")"? | "a" "+"? | "[" root "]" "]"?
"#;

const CHARACTERS: &[u8] = b"()[]{}<>;:,+-*ab1efilnost ";

/// All characters, all pairs of opening and runs of up to three closing brackets, and random tokens, most of which
/// close brackets.
fn lexicon() -> Lexicon {
    let random = Random::new(0);
    let mut tokens: BTreeSet<Vec<u8>> = CHARACTERS.iter().map(|&byte| vec![byte]).collect();
    for a in b"([{<" {
        tokens.extend(b"([{<".map(|b| vec![*a, b]));
    }
    for a in b")]}>" {
        for b in b")]}>" {
            tokens.insert(vec![*a, *b]);
            tokens.extend(b")]}>".map(|c| vec![*a, *b, c]));
        }
    }
    for at in 0..600u64 {
        let byte = |i: u64| {
            let from = if random.uniform(16 * at + i, Purpose::Accept) < 0.6 { b")]}>;)" } else { CHARACTERS };
            from[(random.uniform(16 * at + i, Purpose::Token) * from.len() as f64) as usize]
        };
        tokens.insert((0..2 + at % 6).map(byte).collect());
    }
    let tokens: Vec<String> = tokens.into_iter().map(|token| String::from_utf8(token).unwrap()).collect();
    lexicon_of(&tokens)
}

/// Compares the mask of a state with the definition, and the bound on what follows with what follows.
fn compare(lexicon: &Lexicon, machine: &Machine, text: &[u8]) -> Vec<u32> {
    let state = machine.next(machine.start(), text);
    let mask = machine.mask(state);
    assert_eq!(machine.fault_at(state), None);
    let after = machine.to_end_after(state);
    for token in 0..lexicon.index().vocabulary_size() as u32 {
        let bytes = lexicon.bytes(token);
        let next = machine.next(state, bytes);
        let may_come = token != 0 && machine.goes_on(next);
        let about = || format!("{:?} after {:?}", String::from_utf8_lossy(bytes), String::from_utf8_lossy(text));
        assert_eq!(mask.tokens.contains(token), may_come, "{}", about());
        assert!(!may_come || machine.to_end(next) <= after, "{}: {} of {after}", about(), machine.to_end(next));
    }
    mask.tokens.iter().collect()
}

#[test]
fn masks_of_nested_texts_are_those_of_the_definition() {
    let lexicon = lexicon();
    for (language, grammar) in [(Language::Ebnf, SUMS), (Language::Lark, NAMES), (Language::Ebnf, OPTIONAL)] {
        let machine = Machine::new(Grammar::parse(language, grammar).unwrap(), lexicon.index().clone());
        for seed in 0..12 {
            let random = Random::new(seed);
            let mut text = Vec::new();
            for at in 0..40u64 {
                let mut tokens = compare(&lexicon, &machine, &text);
                // Most texts open more brackets than they close.
                let opens = |token: &u32| lexicon.bytes(*token).iter().any(|byte| b"([{<".contains(byte));
                if random.uniform(at, Purpose::Accept) < 0.6 && tokens.iter().any(opens) {
                    tokens.retain(opens);
                }
                let chosen = (random.uniform(at, Purpose::Token) * tokens.len() as f64) as usize;
                let Some(&token) = tokens.get(chosen) else { break };
                text.extend_from_slice(lexicon.bytes(token));
            }
            // All brackets are closed, each byte by byte.
            let end = machine.completion(machine.next(machine.start(), &text)).unwrap();
            for byte in end {
                text.push(byte);
                compare(&lexicon, &machine, &text);
            }
        }
    }
}

#[test]
fn masks_in_deep_brackets_cost_no_more_states_than_in_shallow_ones() {
    let lexicon = lexicon();
    let machine = Machine::new(Grammar::parse(Language::Lark, NAMES).unwrap(), lexicon.index().clone());
    let states = |depth: usize| {
        let before = machine.states_memory();
        machine.mask(machine.next(machine.start(), "[(".repeat(depth).as_bytes()));
        machine.states_memory() - before
    };
    let (first, second, third) = (states(1), states(2), states(3));
    assert!(second > 0 && third < first / 3, "{first} {second} {third}");
}
