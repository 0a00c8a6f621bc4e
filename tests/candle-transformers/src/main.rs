//! Writes with StarCoder 2, marked and under a regular expression:
//!
//!     cargo run --release --manifest-path tests/candle-transformers/Cargo.toml -- FOLDER "fn main" "[ -~\n]*"

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use verdigris::{Engine, Key, Marking, ModelFolder};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, prompt, pattern] = &arguments[..] else { return Err("give a folder, a prompt and a pattern".into()) };
    let model = verdigris_candle_transformers::load(&PathBuf::from(folder))?;
    let tokenizer = ModelFolder::at(folder).tokenizer()?;
    let end = tokenizer.id("<|endoftext|>").into_iter().collect();
    let engine = Engine::new(Arc::new(model), tokenizer, end);
    let key = Key::generate(Marking::default(), engine.reader().vocabulary());
    let written = engine.request(prompt).watermark(&key).regex(pattern).max_tokens(120).seed(1).text()?;
    println!("{prompt}{}", written.text);
    let evidence = engine.reader().detect(&key, written.text.as_bytes())?;
    println!("\n{} of {} tokens are green, p = {:.1e}", evidence.score, evidence.scored, evidence.p());
    Ok(())
}
