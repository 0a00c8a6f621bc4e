//! Suites on texts and tokenizers that are not part of the project:
//! `cargo run --release -p verdigris-tests --bin corpora [FOLDER]`.
//!
//! The folder (default `../shared`) holds `corpus/*.txt.zst`, `tokenizers/*/tokenizer.json` and
//! `json-schema/schemas-dev.jsonl.zst`. Where they are missing the suites are skipped, and say so.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::Value;
use verdigris::constrain::{Machine, Trie};
use verdigris::logits::random::philox4x32;
use verdigris::logits::{Purpose, Random};
use verdigris::text::Tokenizer;
use verdigris::watermark::{Context, ContextFunction, Detector, KgwSimple1, Native, Scheme};
use verdigris::{Evidence, Gamma, Grammar, ModelFolder, Objects};
use verdigris_tests::random_text;

fn main() -> ExitCode {
    let shared = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "../shared".into()));
    if ["corpus", "tokenizers", "json-schema"].iter().any(|part| !shared.join(part).is_dir()) {
        println!("SKIPPED: {} holds no corpus/, tokenizers/ and json-schema/; nothing was checked", shared.display());
        return ExitCode::SUCCESS;
    }
    let text = read(&shared.join("corpus/heldout.txt.zst"));
    let passed = [foreign_tokenizers(&shared, &text), foreign_schemas(&shared), false_alarms(&text)];
    let failed = passed.iter().filter(|passed| !**passed).count();
    println!("{} passed, {failed} failed", passed.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = zstd::decode_all(&bytes[..]).expect("a whole zstd file");
    String::from_utf8(text).expect("UTF-8").replace("<|endoftext|>", "")
}

