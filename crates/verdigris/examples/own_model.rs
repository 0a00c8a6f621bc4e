//! A custom model, or one of another library, used with all features of this crate:
//! `cargo run --release -p verdigris-engine --example own_model`
//!
//! A model implements [`Forward`]: it reads some tokens and returns the logits after the last one. The model here
//! counts which token follows which in a document. Marks and constraints work with it as with any other model.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use verdigris::models::BoxError;
use verdigris::models::foreign::{Foreign, Forward};
use verdigris::{Engine, Key, Marking, ModelFolder};

/// The number of times that each token followed another, by the earlier token.
type Counts = HashMap<u32, HashMap<u32, u32>>;

/// The state of one text. Only its last token matters, which is passed to each call.
#[derive(Clone)]
struct Bigrams {
    counts: Arc<Counts>,
    vocabulary: usize,
}

impl Forward for Bigrams {
    fn forward(&mut self, tokens: &[u32], _held: usize) -> Result<Vec<f32>, BoxError> {
        let last = tokens.last().ok_or("a call without tokens")?;
        // Unseen tokens are improbable, not impossible: a constraint may allow no others.
        let mut row = vec![(0.001f32).ln(); self.vocabulary];
        for (&next, &count) in self.counts.get(last).into_iter().flatten() {
            row[next as usize] = (count as f32).ln();
        }
        Ok(row)
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(self.clone())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models");
    let tokenizer = ModelFolder::at(fixtures.join("tale")).tokenizer()?;
    let tokens = tokenizer.encode(include_str!("../../../docs/security.md"))?;
    let mut counts = Counts::new();
    for pair in tokens.windows(2) {
        *counts.entry(pair[0]).or_default().entry(pair[1]).or_default() += 1;
    }
    let (counts, vocabulary) = (Arc::new(counts), tokenizer.vocabulary().size());
    let model = Foreign::new(vocabulary, 1024, Bigrams { counts, vocabulary });
    // A text that satisfies its constraint ends with this token.
    let end = tokenizer.id("<|endoftext|>").ok_or("a vocabulary without an end")?;
    let engine = Engine::new(Arc::new(model), tokenizer, vec![end]);

    let key = Key::generate(Marking::default(), engine.reader().vocabulary());
    let written = engine.request("The key").watermark(&key).max_tokens(200).seed(3).text()?;
    println!("{}\n", written.text);
    let evidence = engine.reader().detect(&key, written.text.as_bytes())?;
    println!("{} tokens are scored: p = {:.1e}", evidence.scored, evidence.p());
    let year = engine.request("in ").regex("(19|20)[0-9]{2}").seed(3).text()?;
    println!("a year, by the same model: {}", year.text);
    Ok(())
}
