//! Runs many requests in one process: `cargo run --release -p verdigris-tests --bin soak [REQUESTS]`.
//!
//! Three trials, which any server that runs for months must pass:
//!
//! - REQUESTS requests (10,000 by default) of every kind in turn, then half that number of texts under one constraint
//!   and half under schemas with many states. The heap at the end is as large as after the first tenth, up to
//!   [`GROWTH`].
//! - Eight threads on one engine generate the same texts as one thread.
//!
//! Bytes are counted by the allocator, so the figures describe the program and not the machine.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Map, Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use verdigris::{Constraint, Engine, Error, Grammar, Key, Level, Look, Marking, Message, Offsets, Request, Style};
use verdigris_tests::harness::{self, engine};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The number of bytes by which the heap may grow after the first tenth.
const GROWTH: usize = 8 << 20;

/// The memory, in bytes, for masks and states of a constraint with many states.
const MEMORY: usize = 1 << 20;

fn main() -> ExitCode {
    let Some(requests) = harness::argument(1, 10_000u64).filter(|requests| *requests >= 20) else {
        return harness::usage("soak [REQUESTS], of which there are at least 20");
    };
    let house = House::new();
    println!("| trial | texts | MB after a tenth | MB at the end | seconds |");
    println!("|---|--:|--:|--:|--:|");
    let one = house.small.constraint(Grammar::regex(r"(\w{1,12} ){2,5}\w{1,12}[.!?]").expect("a pattern"));
    let shapes = house.many_shapes();
    let flat = [
        flat("every kind", requests, |n| house.any(n)),
        flat("one constraint", requests / 2, |n| house.constrained(&one, n)),
        flat("schemas with many shapes", requests / 2, |n| house.constrained(&shapes[n as usize % shapes.len()], n)),
    ];
    let equal = house.threads_agree(requests / 50);
    println!("eight threads on one engine: {}", if equal { "the texts of one" } else { "FAILED: other texts" });
    harness::status(flat.iter().all(|&flat| flat) && equal)
}

/// Whether the heap stays constant while `each` runs.
fn flat(name: &str, count: u64, each: impl Fn(u64) -> Result<String, Error>) -> bool {
    let (started, mut early) = (Instant::now(), 0);
    for n in 0..count {
        each(n).unwrap_or_else(|fault| panic!("{name}, request {n}: {fault}"));
        if n == count / 10 {
            early = held();
        }
    }
    let (late, seconds) = (held(), started.elapsed().as_secs_f64());
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!("| {name} | {count} | {:.1} | {:.1} | {seconds:.0} |", megabytes(early), megabytes(late));
    let flat = late < early + GROWTH;
    if !flat {
        println!("\nFAILED: {name} grows\n");
    }
    flat
}

/// The bytes on the heap.
fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// Models and a key, as in a program that serves many requests.
struct House {
    small: Engine,
    twin: Engine,
    steered: Engine,
    chat: Engine,
    key: Key,
    schemas: Vec<Value>,
}

impl House {
    fn new() -> Self {
        let small = engine("tale-small");
        let (expert, anti) = (engine("tale-expert"), engine("tale-small"));
        let steered = engine("tale-small").steered(&[(&expert, &anti, 0.5)]).expect("one tokenizer");
        let key = Key::from_secret([9; 32], "soak", Marking::lists(), small.reader().vocabulary()).expect("a short id");
        let schemas = harness::schemas().into_iter().map(|(_, schema)| schema).collect();
        Self { small, twin: engine("tale-small"), steered, chat: chat(), key, schemas }
    }

