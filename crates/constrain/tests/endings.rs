//! A text with room for an ending has one: if any text fits into a number of tokens, every text that is written within
//! that number is complete.

mod lexicon;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::json;
use verdigris_constrain::{Constraint, Grammar, Lexicon, Machine, State, Style};
use verdigris_logits::{Purpose, Random, Row, Sampler, TokenId, Transform};
use verdigris_text::Tokenizer;

use self::lexicon::lexicon_of;

/// The fewest tokens of a text, found breadth-first; `None` if there are more than `most`.
fn fewest(machine: &Machine, lexicon: &Lexicon, most: usize) -> Option<usize> {
    let mut seen: HashSet<State> = HashSet::from([machine.start()]);
    let mut open = vec![machine.start()];
    for tokens in 0..=most {
        if open.iter().any(|&state| machine.accepts(state)) {
            return Some(tokens);
        }
        let mut next = Vec::new();
        for state in open {
            for token in 1..lexicon.tokenizer().vocabulary().size() as TokenId {
                let after = machine.next(state, lexicon.bytes(token));
                if machine.goes_on(after) && seen.insert(after) {
                    next.push(after);
                }
            }
        }
        open = next;
    }
    None
}

/// Whether a text of randomly chosen allowed tokens is complete once `tokens` are written.
fn ends_whole(constraint: &Constraint, tokens: usize, seed: u64) -> bool {
    let (mut standing, mut row) = (constraint.start(&[]), Row::default());
    let mut cursor = constraint.cursor(&[]);
    let logits = vec![0.0; constraint.lexicon().tokenizer().vocabulary().size()];
    for position in 0..tokens as u64 {
        row.load(&logits);
        constraint.apply(&standing, &mut row);
        let u = Random::new(seed).uniform(position, Purpose::Token);
        match Sampler::Categorical.sample(&row, u) {
            None | Some(0) => break,
            Some(token) => {
                constraint.advance(&mut standing, token);
                cursor.advance(token);
            }
        }
    }
    cursor.is_accepting()
}

/// The number of cases with room for the fewest tokens, but not for one token per byte.
static TIGHT: AtomicUsize = AtomicUsize::new(0);

fn machine_needs_more(machine: &Machine, tokens: usize) -> bool {
    machine.to_end(machine.start()) > tokens as u64
}

fn obeys_its_room(grammar: impl Fn() -> Grammar, lexicon: &Lexicon) -> Result<(), TestCaseError> {
    const MOST: usize = 9;
    let fresh = Machine::new(grammar(), lexicon.index().clone());
    let fewest = fewest(&fresh, lexicon, MOST);
    for tokens in 0..=MOST {
        let constraint = Constraint::new(grammar(), lexicon).within(tokens);
        let has_room = fewest.is_some_and(|fewest| fewest <= tokens);
        let check = constraint.check();
        prop_assert_eq!(check.is_ok(), has_room, "within {}: {:?}, {:?} needed", tokens, check, fewest);
        if has_room && machine_needs_more(&fresh, tokens) {
            TIGHT.fetch_add(1, Ordering::Relaxed);
        }
        for seed in 0..8 {
            prop_assert!(
                !has_room || ends_whole(&constraint, tokens, seed),
                "within {tokens}, seed {seed}, {fewest:?}"
            );
        }
    }
    Ok(())
}

fn run<T: std::fmt::Debug>(
    cases: u32,
    strategy: &impl Strategy<Value = T>,
    test: impl Fn(&T) -> Result<(), TestCaseError>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(strategy, |case| test(&case)).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(TIGHT.load(Ordering::Relaxed) > cases as usize / 4, "these cases say little");
}

