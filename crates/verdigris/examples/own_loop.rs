//! A custom decoding loop with a model, a constraint and a sampler, without [`verdigris::Request`]:
//! `cargo run --release -p verdigris-engine --example own_loop`
//!
//! This is for programs that already have a loop. A [`Cursor`](verdigris::constrain::Cursor) returns the tokens that
//! are allowed next and those that are forced, so that forced tokens need no call of the model.

use verdigris::constrain::Constraint;
use verdigris::logits::{Row, Sampler};
use verdigris::models::{Batch, Rows, Wanted};
use verdigris::{Engine, Style};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale"))?;
    let schema = serde_json::json!({
        "type": "object", "required": ["name", "age"], "additionalProperties": false,
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 16}}
    });
    let tokenizer = engine.reader().tokenizer();
    let prompt = tokenizer.encode_prompt("The captain: ")?;
    let constraint = Constraint::json_schema(engine.lexicon(), &schema, Style::default())?;
    let mut cursor = constraint.cursor(&prompt);

    let (mut sequence, mut rows) = (engine.model().clone().begin(256)?, Rows::default());
    let (mut unread, mut written, mut calls) = (prompt, Vec::new(), 0);
    let mut row = Row::default();
    loop {
        // Forced tokens are not sampled. The model reads them together with the next sampled token.
        for token in cursor.forced() {
            cursor.advance(token);
            unread.push(token);
            written.push(token);
        }
        let mask = cursor.mask();
        if mask.accepts {
            break;
        }
        sequence.forward(&Batch::chain(&unread, Wanted::Last), &mut rows)?;
        calls += 1;
        unread.clear();
        row.load(rows.last());
        row.restrict(&mask.tokens);
        let token = Sampler::Greedy.sample(&row, 0.0).ok_or("no token is left")?;
        cursor.advance(token);
        unread.push(token);
        written.push(token);
    }
    println!("{}\n{} tokens, {calls} calls of the model", tokenizer.decode(&written), written.len());
    Ok(())
}
