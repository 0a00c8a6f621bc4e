//! Checks that false alarms are as rare as p-values claim if the schema of a text is known: `cargo run --release -p
//! verdigris-tests --bin forms [MODEL] [KEYS] [TOKENS]`.
//!
//! A model (a folder or a GGUF file; the fixture `tale` by default) generates an unmarked text under each of 40
//! schemas, each judged under KEYS keys (40) by readers that know the schema and by readers that do not.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use verdigris_tests::{forms, harness};

const LEVELS: [f64; 3] = [1e-1, 1e-2, 1e-3];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let engine = harness::chosen(arguments.next());
    let keys: u32 = arguments.next().map_or(40, |n| n.parse().expect("a number of keys"));
    let tokens = arguments.next().map_or(300, |n| n.parse().expect("a number of tokens"));
    let texts: Vec<String> = (0..forms::SCHEMAS)
        .map(|i| forms::write(&engine, i, None, tokens, i as u64).expect("a text of the form"))
        .collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    println!("{} texts of {bytes} bytes, {keys} keys each\n", texts.len());
    println!("| reader | 1e-1 | 1e-2 | 1e-3 |\n|---|--:|--:|--:|");
    let mut honest = true;
    for (name, knowing) in [("plain", false), ("knows the form", true)] {
        let all = forms::unmarked_ln_p(engine.reader(), &texts, keys, knowing);
        // A multiple of the claimed rate.
        let rate = |level: f64| all.iter().filter(|&&p| p <= level.ln()).count() as f64 / (level * all.len() as f64);
        let [a, b, c] = LEVELS.map(rate);
        println!("| {name} | {a:.2} | {b:.2} | {c:.2} |");
        // Four standard deviations, assuming independent alarms.
        let most = |level: f64| 1.0 + 4.0 / (level * all.len() as f64).sqrt();
        honest &= [a, b, c].iter().zip(LEVELS).all(|(&rate, level)| rate <= most(level));
    }
    println!();
    harness::as_claimed(honest)
}
