//! The memory of a constraint is bounded, however many texts are written under it.

use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde_json::json;
use verdigris_constrain::{Constraint, Cursor, Grammar, Lexicon, Machine, Order, OverBudget, Style};
use verdigris_logits::{Purpose, Random, Row, Sampler, TokenId, Transform};
use verdigris_text::Tokenizer;

static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    Lexicon::new(Arc::new(Tokenizer::from_json(json).expect("it is a tokenizer")), &[0])
});

/// Advances by a random token; returns `false` if the text ends.
fn step(cursor: &mut Cursor, text: &mut Vec<u8>, random: Random, position: u64) -> bool {
    let mask = cursor.mask();
    let count = mask.tokens.iter().count() + usize::from(mask.accepts);
    let chosen = (random.uniform(position, Purpose::Token) * count as f64) as usize;
    let token: Option<TokenId> = mask.tokens.iter().nth(chosen);
    if let Some(token) = token {
        text.extend_from_slice(LEXICON.bytes(token));
        cursor.advance(token);
    }
    token.is_some()
}

/// Completes a text, since `regex` cannot judge incomplete ones.
fn end(cursor: &Cursor, constraint: &Constraint, text: &mut Vec<u8>) {
    if !cursor.is_accepting() {
        let machine = constraint.machine();
        let state = machine.next(machine.start(), text);
        text.extend(machine.completion(state).expect("every text has an end"));
    }
}

#[test]
fn states_are_forgotten_with_their_texts() {
    // Each text reaches states of its own: sets of properties, of items, and of positions in the expression.
    const BYTES: usize = 1 << 20;
    let names: serde_json::Map<String, serde_json::Value> = (0..12)
        .map(|i| (format!("p{i}"), json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true})))
        .collect();
    let schema = json!({"type": "object", "properties": names, "additionalProperties": false});
    let style = Style { order: Order::Any, ..Style::default() };
    let pattern = "(?:[ab]*a[ab]{14}!|[a-f]*[bd][a-f]{12}[.]){1,9}";
    let judge = Regex::new(&format!("^(?:{pattern})$")).unwrap();
    let grammars = [Grammar::json_schema(&schema, style).unwrap(), Grammar::regex(pattern).unwrap()];
    for (number, grammar) in grammars.into_iter().enumerate() {
        let constraint = Constraint::new(grammar, &LEXICON).with_memory(BYTES);
        let first = Arc::as_ptr(&constraint.machine()).addr();
        // One text exists throughout, on its own machine.
        let (mut long, mut long_text) = (constraint.cursor(&[]), Vec::new());
        let mut most = 0;
        for seed in 0..1200 {
            let (mut cursor, mut text) = (constraint.cursor(&[]), Vec::new());
            let random = Random::new(seed);
            let mut position = 0;
            while position < 40 && step(&mut cursor, &mut text, random, position) {
                position += 1;
            }
            most = most.max(constraint.machine().states_memory());
            if seed % 50 == 0 {
                step(&mut long, &mut long_text, random, 99);
                end(&cursor, &constraint, &mut text);
                let text = String::from_utf8(text).unwrap();
                match number {
                    0 => drop(
                        serde_json::from_str::<serde_json::Value>(&text)
                            .unwrap_or_else(|fault| panic!("{fault}: {text}")),
                    ),
                    _ => assert!(judge.is_match(&text), "{text:?}"),
                }
            }
        }
        assert_ne!(Arc::as_ptr(&constraint.machine()).addr(), first, "nothing was forgotten");
        assert!(most < 2 * BYTES, "{most} bytes");
        end(&long, &constraint, &mut long_text);
        let long_text = String::from_utf8(long_text).unwrap();
        match number {
            0 => drop(serde_json::from_str::<serde_json::Value>(&long_text).unwrap()),
            _ => assert!(judge.is_match(&long_text), "{long_text:?}"),
        }
    }
}

/// The state depends on each of the last 3,000 characters, so each token leads to a state of its own.
#[test]
fn a_mask_that_is_too_much_work_is_given_up() {
    let ways: Vec<String> = ('a'..='z').zip(3000..).map(|(c, times)| format!("{c}(?s:.){{{times}}}")).collect();
    let pattern = format!("(?s:.)*(?:{})", ways.join("|"));
    let machine = Machine::new(Grammar::regex(&pattern).unwrap(), LEXICON.index().clone());
    let begun = machine.next(machine.start(), &[b'a'; 3500]);
    let before = machine.states_memory();
    let mask = machine.mask(begun);
    let fault = machine.fault().expect("it is too much work").to_string();
    assert!(fault.contains("make the regular expression simpler"), "{fault}");
    assert!(mask.tokens.is_empty() && !mask.accepts);
    assert!(machine.states_memory() < before + (1 << 20), "what the walk has made is forgotten");
    // Other requests are still answered.
    assert!(machine.accepts(machine.next(begun, b"a, b")));
}

