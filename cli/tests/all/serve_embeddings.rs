//! Embeddings, over HTTP.
#![cfg(feature = "serve")]

use data_encoding::BASE64;
use serde_json::{Value, json};
use verdigris::Engine;
use verdigris::models::{Batch, Rows, Wanted};

use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL, with};

const TEXTS: [&str; 3] = ["The captain was asleep.", "A boat", "The sea was calm and silent."];

fn started(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::new();
    let server = Server::start(&folder, &[&["--model", "small=tale-small"], more].concat());
    (folder, server)
}

fn numbers(vector: &Value) -> Vec<f32> {
    vector.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn vectors(answer: &Value) -> Vec<Vec<f32>> {
    answer["data"].as_array().unwrap().iter().map(|each| numbers(&each["embedding"])).collect()
}

fn unit(vector: &[f32]) -> Vec<f32> {
    let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    vector.iter().map(|&x| (f64::from(x) / length) as f32).collect()
}

#[track_caller]
fn assert_near(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{a} {b}"));
}

/// The mean of the hidden states, which the model computes here token by token.
fn expected(engine: &Engine, text: &str) -> Vec<f32> {
    let tokens = engine.prompt_tokens(&text.into()).unwrap();
    let mut sequence = engine.model().clone().begin(tokens.len()).unwrap();
    let (mut rows, mut sum) = (Rows::with_hidden(), vec![0.0; engine.model().hidden_size().unwrap()]);
    for token in &*tokens {
        sequence.forward(&Batch::chain(&[*token], Wanted::Last), &mut rows).unwrap();
        sum.iter_mut().zip(rows.hidden(0)).for_each(|(sum, state)| *sum += state);
    }
    unit(&sum)
}

#[test]
fn embeddings_are_means_of_hidden_states() {
    let (_folder, server) = started(&[]);
    let engine = Engine::load(TALE_SMALL).unwrap();
    let post = |more: Value| {
        let answer = server.post("/v1/embeddings", &with(json!({"model": "small"}), &more));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let all = post(json!({"input": TEXTS, "user": "u"}));
    let tokens: Vec<Vec<u32>> = TEXTS.map(|text| engine.prompt_tokens(&text.into()).unwrap().to_vec()).into();
    let count: usize = tokens.iter().map(Vec::len).sum();
    assert_eq!((&all["object"], &all["model"]), (&json!("list"), &json!("small")));
    assert_eq!(all["usage"], json!({"prompt_tokens": count, "total_tokens": count}));
    let found = vectors(&all);
    for (at, text) in TEXTS.iter().enumerate() {
        assert_eq!((&all["data"][at]["index"], &all["data"][at]["object"]), (&json!(at), &json!("embedding")));
        assert_near(&found[at], &expected(&engine, text));
        let alone = vectors(&post(json!({"input": text})));
        assert_eq!(alone, [found[at].clone()], "the same bits alone and with others");
        assert_eq!(vectors(&post(json!({"input": tokens[at]}))), alone);
    }
    assert_eq!(vectors(&post(json!({"input": tokens}))), found);
    // Many texts, and one that is read in several passes.
    let long = TEXTS[2].repeat(60);
    let many: Vec<&str> = TEXTS.iter().copied().cycle().take(40).chain([&*long]).collect();
    let of_many = vectors(&post(json!({"input": many})));
    assert!(of_many[..40].iter().zip(found.iter().cycle()).all(|(a, b)| a == b));
    assert_near(&of_many[40], &expected(&engine, &long));

    let coded = post(json!({"input": TEXTS[0], "encoding_format": "base64"}));
    let bytes = BASE64.decode(coded["data"][0]["embedding"].as_str().unwrap().as_bytes()).unwrap();
    let coded: Vec<f32> = bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect();
    assert_eq!(coded, found[0]);
    let few = vectors(&post(json!({"input": TEXTS[0], "dimensions": 8})));
    assert_near(&few[0], &unit(&found[0][..8]));

    let embed = server.post("/api/embed", &json!({"model": "small:latest", "input": TEXTS, "truncate": true})).json();
    let of_ollama: Vec<Vec<f32>> = embed["embeddings"].as_array().unwrap().iter().map(numbers).collect();
    assert_eq!((of_ollama, &embed["model"]), (found.clone(), &json!("small:latest")));
    assert_eq!(embed["prompt_eval_count"], count);
    let older = server.post("/api/embeddings", &json!({"model": "small", "prompt": TEXTS[0], "options": {}})).json();
    assert_eq!(numbers(&older["embedding"]), found[0]);
}

#[test]
fn bad_requests_for_embeddings_are_refused() {
    let (_folder, server) = started(&["--max-prompt-tokens", "50"]);
    let long = "word ".repeat(80);
    for (body, param, code) in [
        (json!({}), "input", "missing_field"),
        (json!({"input": ["x", ""], "model": "large"}), "model", "model_not_found"),
        (json!({"input": "x", "dimensions": 0}), "dimensions", "invalid_value"),
        (json!({"input": "x", "dimensions": 100_000}), "dimensions", "invalid_value"),
        (json!({"input": "x", "encoding_format": "int8"}), "encoding_format", "invalid_value"),
        (json!({"input": [[1, 999_999]]}), "input", "invalid_value"),
        (json!({"input": ["x", long]}), "input", "context_length_exceeded"),
        (json!({"input": []}), "input", "invalid_value"),
    ] {
        let answer = server.post("/v1/embeddings", &body);
        let error = &answer.json()["error"];
        let status = if code == "model_not_found" { 404 } else { 400 };
        assert_eq!((answer.status, &error["param"], &error["code"]), (status, &json!(param), &json!(code)), "{body}");
    }
    let older = server.post("/api/embeddings", &json!({"prompt": long}));
    assert_eq!((older.status, &older.json()["param"]), (400, &json!("prompt")));
}
