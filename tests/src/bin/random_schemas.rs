//! Has texts under random schemas judged by another library: `cargo run --release -p verdigris-tests --bin
//! random_schemas [MODEL] [TEXTS] [TOKENS] [SHARED]`.
//!
//! A model (a folder or a GGUF file; the fixture `tale` by default) generates TEXTS texts (100) of at most TOKENS
//! tokens (200), each under another schema and after one of four prompts, every second one marked. Half of the schemas
//! are random; half are from other people if SHARED (`../shared`) holds `json-schema/schemas-dev.jsonl.zst`. A complete
//! text must be valid by the `jsonschema` crate; an incomplete one must be reported as such, and be a prefix of a text
//! of its schema. `VERDIGRIS_SEED` chooses the schemas and the texts.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use rayon::prelude::*;
use serde_json::Value;
use verdigris::logits::{Purpose, Random};
use verdigris::{Engine, Error, Grammar, Key, Marking, Style};
use verdigris_tests::foreign::{self, Case};
use verdigris_tests::harness;
use verdigris_tests::random_schema::Chance;

const PROMPTS: [&str; 4] = ["", "The captain's answer, as JSON:\n", "{\"id\": 7}\n", "Once upon a time"];

/// The outcome of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Valid,
    /// It is reported as incomplete.
    Cut,
    /// Reported before generation: no text of the schema is short enough.
    NoRoom,
    /// It is complete, but nested deeper than the judge's parser allows.
    TooDeep,
    /// Reported: computing the allowed tokens took too much work or memory.
    GaveUp,
    Invalid,
}

/// The nesting depth that `serde_json` reads.
const READABLE: usize = 127;

/// The nesting depth of arrays and objects.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut is_text, mut is_escaped) = (0usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => (),
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// A schema that both the engine and the judge support.
struct Schema {
    schema: Value,
    style: Style,
    judge: jsonschema::Validator,
}

impl Schema {
    fn new(schema: Value, style: Style) -> Option<Self> {
        Grammar::json_schema(&schema, style).ok()?;
        let judge = jsonschema::validator_for(&schema).ok()?;
        Some(Self { schema, style, judge })
    }

    fn by_chance(seed: u64) -> Option<Self> {
        let mut chance = Chance::new(seed);
        let schema = chance.schema(3);
        let style = chance.one(&[Style::default(), Style::default().closed(), Style::default().any_order()]);
        Self::new(schema, style)
    }

    /// A randomly chosen schema of other people.
    fn foreign(cases: &[Case], seed: u64) -> Option<Self> {
        let number = Random::new(seed).uniform(0, Purpose::Data) * cases.len() as f64;
        Self::new(cases[number as usize].schema.clone(), Style::default())
    }
}

/// A source of schemas: gives one for a seed, if it is supported.
type Source<'c> = Box<dyn Fn(u64) -> Option<Schema> + Sync + 'c>;

/// The engine that generates, with its settings.
struct Writer {
    engine: Engine,
    key: Key,
    tokens: usize,
}

impl Writer {
    /// Generates a text under a schema and returns the outcome.
    fn write(&self, Schema { schema, style, judge }: &Schema, seed: u64) -> Fate {
        let grammar = Grammar::json_schema(schema, *style).expect("it is understood");
        let form = self.engine.constraint(grammar);
        let request = self.engine.request(PROMPTS[(seed / 2 % 4) as usize]).constraint(&form).max_tokens(self.tokens);
        let request = request.temperature(1.0).top_p(1.0).seed(seed);
        let request = if seed.is_multiple_of(2) { request.watermark(&self.key) } else { request };
        let written = match request.text() {
            Ok(written) => written,
            Err(Error::NoRoom(_)) => return Fate::NoRoom,
            Err(Error::OverBudget(_)) => return Fate::GaveUp,
            Err(fault) => {
                println!("\nFAILED: {schema}: {fault}\n");
                return Fate::Invalid;
            }
        };
        match written.complete {
            Some(true) if depth(&written.text) > READABLE => Fate::TooDeep,
            Some(true) if harness::is_valid(judge, written.text.as_bytes()) => Fate::Valid,
            // The last token may end in the middle of a character.
            Some(false) if form.begins(written.text.trim_end_matches('\u{fffd}').as_bytes()) => Fate::Cut,
            _ => {
                println!("\nFAILED: {schema}: wrote {:?}\n", written.text);
                Fate::Invalid
            }
        }
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let engine = harness::chosen(arguments.next());
    let texts: u64 = arguments.next().map_or(100, |n| n.parse().expect("a number of texts"));
    let tokens = arguments.next().map_or(200, |n| n.parse().expect("a number of tokens"));
    let shared = arguments.next().unwrap_or_else(|| "../shared".into());
    let key = Key::from_secret([5; 32], "schemas", Marking::lists(), engine.reader().vocabulary());
    // The number of the first text; the schemas that are tried for it have the upper half.
    let first = u64::from(harness::seed()) << 4;
    let writer = Writer { engine, key: key.expect("a usual key"), tokens };
    let cases = foreign::cases(&Path::new(&shared).join("json-schema/schemas-dev.jsonl.zst"));
    let mut sources: Vec<(&str, Source<'_>)> = vec![("by chance", Box::new(Schema::by_chance))];
    match &cases {
        Some(cases) => sources.push(("of other people", Box::new(|seed| Schema::foreign(cases, seed)))),
        None => println!("LEFT OUT: schemas of other people, for {shared} has none"),
    }
    println!(
        "| schemas | texts | valid | too deep to judge | cut | no room | gave up | invalid \
         |\n|---|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut failed = false;
    let each = texts.div_ceil(sources.len() as u64);
    for (name, schema) in &sources {
        let write = |seed: u64| {
            // The first supported one of the schemas for this text.
            let schema = (0..).find_map(|n| schema(n << 32 | seed)).expect("one is understood");
            writer.write(&schema, seed)
        };
        let fates: Vec<Fate> = (first..first + each).into_par_iter().map(write).collect();
        let of = |fate| fates.iter().filter(|&&of| of == fate).count();
        let [valid, too_deep, cut, no_room, gave_up, invalid] =
            [Fate::Valid, Fate::TooDeep, Fate::Cut, Fate::NoRoom, Fate::GaveUp, Fate::Invalid].map(of);
        println!("| {name} | {each} | {valid} | {too_deep} | {cut} | {no_room} | {gave_up} | {invalid} |");
        failed |= invalid > 0;
    }
    harness::status(!failed)
}