/// Each of many strings needs a walk of its own: one is cheap, but all are too much for one mask.
#[test]
fn many_walks_for_one_mask_are_given_up_too() {
    let machine = |strings: u32| {
        let strings =
            (0..strings).map(|i| json!({"type": "string", "pattern": "^([a-z][a-z])*$", "maxLength": 1000 + i}));
        let schema = json!({"properties": {"code": {"anyOf": strings.collect::<Vec<_>>()}}});
        Machine::new(Grammar::json_schema(&schema, Style::default()).unwrap(), LEXICON.index().clone())
    };
    let (few, many) = (machine(10), machine(3000));
    let inside = |machine: &Machine| machine.next(machine.start(), b"{\"code\":\"ab");
    let allowed = few.mask(inside(&few)).tokens.iter().count();
    assert!(few.fault().is_none() && allowed > 100, "{allowed} tokens");
    let mask = many.mask(inside(&many));
    assert_eq!(many.fault(), Some(OverBudget::Work { path: "#/properties/code".into() }));
    assert!(mask.tokens.is_empty() && !mask.accepts);
    assert!(many.goes_on(many.next(inside(&many), b"cd\"}")), "what is asked in other ways is still answered");
}

/// Such strings, next to properties that are cheap.
fn with_much_work() -> serde_json::Value {
    let code = (0..3000).map(|i| json!({"type": "string", "pattern": "^([a-z][a-z])*$", "maxLength": 1000 + i}));
    json!({"properties": {"name": {"type": "string"}, "code": {"anyOf": code.collect::<Vec<_>>()},
        "ship": {"enum": ["sloop", "brig"]}, "year": {"type": "integer"}}})
}