/// The shortest ending in bytes is seldom the shortest in tokens here, and some bytes are not tokens.
#[test]
fn expressions_are_whole_in_time() {
    let vocabularies =
        [&["a", "b", "c", "ab", "abc", "cab", "bbbb"][..], &["a", "b", "c"], &["a", "bc", "ca", "aab", "cc", "b"]];
    let lexicons = vocabularies.map(lexicon_of);
    let leaf = prop::sample::select(vec!["a", "b", "c", "ab", "bca", "abc", "[ab]", "[abc]", "[ac]", "bbb", "ccab"]);
    let expression = leaf.prop_map(str::to_owned).prop_recursive(4, 16, 4, |inner| {
        let repeated = (inner.clone(), prop::sample::select(vec!["?", "*", "+", "{2}", "{3,}", "{1,3}", "{4}"]));
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 2..5).prop_map(|parts| parts.concat()),
            2 => prop::collection::vec(inner, 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => repeated.prop_map(|(part, times)| format!("(?:{part}){times}")),
        ]
    });
    run(600, &(0..3usize, expression), |(which, pattern)| {
        obeys_its_room(|| Grammar::regex(pattern).expect("it is an expression"), &lexicons[*which])
            .map_err(|fault| TestCaseError::fail(format!("{pattern}: {fault}")))
    });
}

#[test]
fn schemas_are_whole_in_time() {
    let signs =
        ["{", "}", "[", "]", "\"", ":", ",", " ", "-", ".", "0", "1", "2", "a", "b", "n", "u", "l", "t", "r", "e"];
    let words =
        ["{\"", "\":", "\",\"", "\"a\":", "null", "true", "[[", "]]", "\"}", "},", "ab", "aaa", "\"b\":[", "12"];
    let lexicon = lexicon_of(&[&signs[..], &words[..]].concat());
    let leaf = prop::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": "string", "minLength": 2, "maxLength": 4}),
        json!({"type": "null"}),
        json!({"enum": ["abba", 12, true]}),
        json!({"type": "integer", "minimum": 10, "maximum": 21}),
        json!({"type": "array", "items": {"enum": [1, 2, "a"]}, "uniqueItems": true, "minItems": 2}),
        json!({"type": "string", "pattern": "^a{2,3}b$"}),
    ]);
    let schema = leaf.prop_recursive(2, 8, 3, |inner| {
        let object = (inner.clone(), inner.clone(), 0..3usize).prop_map(|(a, b, required)| {
            let required = &["ab", "a"][..required];
            json!({"type": "object", "properties": {"a": a, "ab": b}, "required": required,
                "additionalProperties": false})
        });
        let array = (inner.clone(), 0..3u32, prop::bool::ANY).prop_map(|(items, least, some)| match some {
            true => json!({"type": "array", "items": items, "minItems": least, "maxItems": least + 1}),
            false => json!({"type": "array", "items": items, "minItems": least}),
        });
        let open = inner
            .clone()
            .prop_map(|other| json!({"type": "object", "additionalProperties": other, "minProperties": 1}));
        let any = prop::collection::vec(inner, 2..3).prop_map(|any| json!({"anyOf": any}));
        prop_oneof![3 => object, 2 => array, 1 => open, 1 => any]
    });
    run(120, &(schema, prop::bool::ANY), |(schema, any_order)| {
        let order = if *any_order { verdigris_constrain::Order::Any } else { verdigris_constrain::Order::Schema };
        let style = Style { order, ..Style::default() };
        let grammar = || Grammar::json_schema(schema, style).expect("it is a schema");
        obeys_its_room(grammar, &lexicon).map_err(|fault| TestCaseError::fail(format!("{schema}: {fault}")))
    });
}

/// The same if names or items must differ, in a vocabulary that has all bytes.
#[test]
fn texts_whose_parts_differ_are_whole_in_time() {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    let lexicon = Lexicon::new(Arc::new(Tokenizer::from_json(json).expect("the fixture")), &[0]);
    let item = json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {}}, "required": ["a"],
        "additionalProperties": false});
    let unique = json!({"type": "array", "items": item, "uniqueItems": true, "minItems": 1});
    for schema in [json!({"type": "object", "minProperties": 2}), unique] {
        let style = Style { order: verdigris_constrain::Order::Any, ..Style::default() };
        let constraint = Constraint::new(Grammar::json_schema(&schema, style).expect("it is a schema"), &lexicon);
        // The shortest text has twelve bytes.
        for tokens in [12, 14, 40] {
            let within = constraint.within(tokens);
            for seed in 0..3 {
                assert!(ends_whole(&within, tokens, seed), "{schema} in {tokens} tokens, seed {seed}");
            }
        }
    }
}
