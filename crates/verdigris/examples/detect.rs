//! Detection of a mark, with a tokenizer and a key but without a model:
//! `cargo run --release -p verdigris-engine --example detect -- my.key tale.txt`

use std::error::Error;
use std::fs::File;

use verdigris::{Key, Level, ModelFolder, Reader};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [key, text] = &arguments[..] else { return Err("give a key file and a text file".into()) };
    // The folder of the model that the key was made for. Only its tokenizer.json is read.
    let folder = ModelFolder::at(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale"));
    let (reader, key) = (Reader::new(folder.tokenizer()?), Key::load(key.as_ref())?);

    let evidence = reader.detect(&key, File::open(text)?)?;

    println!("{} of {} tokens count, p = {:.1e}", evidence.scored, evidence.tokens, evidence.p());
    // A text that is too short for a verdict is an error.
    println!(
        "{}",
        match evidence.is_marked(Level::DEFAULT)? {
            true => "It carries the mark of this key.",
            false => "It shows no mark of this key.",
        }
    );
    Ok(())
}
