//! Streaming from a separate thread, until an empty line or until the receiver is dropped:
//! `cargo run --release -p verdigris-engine --example stream`

use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};

use verdigris::Engine;

fn main() -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale"))?);
    let (sender, pieces) = mpsc::sync_channel::<String>(16);
    let writer = std::thread::spawn(move || {
        let request = engine.request("The captain looked").max_tokens(300).stop("\n\n");
        // After the receiver is dropped, the text ends within one token.
        request.stream(|piece| match sender.send(piece.to_owned()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    });
    for piece in pieces {
        print!("{piece}");
        std::io::stdout().flush()?;
    }
    let written = writer.join().map_err(|_| "the writer panicked")??;
    println!("\n\n{} tokens, ended by {:?}, seed {}", written.tokens.len(), written.stop, written.seed);
    Ok(())
}