/// Texts that cannot be followed are reported, without any effect on others.
#[test]
fn what_is_too_much_for_one_text_is_nothing_to_another() {
    let tokens = |text: &str| LEXICON.tokenizer().encode(text).unwrap();
    let [short, long] = [r#"{"name":"x","ship":"brig","year":1851}"#, r#"{"name":"x","code":"abcd"}"#].map(tokens);
    let constraint = || Constraint::json_schema(&LEXICON, &with_much_work(), Style::default()).unwrap();
    let alone = constraint().choices(b"", &short).unwrap();
    let both = constraint();
    for _ in 0..2 {
        let departure = both.choices(b"", &long).unwrap_err();
        assert_eq!(departure.explanation.over_budget, Some(OverBudget::Work { path: "#/properties/code".into() }));
        let said = departure.to_string();
        assert!(said.contains("the constraint cannot be followed ") && said.contains("too much work"), "{said}");
        assert_eq!(both.choices(b"", &short).unwrap(), alone);
    }
    assert!(alone.contains(&1) && alone.iter().any(|&ways| ways > 1), "{alone:?}");
    // The same while writing: a text that cannot continue leaves the masks of others unchanged.
    let (mut row, mut dead) = (Row::default(), both.start(&[]));
    let mut allowed = |state: &_| {
        row.load(&[0.0; 4096]);
        both.apply(state, &mut row);
        row.logits().iter().filter(|logit| logit.is_finite()).count()
    };
    for token in tokens(r#"{"name":"x","code":"ab"#) {
        both.advance(&mut dead, token);
    }
    assert_eq!(allowed(&dead), 0);
    assert_eq!(both.fault(), Some(OverBudget::Work { path: "#/properties/code".into() }));
    let mut state = both.start(&[]);
    for &token in &short {
        assert!(allowed(&state) > 0);
        both.advance(&mut state, token);
    }
}

/// The cost of a mask does not depend on which of its parts are cached.
#[test]
fn what_is_known_already_is_paid_for() {
    let machine = |schema: &serde_json::Value| {
        Machine::new(Grammar::json_schema(schema, Style::default()).unwrap(), LEXICON.index().clone())
    };
    let schema = with_much_work();
    let places = [r#"{"code":"ab"#, r#"{"name":"x","code":"ab"#, r#"{"name":"y","code":"abcd"#];
    let one = machine(&schema);
    for _ in 0..3 {
        for place in places {
            let state = one.next(one.start(), place.as_bytes());
            assert!(one.mask(state).tokens.is_empty() && one.fault_at(state).is_some(), "{place}");
        }
    }
    // Fewer strings are not too much, however often their parts recur.
    let mut fewer = schema.clone();
    fewer["properties"]["code"]["anyOf"].as_array_mut().unwrap().truncate(300);
    let one = machine(&fewer);
    for place in places {
        let fresh = machine(&fewer);
        let [warm, cold] = [&one, &fresh].map(|machine| machine.next(machine.start(), place.as_bytes()));
        assert_eq!(one.mask(warm), fresh.mask(cold), "{place}");
        assert!(one.fault_at(warm).is_none() && !one.mask(warm).tokens.is_empty(), "{place}");
    }
}

/// The memory of states is shared by all texts of a machine: a text that would fit on its own gets its own machine.
#[test]
fn a_text_is_read_whatever_others_have_left_of_the_memory() {
    const BYTES: usize = 8 << 20;
    let schema = json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
    let constraint = || {
        let constraint = Constraint::json_schema(&LEXICON, &schema, Style::default()).unwrap();
        constraint.with_memory(BYTES).with_text_memory(BYTES)
    };
    let tokens = |begin: u32, count: u32| {
        let numbers: Vec<String> = (begin..begin + count).map(|i| (i * 7919 % 100_000).to_string()).collect();
        LEXICON.tokenizer().encode(&format!("[{}]", numbers.join(","))).unwrap()
    };
    let states = |tokens: &[TokenId]| {
        let constraint = constraint();
        let machine = constraint.machine();
        let choices = constraint.choices(b"", tokens);
        (choices, machine.states_memory())
    };
    assert!(matches!(
        states(&tokens(0, 3000)).0.unwrap_err().explanation.over_budget,
        Some(OverBudget::Memory { path, most: BYTES }) if path == "#"
    ));
    // A text that takes most of the memory, after some that take less than half of it.
    let large = (1..).map(|tens| tokens(0, 10 * tens)).find(|tokens| states(tokens).1 > BYTES * 5 / 8).unwrap();
    let (alone, bytes) = states(&large);
    assert!(alone.is_ok() && bytes < BYTES, "{bytes}");
    let shared = constraint();
    let machine = shared.machine();
    for text in 1.. {
        shared.choices(b"", &tokens(1000 * text, 5)).unwrap();
        if machine.states_memory() > BYTES * 3 / 8 {
            break;
        }
    }
    assert!(Arc::ptr_eq(&machine, &shared.machine()), "{}", machine.states_memory());
    assert_eq!(shared.choices(b"", &large), alone);
    assert!(machine.states_memory() > BYTES, "it had no room there");
}

/// Texts are the same with a new machine for each text and with one machine for all.
#[test]
fn what_is_forgotten_changes_no_text() {
    let schema = json!({"type": "object", "required": ["name", "tags"], "properties": {
        "name": {"type": "string", "maxLength": 12}, "tags": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}}});
    let constraint = Constraint::json_schema(&LEXICON, &schema, Style::default()).unwrap().within(60);
    let forgetful = constraint.with_memory(0);
    for seed in 0..60 {
        let texts = [&constraint, &forgetful].map(|constraint| {
            let (mut cursor, mut text) = (constraint.cursor(&[]), Vec::new());
            let random = Random::new(seed);
            (0..60).take_while(|&position| step(&mut cursor, &mut text, random, position)).count();
            text
        });
        assert_eq!(texts[0], texts[1]);
    }
}

/// Writes a text that continues as long as possible: `tokens` tokens, or until none is allowed. Returns their number,
/// and the memory of the states at the end.
fn text_without_end(constraint: &Constraint, tokens: u64) -> (u64, usize) {
    let machine = constraint.machine();
    let (mut state, mut row) = (constraint.start(&[]), Row::default());
    let mut at = machine.start();
    for position in 0..tokens {
        row.load(&[0.0; 4096]);
        constraint.apply(&state, &mut row);
        // The first of several sampled tokens that does not complete the text.
        let draws = (0..400).map(|draw| Random::new(7).uniform(400 * position + draw, Purpose::Token));
        let tokens = draws.map_while(|draw| Sampler::Categorical.sample(&row, draw)).filter(|&token| token != 0);
        let next = |token| (token, machine.advance(at, token, LEXICON.bytes(token)));
        let goes_on = tokens.map(next).find(|&(_, next)| !machine.accepts(next));
        let Some((token, next)) = goes_on else { return (position, machine.states_memory()) };
        constraint.advance(&mut state, token);
        at = next;
    }
    (tokens, machine.states_memory())
}

#[test]
fn a_text_without_end_has_a_bound() {
    const BYTES: usize = 4 << 20;
    let constraint = |schema| {
        let constraint = Constraint::json_schema(&LEXICON, &schema, Style::default()).unwrap();
        constraint.with_memory(BYTES / 4).with_text_memory(BYTES)
    };
    // If what comes next depends on everything written, memory grows with the text.
    let different = constraint(json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true}));
    let (tokens, bytes) = text_without_end(&different, 5000);
    assert!((100..5000).contains(&tokens) && (BYTES..BYTES + BYTES / 8).contains(&bytes), "{tokens}: {bytes}");
    let fault = different.fault().expect("it says why");
    assert_eq!(fault, OverBudget::Memory { path: "#".into(), most: BYTES });
    assert!(fault.to_string().contains("more than 4 MiB") && fault.to_string().contains("maxItems"), "{fault}");
    // The next text has a machine of its own.
    assert!(!different.cursor(&[]).mask().tokens.is_empty());
    // If it does not, states recur.
    let shapes = json!({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"$ref": "#"}, {"properties": {
        "name": {"type": "string", "maxLength": 8}, "tags": {"type": "array", "items": {"type": "string"}}}}]}});
    let again = constraint(shapes);
    let (tokens, bytes) = text_without_end(&again, 5000);
    assert!(tokens == 5000 && bytes < BYTES / 8 && again.fault().is_none(), "{tokens}: {bytes}");
}
