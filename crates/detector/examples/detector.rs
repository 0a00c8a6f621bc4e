//! Tests whether a text is marked, with the detector crate alone:
//! `cargo run --release -p verdigris-detector --example detector -- tokenizer.json my.key tale.txt`

use std::error::Error;
use std::fs::File;
use std::path::Path;

use verdigris_detector::{Key, Level, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tokenizer, key, text] = &arguments[..] else {
        return Err("usage: detector TOKENIZER_JSON KEY_FILE TEXT_FILE".into());
    };
    let reader = Reader::open(Path::new(tokenizer))?;
    let key = Key::load(key.as_ref())?;

    let evidence = reader.detect(&key, File::open(text)?)?;

    println!("{} of {} tokens were counted, p = {:.1e}", evidence.scored, evidence.tokens, evidence.p());
    // A text that is too short for any verdict is an error.
    let verdict = match evidence.is_marked(Level::DEFAULT)? {
        true => "It carries the mark of this key.",
        false => "It shows no mark of this key.",
    };
    println!("{verdict}");
    Ok(())
}