/// Tokenizers of other models: text survives, reading in pieces changes no token, and marks are found.
fn foreign_tokenizers(shared: &Path, text: &str) -> bool {
    let mut passed = true;
    println!("| tokenizer | tokens | fingerprint | text back | in pieces |");
    println!("|---|--:|---|---|---|");
    for name in ["gpt2", "qwen2", "o200k"] {
        let json = std::fs::read(shared.join("tokenizers").join(name).join("tokenizer.json")).expect("a tokenizer");
        let tokenizer = Tokenizer::from_json(&json).expect("a tokenizer");
        let tokens = tokenizer.encode(text);
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

/// Schemas of other people: what is understood, and that nothing invalid is ever accepted or written.
fn foreign_schemas(shared: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Case {
        id: String,
        schema: Value,
        tests: Vec<Instance>,
    }
    #[derive(serde::Deserialize)]
    struct Instance {
        valid: bool,
        data: Value,
    }
    let path = shared.join("json-schema/schemas-dev.jsonl.zst");
    let lines = zstd::decode_all(&std::fs::read(&path).expect("the schemas")[..]).expect("a whole zstd file");
    let cases: Vec<Case> = lines
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("a case"))
        .collect();
    // A vocabulary of bytes would do: only the machine's states are asked.
    let folder = ModelFolder::at(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale"));
    let trie = Arc::new(Trie::new(folder.tokenizer().expect("the fixture").vocabulary()));
    let random = Random::new(1);
    let (mut compiled, mut valid, mut accepted, mut invalid, mut wrong, mut written) = (0, 0, 0, 0, 0, 0);
    let mut refusals: BTreeMap<String, usize> = BTreeMap::new();
    for (number, case) in cases.iter().enumerate() {
        let grammar = match Grammar::json_schema(&case.schema, Objects::Open) {
            Ok(grammar) => grammar,
            Err(fault) => {
                let keyword = fault.fault.split('"').nth(1).unwrap_or(&fault.fault).to_owned();
                *refusals.entry(keyword).or_default() += 1;
                continue;
            }
        };
        compiled += 1;
        let machine = Machine::new(grammar, trie.clone());
        for Instance { valid: is_valid, data } in &case.tests {
            let accepts = machine.accepts(machine.next(machine.start(), data.to_string().as_bytes()));
            (valid, invalid) = (valid + u32::from(*is_valid), invalid + u32::from(!is_valid));
            accepted += u32::from(*is_valid && accepts);
            if accepts && !is_valid {
                println!("FAILED: {} accepts {data}, which is not valid", case.id);
                wrong += 1;
            }
        }
        let Ok(judge) = jsonschema::validator_for(&case.schema) else { continue };
        for seed in 0..5 {
            let text =
                random_text(&machine, |i| random.uniform((number as u64) << 32 | seed << 16 | i, Purpose::Token));
            let value = serde_json::from_slice(&text);
            written += 1;
            if !value.as_ref().is_ok_and(|value| judge.is_valid(value)) {
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
    wrong == 0
}

/// Human text is not called marked more often than the p-value says, for any of many keys.
fn false_alarms(text: &str) -> bool {
    let folder = ModelFolder::at(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale"));
    let tokenizer = folder.tokenizer().expect("the fixture");
    let tokens = tokenizer.encode(text);
    const WINDOW: usize = 200;
    const KEYS: u32 = 20;
    const LEVELS: [f64; 3] = [1e-2, 1e-3, 1e-4];
    let windows: Vec<&[u32]> = tokens.chunks_exact(WINDOW).collect();
    println!("\nhuman text: {} windows of {WINDOW} tokens, {KEYS} keys, share with p at most", windows.len());
    println!("| scheme | mean z | sd of z | 1e-2 | 1e-3 | 1e-4 | worst key at 1e-2 |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let native = |function, width| {
        move |secret: [u8; 32]| -> Arc<dyn Scheme> {
            let gamma = Gamma::new(0.25).expect("dyadic");
            Arc::new(
                Native::new(&secret, "calibration", "", gamma, Context { function, width }, 4096).expect("a width"),
            )
        }
    };
    let kgw = |secret: [u8; 32]| -> Arc<dyn Scheme> {
        let key = u64::from_le_bytes(secret[..8].try_into().expect("eight bytes")) >> 32 | 1;
        Arc::new(KgwSimple1::new(key, 0.25, 4096).expect("a split"))
    };
    type Maker<'a> = Box<dyn Fn([u8; 32]) -> Arc<dyn Scheme> + 'a>;
    let schemes: [(&str, Maker<'_>); 4] = [
        ("native, all 1", Box::new(native(ContextFunction::All, 1))),
        ("native, min 4", Box::new(native(ContextFunction::Min, 4))),
        ("native, self-salted 4", Box::new(native(ContextFunction::SelfSalted, 4))),
        ("kgw simple_1", Box::new(kgw)),
    ];
    let mut passed = true;
    for (name, make) in schemes {
        let (mut under, mut worst) = ([0u32; 3], 0f64);
        let (mut sum, mut squares, mut n) = (0.0, 0.0, 0.0);
        for key in 0..KEYS {
            let mut secret = [0; 32];
            let words = (0..2).flat_map(|block| philox4x32([block, key, 0, 0], [5, 0]));
            secret.iter_mut().zip(words.flat_map(u32::to_le_bytes)).for_each(|(to, from)| *to = from);
            let scheme = make(secret);
            let mut of_key = 0;
            for window in &windows {
                let evidence: Evidence = {
                    let mut detector = Detector::new(scheme.clone());
                    detector.push(window);
                    detector.evidence()
                };
                (sum, squares, n) = (sum + evidence.z, squares + evidence.z * evidence.z, n + 1.0);
                for (under, level) in under.iter_mut().zip(LEVELS) {
                    *under += u32::from(evidence.p() <= level);
                }
                of_key += u32::from(evidence.p() <= LEVELS[0]);
            }
            worst = worst.max(f64::from(of_key) / windows.len() as f64);
        }
        let mean = sum / n;
        let share = |i: usize| f64::from(under[i]) / n;
        println!(
            "| {name} | {mean:.3} | {:.3} | {:.2e} | {:.2e} | {:.2e} | {worst:.2e} |",
            (squares / n - mean * mean).sqrt(),
            share(0),
            share(1),
            share(2)
        );
        // The exact test is conservative, being discrete; keys differ, so the bound allows for their spread.
        passed &= (0..3).all(|i| share(i) <= 1.5 * LEVELS[i] + 4.0 * (LEVELS[i] / n).sqrt());
    }
    passed
}
