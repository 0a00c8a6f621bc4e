//! Input files with thousands of mutations give an error or a value, never a panic.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use verdigris::logits::{Purpose, Random};
use verdigris::text::Tokenizer;
use verdigris::{Device, Grammar, Key, Marking, ModelFolder, Style};
use verdigris_tests::fuzz::{gguf_file, gguf_head};
use verdigris_tests::harness;

fn fixture(file: &str) -> PathBuf {
    harness::path("fixtures/models/tale-small").join(file)
}

/// The `n`-th mutation: some of the first `reach` bytes are changed, cut out or duplicated, or the end is cut off.
fn mutate(bytes: &[u8], n: u64, reach: usize) -> Vec<u8> {
    let random = Random::new(n);
    let mut draws = (0..).map(|i| random.uniform(i, Purpose::Data));
    let mut below = |limit: usize| (draws.next().expect("draws never end") * limit as f64) as usize;
    let mut bytes = bytes.to_vec();
    for _ in 0..=below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = below(reach.min(bytes.len()));
        match below(5) {
            0 => bytes[at] = below(256) as u8,
            1 => bytes[at] = b"0123456789-\"{}[],:.e"[below(20)],
            2 => drop(bytes.drain(at..(at + below(20)).min(bytes.len()))),
            3 => {
                let part = bytes[at..(at + below(40)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, part));
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn never_panics(name: &str, bytes: &[u8], rounds: u64, reach: usize, parse: &dyn Fn(&[u8]) -> bool) {
    assert!(parse(bytes), "{name}: the original must parse");
    let mut refused = 0;
    for n in 0..rounds {
        let mutated = mutate(bytes, n, reach);
        match catch_unwind(AssertUnwindSafe(|| parse(&mutated))) {
            Ok(parsed) => refused += u64::from(!parsed),
            Err(_) => panic!("{name}: mutation {n} panics"),
        }
    }
    assert!(refused > rounds / 4, "{name}: only {refused} of {rounds} were refused");
}

#[test]
fn key_files() {
    let vocabulary = verdigris::watermark::VocabularyId::new(4096, "f").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    Key::generate(Marking::lists(), vocabulary).save(&path).unwrap();
    let bytes = fs::read(&path).unwrap();
    never_panics("key", &bytes, 10_000, bytes.len(), &|bytes| Key::parse(bytes).is_ok());
}

fn load(file: &str, bytes: &[u8]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    for other in ["config.json", "tokenizer.json", "model.safetensors"] {
        let to = folder.path().join(other);
        if other == file {
            fs::write(to, bytes).unwrap();
        } else {
            #[cfg(unix)]
            std::os::unix::fs::symlink(fixture(other), to).unwrap();
            #[cfg(not(unix))]
            fs::copy(fixture(other), to).map(drop).unwrap();
        }
    }
    let folder = ModelFolder::at(folder.path());
    if file == "config.json" { folder.config().is_ok() } else { folder.model(&Device::Cpu).is_ok() }
}

#[test]
fn configurations() {
    let bytes = fs::read(fixture("config.json")).unwrap();
    never_panics("config.json", &bytes, 3000, bytes.len(), &|bytes| load("config.json", bytes));
}

#[test]
fn weights() {
    let bytes = fs::read(fixture("model.safetensors")).unwrap();
    // Only the header has structure.
    never_panics("model.safetensors", &bytes, 300, 3000, &|bytes| load("model.safetensors", bytes));
}

#[test]
fn schemas_and_patterns() {
    for (name, schema) in harness::schemas() {
        never_panics(&name, schema.to_string().as_bytes(), 300, usize::MAX, &|bytes| {
            serde_json::from_slice(bytes).is_ok_and(|schema| Grammar::json_schema(&schema, Style::default()).is_ok())
        });
    }
    // Most mutations of a pattern are patterns.
    for pattern in harness::patterns().lines() {
        for n in 0..100 {
            let mutated = mutate(pattern.as_bytes(), n, usize::MAX);
            let _ = Grammar::regex(&String::from_utf8_lossy(&mutated));
        }
    }
}

#[test]
fn tokenizers() {
    let bytes = fs::read(fixture("tokenizer.json")).unwrap();
    let parse = &|bytes: &[u8]| match Tokenizer::from_json(bytes) {
        Ok(tokenizer) => {
            let tokens = tokenizer.encode("Some text, and more of it.").unwrap_or_default();
            let _ = (tokenizer.decode(&tokens), tokenizer.vocabulary().fingerprint());
            true
        }
        Err(_) => false,
    };
    never_panics("tokenizer.json", &bytes, 100, bytes.len(), parse);
    never_panics("tokenizer.json's head", &bytes, 200, 1500, parse);
}

#[test]
fn gguf_files() {
    let golden = harness::path("fixtures/golden/gguf");
    for (name, reach) in [("qwen2.gguf", 3_000), ("gemma2.gguf", 3_000)] {
        let bytes = fs::read(golden.join(name)).unwrap();
        never_panics(name, &bytes, 4_000, reach, &|bytes| gguf_file(bytes));
    }
    for (name, reach) in [("eagle3.gguf", 1_500), ("dspark.gguf", 1_500), ("gemma4.gguf", 5_000)] {
        let bytes = fs::read(golden.join("../gguf_heads").join(name)).unwrap();
        never_panics(name, &bytes, 500, reach, &|bytes| gguf_head(bytes));
    }
    let bytes = fs::read(golden.join("tokenizer.gguf")).unwrap();
    never_panics("tokenizer.gguf", &bytes, 300, 2_000, &|bytes| {
        ModelFolder::gguf_in_memory(bytes.to_vec()).tokenizer().is_ok()
    });
}
