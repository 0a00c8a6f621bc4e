//! Has texts under constraints judged by other libraries: `cargo run --release -p verdigris-tests --bin constraints
//! [TEXTS]`.
//!
//! Under each regular expression of `tests/cases/regexes.txt` and each schema of `tests/cases/schemas.json`,
//! `tale-small` generates TEXTS texts (200 by default), every second one marked, every third one speculative. Every
//! text must match by the `regex` crate or be valid by the `jsonschema` crate, including texts that would never end by
//! themselves and are led to their end when their tokens run out.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use rayon::prelude::*;
use serde_json::Value;
use verdigris::{Constraint, Engine, Grammar, Key, Marking, Stop, Style};
use verdigris_tests::harness::{self, TALE_SMALL as ENGINE};

const MAX_TOKENS: usize = 400;

struct Case {
    name: String,
    constraint: Constraint,
    judge: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

fn main() -> ExitCode {
    let Some(texts) = harness::argument(1, 200u64) else { return harness::usage("constraints [TEXTS]") };
    let key = Key::from_secret([9; 32], "constraints", Marking::lists(), ENGINE.reader().vocabulary());
    let key = key.expect("a short id");
    let cases: Vec<Case> = regexes(&ENGINE).into_iter().chain(schemas(&ENGINE)).collect();
    println!("| constraint | texts | obey | led to their end | mean tokens |");
    println!("|---|--:|--:|--:|--:|");
    let mut failed = 0;
    for case in &cases {
        let write = |seed: u64| {
            let request = ENGINE.request("").constraint(&case.constraint).max_tokens(MAX_TOKENS);
            let request = request.temperature(1.0).top_p(1.0).seed(seed);
            let request = if seed.is_multiple_of(2) { request.watermark(&key) } else { request };
            let request = if seed.is_multiple_of(3) { request.lookup().draft_tokens(3) } else { request };
            let written = request.text().unwrap_or_else(|fault| panic!("{}: {fault}", case.name));
            let ended = written.stop == Some(Stop::End);
            (ended, (case.judge)(&written.text), written)
        };
        let all: Vec<_> = (0..texts).into_par_iter().map(write).collect();
        let ended = all.iter().filter(|(ended, ..)| *ended).count();
        let obey = all.iter().filter(|(_, obeys, ..)| *obeys).count();
        let tokens: usize = all.iter().map(|(.., written)| written.tokens.len()).sum();
        let name = case.name.replace('|', "\\|");
        println!("| {name} | {texts} | {obey} | {} | {:.1} |", all.len() - ended, tokens as f64 / all.len() as f64);
        if let Some((.., written)) = all.iter().find(|(_, obeys, _)| !*obeys) {
            println!("\nFAILED: {} wrote {:?}\n", case.name, written.text);
            failed += 1;
        }
    }
    harness::counted(cases.len(), failed)
}

fn regexes(engine: &Engine) -> Vec<Case> {
    let case = |pattern: &str| {
        let judge = regex::Regex::new(&format!("^(?:{pattern})$")).expect("a pattern");
        Case {
            name: format!("`{pattern}`"),
            constraint: engine.constraint(Grammar::regex(pattern).expect("a pattern")),
            judge: Box::new(move |text| judge.is_match(text)),
        }
    };
    harness::patterns().lines().map(case).collect()
}

fn schemas(engine: &Engine) -> Vec<Case> {
    let case = |(name, schema): (String, Value)| {
        let judge = jsonschema::draft202012::new(&schema).expect("a schema");
        let grammar = Grammar::json_schema(&schema, Style::default()).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        Case {
            name,
            constraint: engine.constraint(grammar),
            judge: Box::new(move |text| harness::is_valid(&judge, text.as_bytes())),
        }
    };
    harness::schemas().into_iter().map(case).collect()
}
