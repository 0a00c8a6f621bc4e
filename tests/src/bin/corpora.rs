//! Suites on tokenizers and schemas that are not part of the project: `cargo run --release -p verdigris-tests --bin
//! corpora [FOLDER] [--refused]`.
//!
//! The folder (default `../shared`) holds `corpus/*.txt.zst`, `tokenizers/*/tokenizer.json` and
//! `json-schema/schemas-dev.jsonl.zst`. If they are missing, the suites are skipped with a message. `--refused` lists
//! each schema and each valid instance that is refused, and the schemas that take longest to compile.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rayon::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use verdigris::constrain::{Machine, TokenIndex};
use verdigris::logits::{Purpose, Random};
use verdigris::text::Tokenizer;
use verdigris::{Grammar, Style};
use verdigris_tests::foreign::{self, Case, Instance};
use verdigris_tests::{harness, random_text};

fn main() -> ExitCode {
    let (options, folders): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let names_refused = options.iter().any(|option| option == "--refused");
    let shared = PathBuf::from(folders.first().map_or("../shared", String::as_str));
    if ["corpus", "tokenizers", "json-schema"].iter().any(|part| !shared.join(part).is_dir()) {
        return harness::skipped(&shared, "corpus/, tokenizers/ and json-schema/");
    }
    let text = read(&shared.join("corpus/heldout.txt.zst"));
    let passed = [foreign_tokenizers(&shared, &text), foreign_schemas(&shared, names_refused)];
    harness::counted(passed.len(), passed.iter().filter(|passed| !**passed).count())
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = zstd::decode_all(&bytes[..]).expect("a whole zstd file");
    String::from_utf8(text).expect("UTF-8").replace("<|endoftext|>", "")
}

/// Tokenizers of other models: text survives, reading in pieces changes no token.
fn foreign_tokenizers(shared: &Path, text: &str) -> bool {
    println!("| tokenizer | tokens | fingerprint | text back | in pieces |");
    println!("|---|--:|---|---|---|");
    let read = |name: &&str| {
        let json = std::fs::read(shared.join("tokenizers").join(name).join("tokenizer.json")).expect("a tokenizer");
        let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
        let tokens = tokenizer.encode(text).expect("a token for every text");
        let back = tokenizer.decode(&tokens) == text;
        let mut pieces = Vec::new();
        tokenizer.encode_reader(text.as_bytes(), |_, ids| pieces.extend_from_slice(ids)).expect("UTF-8");
        let same = pieces == tokens;
        let (size, fingerprint) = (tokenizer.vocabulary().size(), tokenizer.vocabulary().fingerprint());
        (format!("| {name} | {size} | {fingerprint} | {back} | {same} |"), back && same)
    };
    let rows: Vec<(String, bool)> = ["gpt2", "qwen2", "o200k"].par_iter().map(read).collect();
    rows.iter().for_each(|(row, _)| println!("{row}"));
    rows.iter().all(|(_, passed)| *passed)
}

/// The results of one schema.
#[derive(Default)]
struct Outcome<'c> {
    id: &'c str,
    /// The time of a processor that compiling it takes.
    time: Duration,
    /// The keyword for which it is refused.
    refused: Option<String>,
    /// Valid instances, those that are accepted, and invalid ones.
    valid: usize,
    accepted: usize,
    invalid: usize,
    /// Random texts.
    written: usize,
    /// Invalid instances that are accepted, and invalid texts that are written.
    wrong: Vec<String>,
    /// Messages about refused schemas and refused valid instances.
    refusals: Vec<String>,
}

