//! Is a text marked? With nothing but the detector:
//! `cargo run --release -p verdigris-detector --example detector -- tokenizer.json my.key tale.txt`

use std::error::Error;
use std::fs::{self, File};

use verdigris_detector::{Key, Reader, Tokenizer, Verdict};

/// Of so many unmarked texts one is called marked.
const LEVEL: f64 = 1e-5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tokenizer, key, text] = &arguments[..] else {
        return Err("give a tokenizer.json, a key file and a text file".into());
    };
    let reader = Reader::new(Tokenizer::from_json(&fs::read(tokenizer)?)?);
    let key = Key::load(key.as_ref())?;

    let evidence = reader.detect(&key, File::open(text)?)?;

    println!("{} of {} tokens count, p = {:.1e}", evidence.scored, evidence.tokens, evidence.p());
    // A text that is too short for any verdict is an error.
    let verdict = match evidence.verdict(LEVEL)? {
        Verdict::Marked => "It carries the mark of this key.",
        Verdict::NotMarked => "It shows no mark of this key.",
    };
    println!("{verdict}");
    Ok(())
}
