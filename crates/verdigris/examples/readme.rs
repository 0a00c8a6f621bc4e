//! The code in the README: `cargo run --release -p verdigris-engine --example readme`. It needs a model in `tale.gguf`,
//! which `verdigris convert tale --out tale.gguf` writes.

fn main() -> Result<(), verdigris::Error> {
    use verdigris::{Engine, Key, Marking};

    let engine = Engine::load("tale.gguf")?;
    let key = Key::generate(Marking::default(), engine.reader().vocabulary());
    let written = engine.request("The captain").watermark(&key).max_tokens(200).text()?;
    let evidence = engine.reader().detect(&key, written.text.as_bytes())?;
    println!("{} tokens are scored: p = {:.1e}", evidence.scored, evidence.p());

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Person {
        name: String,
        #[schemars(range(min = 0, max = 120))]
        age: u8,
    }

    let person: Person = engine.request("The captain was ").json()?;
    println!("{}, {}", person.name, person.age);
    Ok(())
}
