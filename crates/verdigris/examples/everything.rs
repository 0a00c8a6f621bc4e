//! All features together: JSON that matches a type, carries a mark, is steered by an expert and drafted by a small
//! model, and is then checked by the detector: `cargo run --release -p verdigris-engine --example everything`

use schemars::JsonSchema;
use serde::Deserialize;
use verdigris::{Engine, Error, Key, Marking};

#[derive(Debug, Deserialize, JsonSchema)]
struct Scene {
    #[schemars(length(min = 4, max = 5))]
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Line {
    #[schemars(regex(pattern = "^[A-Z]{4,9}$"))]
    speaker: String,
    #[schemars(length(min = 60, max = 120))]
    says: String,
}

fn main() -> Result<(), Error> {
    let load = |name: &str| Engine::load(format!("{}/../../fixtures/models/{name}", env!("CARGO_MANIFEST_DIR")));
    let (expert, anti) = (load("tale-expert")?, load("tale-small")?);
    // The expert was tuned on plays.
    let engine = load("tale")?.steered(&[(&expert, &anti, 0.75)])?;
    let key = Key::generate(Marking::default(), engine.reader().vocabulary());

    let request = engine.request("").watermark(&key).draft(&expert).temperature(0.9).max_tokens(900);
    let (scene, written) = request.json_stream::<Scene>(|_| std::ops::ControlFlow::Continue(()))?;

    for line in &scene.lines {
        println!("{}: {}", line.speaker, line.says);
    }
    let evidence = engine.reader().detect(&key, written.text.as_bytes())?;
    println!("\n{} tokens are scored: p = {:.1e}", evidence.scored, evidence.p());
    Ok(())
}
