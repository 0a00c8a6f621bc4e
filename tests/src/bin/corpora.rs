//! Suites on texts and tokenizers that are not part of the project:
//! `cargo run --release -p verdigris-tests --bin corpora [FOLDER]`.
//!
//! The folder (default `../shared`) holds `corpus/*.txt.zst` and `tokenizers/*/tokenizer.json`. Where it is
//! missing the suites are skipped, and say so.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use verdigris::logits::random::philox4x32;
use verdigris::text::Tokenizer;
use verdigris::watermark::{Context, ContextFunction, Detector, KgwSimple1, Native, Scheme};
use verdigris::{Evidence, Gamma, ModelFolder};

fn main() -> ExitCode {
    let shared = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "../shared".into()));
    if !shared.join("corpus").is_dir() || !shared.join("tokenizers").is_dir() {
        println!("SKIPPED: {} holds no corpus/ and tokenizers/; nothing was checked", shared.display());
        return ExitCode::SUCCESS;
    }
    let text = read(&shared.join("corpus/heldout.txt.zst"));
    let passed = [foreign_tokenizers(&shared, &text), false_alarms(&text)];
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
