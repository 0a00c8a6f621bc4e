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

use rustix::time::{ClockId, clock_gettime};
use verdigris::constrain::{Machine, TokenIndex};
use verdigris::logits::{Purpose, Random};
use verdigris::text::Tokenizer;
use verdigris::{Grammar, Style};
use verdigris_tests::foreign::{self, Instance};
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
    let mut passed = true;
    println!("| tokenizer | tokens | fingerprint | text back | in pieces |");
    println!("|---|--:|---|---|---|");
    for name in ["gpt2", "qwen2", "o200k"] {
        let json = std::fs::read(shared.join("tokenizers").join(name).join("tokenizer.json")).expect("a tokenizer");
        let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
        let tokens = tokenizer.encode(text).expect("a token for every text");
        let back = tokenizer.decode(&tokens) == text;
        let mut pieces = Vec::new();
        tokenizer.encode_reader(text.as_bytes(), |_, ids| pieces.extend_from_slice(ids)).expect("UTF-8");
        let same = pieces == tokens;
        let (size, fingerprint) = (tokenizer.vocabulary().size(), tokenizer.vocabulary().fingerprint());
        println!("| {name} | {size} | {fingerprint} | {back} | {same} |");
        passed &= back && same;
    }
    passed
}

/// Schemas of other people: counts those that are supported, and checks that nothing invalid is ever accepted or
/// generated.
fn foreign_schemas(shared: &Path, names_refused: bool) -> bool {
    let cases = foreign::cases(&shared.join("json-schema/schemas-dev.jsonl.zst")).expect("the schemas");
    // A vocabulary of bytes would suffice, since only the machine's states are used.
    let index = Arc::new(TokenIndex::new(harness::tokenizer("tale").vocabulary()));
    let random = Random::new(1);
    let (mut compiled, mut valid, mut accepted, mut invalid, mut wrong, mut written) = (0, 0, 0, 0, 0, 0);
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    let mut times: Vec<(Duration, &str)> = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let start = thread_time();
        let grammar = Grammar::json_schema(&case.schema, Style::default().any_order());
        times.push((thread_time() - start, &case.id));
        let grammar = match grammar {
            Ok(grammar) => grammar,
            Err(fault) => {
                if names_refused {
                    println!("refused: {}: {fault}", case.id);
                }
                let keyword = fault.fault.split('"').nth(1).unwrap_or(&fault.fault).to_owned();
                *refusals.entry(keyword).or_default() += 1;
                continue;
            }
        };
        compiled += 1;
        let machine = Machine::new(grammar, index.clone());
        for Instance { valid: is_valid, data } in &case.tests {
            let accepts = harness::accepts(&machine, &data.to_string());
            (valid, invalid) = (valid + u32::from(*is_valid), invalid + u32::from(!is_valid));
            accepted += u32::from(*is_valid && accepts);
            if names_refused && *is_valid && !accepts {
                println!("refused instance: {}: {data}", case.id);
            }
            if accepts && !is_valid {
                println!("FAILED: {} accepts {data}, which is not valid", case.id);
                wrong += 1;
            }
        }
        let Ok(judge) = jsonschema::validator_for(&case.schema) else { continue };
        for seed in 0..5 {
            let text =
                random_text(&machine, |i| random.uniform((number as u64) << 32 | seed << 16 | i, Purpose::Token));
            written += 1;
            if !harness::is_valid(&judge, &text) {
                println!("FAILED: {} writes {}", case.id, String::from_utf8_lossy(&text));
                wrong += 1;
            }
        }
    }
    println!("\n{} schemas of other people: {compiled} are understood", cases.len());
    println!("valid instances accepted as they are written there: {accepted} of {valid}");
    println!("invalid instances: {invalid}; random texts written: {written}; wrongly accepted or written: {wrong}");
    let mut refusals: Vec<(String, usize)> = refusals.into_iter().collect();
    refusals.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let refusals: Vec<String> = refusals.iter().take(12).map(|(keyword, count)| format!("{keyword} {count}")).collect();
    println!("refused for: {}", refusals.join(", "));
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
