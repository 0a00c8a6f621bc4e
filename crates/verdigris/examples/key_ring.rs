//! Detection with several keys, one for each month, of a text whose month is unknown:
//! `cargo run --release -p verdigris-engine --example key_ring`
//!
//! The p-value is corrected for every key that is tried, so a ring of a thousand keys has no more false positives than
//! a single key.

use verdigris::{Engine, Key, Look, Marking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale"))?;
    let reader = engine.reader();
    let ring: Vec<Key> = (0..12).map(|_| Key::generate(Marking::default(), reader.vocabulary())).collect();
    let march = &ring[2];
    let text = engine.request("The captain").watermark(march).max_tokens(200).seed(5).text()?.text;

    let judgement = reader.judge(&ring.iter().collect::<Vec<_>>(), &text, &Look::default())?;
    println!("{text}\n\nThe key of March is {}.", march.id());
    println!("The text is marked with {}: p = {:.1e}", judgement.key.id(), judgement.evidence.p());
    println!("(all {} looks are paid for in it)", judgement.evidence.tried);
    Ok(())
}