/// The outcome of the schema of a case with a number.
fn foreign_schema<'c>(number: usize, case: &'c Case, index: &Arc<TokenIndex>) -> Outcome<'c> {
    let start = thread_time();
    let grammar = Grammar::json_schema(&case.schema, Style::default().any_order());
    let mut of = Outcome { id: &case.id, time: thread_time() - start, ..Outcome::default() };
    let grammar = match grammar {
        Ok(grammar) => grammar,
        Err(fault) => {
            of.refusals.push(format!("refused: {}: {fault}", case.id));
            of.refused = Some(fault.fault.split('"').nth(1).unwrap_or(&fault.fault).to_owned());
            return of;
        }
    };
    let machine = Machine::new(grammar, index.clone());
    for Instance { valid: is_valid, data } in &case.tests {
        let accepts = harness::accepts(&machine, &data.to_string());
        of.valid += usize::from(*is_valid);
        of.invalid += usize::from(!is_valid);
        of.accepted += usize::from(*is_valid && accepts);
        if *is_valid && !accepts {
            of.refusals.push(format!("refused instance: {}: {data}", case.id));
        }
        if accepts && !is_valid {
            of.wrong.push(format!("FAILED: {} accepts {data}, which is not valid", case.id));
        }
    }
    let Ok(judge) = jsonschema::validator_for(&case.schema) else { return of };
    let random = Random::new(1);
    for seed in 0..5 {
        let text = random_text(&machine, |i| random.uniform((number as u64) << 32 | seed << 16 | i, Purpose::Token));
        of.written += 1;
        if !harness::is_valid(&judge, &text) {
            of.wrong.push(format!("FAILED: {} writes {}", case.id, String::from_utf8_lossy(&text)));
        }
    }
    of
}

/// Schemas of other people: counts those that are supported, and checks that nothing invalid is ever accepted or
/// generated.
fn foreign_schemas(shared: &Path, names_refused: bool) -> bool {
    let cases = foreign::cases(&shared.join("json-schema/schemas-dev.jsonl.zst")).expect("the schemas");
    // A vocabulary of bytes would suffice, since only the machine's states are used.
    let index = Arc::new(TokenIndex::new(harness::tokenizer("tale").vocabulary()));
    let all: Vec<Outcome<'_>> =
        cases.par_iter().enumerate().map(|(number, case)| foreign_schema(number, case, &index)).collect();
    let count = |of: fn(&Outcome<'_>) -> usize| all.iter().map(of).sum::<usize>();
    let mut refusals: BTreeMap<&str, usize> = BTreeMap::new();
    for of in &all {
        of.wrong.iter().for_each(|line| println!("{line}"));
        if names_refused {
            of.refusals.iter().for_each(|line| println!("{line}"));
        }
        if let Some(keyword) = &of.refused {
            *refusals.entry(keyword).or_default() += 1;
        }
    }
    let (compiled, wrong) = (count(|of| usize::from(of.refused.is_none())), count(|of| of.wrong.len()));
    println!("\n{} schemas of other people: {compiled} are understood", cases.len());
    println!(
        "valid instances accepted as they are written there: {} of {}",
        count(|of| of.accepted),
        count(|of| of.valid)
    );
    println!(
        "invalid instances: {}; random texts written: {}; wrongly accepted or written: {wrong}",
        count(|of| of.invalid),
        count(|of| of.written)
    );
    let mut refusals: Vec<(&str, usize)> = refusals.into_iter().collect();
    refusals.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let refusals: Vec<String> = refusals.iter().take(12).map(|(keyword, count)| format!("{keyword} {count}")).collect();
    println!("refused for: {}", refusals.join(", "));
    let mut times: Vec<(Duration, &str)> = all.iter().map(|of| (of.time, of.id)).collect();
    times.sort_unstable();
    let ms = |share: f64| times[((times.len() - 1) as f64 * share) as usize].0.as_secs_f64() * 1e3;
    let [p50, p90, p99, p999, most] = [0.5, 0.9, 0.99, 0.999, 1.0].map(ms);
    println!("ms of CPU to compile: p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2}, p99.9 {p999:.2}, max {most:.2}");
    if names_refused {
        for (time, id) in times.iter().rev().take(12) {
            println!("slow: {id}: {:.2} ms", time.as_secs_f64() * 1e3);
        }
    }
    wrong == 0
}

/// The CPU time of this thread, which other programs do not affect.
fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("clocks begin at 0")
}