    /// The `n`-th request, with the kinds in turn.
    fn any(&self, n: u64) -> Result<String, Error> {
        let schema = &self.schemas[n as usize % self.schemas.len()];
        let written = match n % 14 {
            0 => request(&self.small, n).text()?,
            1 => request(&self.small, n).watermark(&self.key).text()?,
            2 => request(&self.small, n).regex(format!("[a-z]{{1,{}}} [0-9]+", 1 + n % 9)).text()?,
            3 => request(&self.small, n).choice([format!(" yes {n}"), " no".into()]).text()?,
            4 => request(&self.small, n).json_schema(schema.clone()).max_tokens(200).text()?,
            5 => request(&self.small, n).draft(&self.twin).text()?,
            6 => request(&self.small, n).lookup().draft_tokens(3).watermark(&self.key).text()?,
            7 => request(&self.steered, n).watermark(&self.key).text()?,
            8 => request(&self.small, n).texts(3)?.pop().expect("three texts"),
            9 => {
                self.chat.chat([Message::user(format!("Who is captain {n}?"))]).max_tokens(length(n)).seed(n).text()?
            }
            10 => request(&self.small, n).temperature(0.7).top_k(40).top_p(0.9).repetition_penalty(1.1).text()?,
            11 => request(&self.small, n)
                .watermark(&self.key)
                .draft(&self.twin)
                .json_schema(schema.clone())
                .max_tokens(200)
                .text()?,
            12 => {
                let text = request(&self.small, n).watermark(&self.key).text()?.text;
                let look = Look {
                    level: Level::new(0.01).expect("a level"),
                    offsets: Offsets::new(2).expect("in bounds"),
                    passages: true,
                    ..Look::default()
                };
                self.small.reader().judge(&[&self.key], &text, &look)?;
                return Ok(text);
            }
            _ => {
                let text = request(&self.small, n).watermark(&self.key).text()?.text;
                self.small.reader().detect(&self.key, text.as_bytes())?;
                return Ok(text);
            }
        };
        Ok(written.text)
    }

    fn constrained(&self, constraint: &Constraint, n: u64) -> Result<String, Error> {
        Ok(self.small.request("").constraint(constraint).max_tokens(48).seed(n).text()?.text)
    }

    /// Schemas whose texts keep reaching new states: many names in any order, nested lists, counts. They have so little
    /// memory that their caches are evicted many times.
    fn many_shapes(&self) -> Vec<Constraint> {
        let open =
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": ["integer", "boolean"]}});
        let names: Map<String, Value> =
            (0..24).map(|i| (format!("name{i}"), json!({"type": ["null", "string"], "maxLength": 9}))).collect();
        let any_order = json!({"type": "object", "properties": names, "additionalProperties": false});
        let lists = json!({"$defs": {"list": {"type": "array", "maxItems": 5, "items":
            {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/list"}]}}}, "$ref": "#/$defs/list"});
        [(open, Style::default()), (any_order, Style::default().any_order()), (lists, Style::default())]
            .into_iter()
            .map(|(schema, style)| Grammar::json_schema(&schema, style).expect("a schema"))
            .map(|grammar| self.small.constraint(grammar).with_memory(MEMORY))
            .collect()
    }

    /// Whether eight threads on one engine, and on one constraint, generate the same texts as one thread.
    fn threads_agree(&self, texts: u64) -> bool {
        let constraint = &self.many_shapes()[1];
        let write = |n: u64| match n % 3 {
            0 => self.constrained(constraint, n).expect("a text"),
            // The best number of drafts depends on time, and the text on it; every other kind has one text per seed.
            _ if n % 14 == 5 || n % 14 == 11 => String::new(),
            _ => self.any(n).expect("a text"),
        };
        let alone: Vec<String> = (0..texts).map(write).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| (0..texts).map(write).collect::<Vec<_>>())).collect();
            threads.into_iter().all(|thread| thread.join().is_ok_and(|written| written == alone))
        })
    }
}

/// One of the prompts, with a length and a seed that change from request to request.
fn request(engine: &Engine, n: u64) -> Request<'_> {
    engine.request(PROMPTS[n as usize % PROMPTS.len()]).max_tokens(length(n)).seed(n)
}

fn length(n: u64) -> usize {
    8 + n as usize % 17
}

/// `tale-small` with a chat template.
fn chat() -> Engine {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        let from = harness::path("fixtures/models/tale-small").join(file);
        std::fs::copy(from, folder.path().join(file)).expect("a copy");
    }
    let template = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).expect("a template");
    Engine::load(folder.path()).expect("the fixture")
}

const PROMPTS: [&str; 5] =
    ["The captain", "", "\"Where is the key?\" she asked.", "Chapter 1\n\n", "It was the best of times,"];
