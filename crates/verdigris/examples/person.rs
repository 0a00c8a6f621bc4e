//! A value of a Rust type, written by a model:
//! `cargo run --release -p verdigris --example person`
//!
//! The type says what can be written, and the model what is. Nothing is parsed in the hope that it fits: no token that
//! would break the type's schema can come.

use std::io::Write;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Deserialize;
use verdigris::{Engine, Error};

#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "shown as a whole")]
struct Person {
    #[schemars(regex(pattern = "^[A-Z][a-z]+( [A-Z][a-z]+)+$"), length(max = 30))]
    name: String,
    #[schemars(range(min = 16, max = 99))]
    age: u8,
    rank: Rank,
    #[schemars(length(min = 1, max = 3))]
    ships: Vec<Ship>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Rank {
    Captain,
    Mate,
    Cook,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[allow(dead_code, reason = "shown as a whole")]
struct Ship {
    #[schemars(length(min = 3, max = 20))]
    name: String,
    sunk: bool,
}

fn main() -> Result<(), Error> {
    let engine = Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale"))?;
    let request = engine.request("The old sailor told us who he was: ").temperature(0.8).seed(7);
    // `request.json::<Person>()?` is all that is needed; this also shows the JSON as it comes.
    let (person, written) = request.json_stream::<Person>(|piece| {
        print!("{piece}");
        match std::io::stdout().flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    println!("\n\n{person:#?}\n{} tokens", written.tokens.len());
    Ok(())
}
