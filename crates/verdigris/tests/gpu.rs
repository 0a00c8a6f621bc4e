//! Whole requests on a GPU, or its emulation, compared with the CPU. `VERDIGRIS_GPU=0` selects a real GPU.
#![cfg(feature = "emulated-cuda")]

use std::path::Path;

use verdigris::models::Format;
use verdigris::{Device, Engine, Key, Marking, ModelFolder, Request, device};

#[allow(dead_code, reason = "only the seed is used here")]
#[path = "../../../tests/src/sampled.rs"]
mod sampled;

fn gpu() -> Device {
    let number = std::env::var("VERDIGRIS_GPU").unwrap_or_else(|_| "emulated".into());
    device(&format!("cuda:{number}")).unwrap()
}

fn engine(name: &str, device: &Device) -> Engine {
    // On another machine the test runs in the root of the repository.
    let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let folder = if there.exists() { &there } else { Path::new("fixtures") }.join("models").join(name);
    Engine::from_folder(&ModelFolder::at(folder).cached_as(Format::F32), device).unwrap()
}

/// Sets options of a request.
type Way = fn(Request<'_>) -> Request<'_>;

/// Texts that are marked, constrained, penalised, cut, sampled, written several at a time or with guesses are equal to
/// those of the CPU token for token. A difference in the last bits of a logit changes a sample only if its random
/// number falls between the two.
#[test]
fn texts_are_those_of_the_cpu() {
    texts(false);
}

#[test]
fn marked_texts_are_those_of_the_cpu() {
    texts(true);
}

fn texts(marked: bool) {
    let [cpu, there] = [Device::Cpu, gpu()].map(|device| engine("tale-small", &device));
    let key = Key::from_secret([4; 32], "gpu", Marking::lists(), cpu.reader().vocabulary()).unwrap();
    let ways: [(&str, Way); 7] = [
        ("greedy", |request| request.temperature(0.0)),
        ("sampled", |request| request.temperature(0.9).top_k(60).top_p(0.95).min_p(0.01)),
        ("typical", |request| request.temperature(0.9).top_p(1.0).typical_p(0.8).eta_cutoff(0.002)),
        ("surprising", |request| {
            request.temperature(1.1).epsilon_cutoff(0.001).top_a(0.05).xtc_probability(0.5).xtc_threshold(0.15)
        }),
        ("penalised", |request| request.temperature(0.8).top_p(1.0).repetition_penalty(1.2)),
        ("constrained", |request| {
            let request = request.temperature(1.0).top_p(1.0);
            request.json_schema(serde_json::json!({"type": "array", "items": {"type": "integer"}}))
        }),
        ("guessed", |request| request.temperature(0.7).top_p(1.0).lookup()),
    ];
    // In CI each way runs either with or without a mark: with which one, the commit decides.
    let is_due = |(i, _): &(usize, _)| sampled::seed().is_none_or(|seed| (seed + i).is_multiple_of(2) == marked);
    for (_, (name, way)) in ways.into_iter().enumerate().filter(is_due) {
        let [expected, got] = [&cpu, &there].map(|engine| {
            let request = way(engine.request("The captain said that").max_tokens(24).seed(5));
            if marked { request.watermark(&key) } else { request }.text().unwrap().tokens
        });
        assert_eq!(got, expected, "{name}, marked: {marked}");
    }
    if marked {
        return;
    }
    let [expected, got] =
        [&cpu, &there].map(|engine| engine.request("A ship").max_tokens(12).seed(2).texts(3).unwrap());
    for (got, expected) in got.iter().zip(&expected) {
        assert_eq!(got.tokens, expected.tokens);
    }
}
