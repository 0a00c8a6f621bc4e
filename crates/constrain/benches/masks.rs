//! Benchmarks of a constraint: building it, computing a mask for the first time, and looking up a known one.
//!
//! `cargo bench -p verdigris-constrain`; set `VERDIGRIS_TOKENIZER=path/to/tokenizer.json` for another vocabulary than
//! the 4,096 tokens of `tale`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use serde_json::json;
use verdigris_constrain::{Grammar, Machine, Style, TokenIndex};
use verdigris_text::Tokenizer;

fn masks(criterion: &mut Criterion) {
    let path = std::env::var("VERDIGRIS_TOKENIZER")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale/tokenizer.json").into());
    let json = std::fs::read(&path).expect("a tokenizer");
    let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
    let schema = json!({
        "type": "object", "required": ["name", "age"], "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "maxLength": 40},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    });
    let text = "{\"name\": \"John Smith the third\", \"age\": 42, \"tags\": [\"a long tag\", \"another\"]}";
    let grammar = || Grammar::json_schema(&schema, Style::default()).expect("a schema");
    criterion.bench_function("index", |bench| bench.iter(|| TokenIndex::new(black_box(tokenizer.vocabulary()))));
    criterion.bench_function("schema to grammar", |bench| bench.iter(grammar));

    let index = Arc::new(TokenIndex::new(tokenizer.vocabulary()));
    for (place, next) in [("a number", "42"), ("a string", "John")] {
        let before = &text.as_bytes()[..text.find(next).expect("a part of the text")];
        let cold = || {
            let machine = Machine::new(grammar(), index.clone());
            let state = machine.next(machine.start(), before);
            (machine, state)
        };
        criterion.bench_function(&format!("new mask in {place}"), |bench| {
            bench.iter_batched_ref(cold, |(machine, state)| machine.mask(*state), BatchSize::LargeInput);
        });
    }

    // Everything that a text needs once another has taken the same path: masks and steps.
    let (machine, tokens) = (Machine::new(grammar(), index), tokenizer.encode(text).unwrap());
    let walk = || {
        tokens.iter().fold(machine.start(), |state, &token| {
            black_box(machine.mask(state));
            machine.advance(state, token, tokenizer.vocabulary().bytes(token))
        })
    };
    walk();
    criterion.bench_function(&format!("known masks and steps of {} tokens", tokens.len()), |bench| bench.iter(walk));
}

criterion_group!(benches, masks);
criterion_main!(benches);
