//! The search for an ending within the token limit of a text is bounded, in work and in all its allocations, and its
//! memory is accounted for.

use std::alloc::System;
use std::sync::Arc;

use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use verdigris::constrain::{Constraint, Grammar, Lexicon, Style};
use verdigris::logits::{Purpose, Random, Row, Sampler, Transform};
use verdigris::text::Tokenizer;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The memory limit of a search, and half that of a whole text.
const MOST: usize = 64 << 20;

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Names and items that must differ, each of which leads to separate states. The token limits are smaller than the
/// shortest ending in bytes, but larger than its length in tokens if all of them were as long as the longest.
fn cases() -> Vec<(Value, usize)> {
    let digits = json!({"type": "integer", "minimum": 0, "maximum": 99});
    vec![
        (json!({"type": "object", "propertyNames": {"minLength": 4}, "minProperties": 4}), 20),
        (json!({"type": "object", "minProperties": 4}), 12),
        (json!({"type": "object", "minProperties": 4}), 20),
        (json!({"type": "object", "minProperties": 3}), 12),
        (json!({"type": "object", "minProperties": 3}), 150),
        (json!({"type": "array", "uniqueItems": true, "minItems": 20, "items": digits}), 45),
    ]
}

fn main() {
    let json = include_bytes!("../../fixtures/models/tale/tokenizer.json");
    let lexicon = Lexicon::new(Arc::new(Tokenizer::from_json(json).expect("it is a tokenizer")), &[0]);
    let _index = lexicon.index();
    for (schema, room) in cases() {
        let constraint = Constraint::new(Grammar::json_schema(&schema, Style::default()).unwrap(), &lexicon);
        let region = Region::new(ALLOCATOR);
        let machine = constraint.machine();
        let searched = machine.ends_within(machine.start(), room as u64);
        let (search, counted) = (held(&region), machine.states_memory());
        assert!(search <= MOST, "{schema} within {room}: {search} bytes for a search ({searched:?})");
        // A few pages need no exact accounting.
        let allowance = 1 << 20;
        assert!(
            counted + allowance >= search / 2 && counted / 2 <= search + allowance,
            "{schema} within {room}: {counted} bytes are counted, {search} are held"
        );
        let within = constraint.within(room);
        let tokens = random_text(&within, room as u64);
        let all = held(&region);
        println!(
            "{schema} within {room}: {searched:?}, {search} bytes held, {counted} counted, {all} after {tokens} tokens"
        );
        assert!(all <= 2 * MOST, "{schema} within {room}: {all} bytes after a text");
    }
}

/// Generates a random text, to its end or to `most` tokens. Returns the number of tokens.
fn random_text(constraint: &Constraint, most: u64) -> u64 {
    let (mut state, mut row) = (constraint.start(&[]), Row::default());
    for position in 0..most {
        row.load(&[0.0; 4096]);
        constraint.apply(&state, &mut row);
        match Sampler::Categorical.sample(&row, Random::new(1).uniform(position, Purpose::Token)) {
            None | Some(0) => return position,
            Some(token) => constraint.advance(&mut state, token),
        }
    }
    most
}
