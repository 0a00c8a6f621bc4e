//! A server with several tenants: no tenant learns what another one sends, or delays another one.
#![cfg(feature = "serve")]

use std::io::Read;

use serde_json::{Value, json};

use crate::sampled::sampled;
use crate::support::server::Server;
use crate::support::{Folder, until};

const ACME: &str = "0123456789abcdef-acme";
const RIVAL: &str = "0123456789abcdef-rival";
const OPERATOR: &str = "0123456789abcdef-operator";

/// A server with two tenants and an operator.
fn of_tenants(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::with_key();
    folder.write("keys.txt", &format!("acme {ACME}\nrival {RIVAL}\noperator {OPERATOR} metrics\n"));
    let server = Server::start(&folder, &[&["--key", "my.key", "--api-key-file", "keys.txt"], more].concat());
    (folder, server)
}

/// A value of `/metrics`.
#[track_caller]
fn metric(server: &Server, name: &str) -> f64 {
    let text = server.get_as("/metrics", &format!("Bearer {OPERATOR}")).text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Waits until no request is running or waiting.
#[track_caller]
fn comes_to_nothing(server: &Server) {
    let requests = |state: &str| metric(server, &format!("verdigris_num_requests_{state}"));
    until(|| requests("running") + requests("waiting") == 0.0, || "texts do not end".into());
}

/// The number of prompt tokens that are found in the cache when these prompts are processed.
fn shared(server: &Server, key: &str, prompts: &Value) -> f64 {
    let name = "verdigris_prefix_cache_hits_total";
    let before = metric(server, name);
    let answer = server.post_as("/v1/completions", key, &json!({"prompt": prompts, "max_tokens": 1}));
    assert_eq!(answer.status, 200, "{answer:?}");
    // The counts are updated after an answer is handed over.
    comes_to_nothing(server);
    metric(server, name) - before
}

/// A rival that guesses the tokens of another tenant's prompt learns nothing: neither the counts nor the tokens left to
/// process depend on the guess.
#[test]
fn no_tenant_finds_out_how_the_prompts_of_another_begin() {
    let secret = "Zebra marmalade nineteen. The captain kept a letter in the drawer of his desk. ".repeat(9);
    let guesses = |server: &Server| {
        let tokens = server.post_as("/tokenize", RIVAL, &json!({"prompt": secret})).json()["tokens"].clone();
        let tokens: Vec<u64> = serde_json::from_value(tokens).unwrap();
        assert!(tokens.len() > 130, "several pages: {}", tokens.len());
        assert_eq!(shared(server, ACME, &json!(tokens)), 0.0);
        assert!(shared(server, ACME, &json!(tokens)) > 100.0, "a tenant shares with itself");
        // Without any knowledge: each token is tried at the first position.
        let first = (0..4096u64).collect::<Vec<_>>();
        let is_right = |batch: &&[u64]| batch.contains(&tokens[0]);
        let wrong = sampled(first.chunks(128).filter(|batch| !is_right(batch)), 4);
        let batches = wrong.chain(first.chunks(128).filter(is_right)).map(|batch| {
            let prompts: Vec<[u64; 2]> = batch.iter().map(|&token| [token, 5]).collect();
            (is_right(&batch), shared(server, RIVAL, &json!(prompts)))
        });
        let batches: Vec<(bool, f64)> = batches.collect();
        // And all tokens but the last at once.
        let known = [&tokens[..tokens.len() - 1], &[5]].concat();
        (batches, shared(server, RIVAL, &json!([known])))
    };
    let (_folder, server) = of_tenants(&[]);
    let refused = server.get_as("/metrics", &format!("Bearer {RIVAL}"));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("not_allowed")));
    let (batches, all) = guesses(&server);
    assert!(batches.iter().all(|&(_, shared)| shared == 0.0) && all == 0.0, "{batches:?}, {all}");
    // If the operator lets tenants share caches, all of this is visible.
    let (_folder, server) = of_tenants(&["--share-caches"]);
    let (batches, all) = guesses(&server);
    assert!(batches.iter().all(|&(is_right, shared)| (shared > 0.0) == is_right), "{batches:?}");
    assert!(all > 100.0, "{all}");
}

/// The texts of a request start as capacity allows, and a small request is served along with a large one, from any
/// tenant.
#[test]
fn a_large_request_holds_up_nobody() {
    let (_folder, server) = of_tenants(&["--max-num-seqs", "4", "--max-num-batched-tokens", "64"]);
    // Long prompts, each the beginning of many long texts.
    let prompts: Vec<String> = (0..8).map(|i| format!("Chapter {i}. {}", "The captain slept. ".repeat(60))).collect();
    let large = json!({"prompt": prompts, "n": 128, "max_tokens": 500, "ignore_eos": true, "stream": true});
    let mut running = server.ask_as("/v1/completions", ACME, &large);
    running.read_exact(&mut [0; 400]).unwrap();
    for round in 0..30 {
        let key = if round % 2 == 0 { RIVAL } else { ACME };
        let small = json!({"prompt": "Hello", "max_tokens": 1, "temperature": 0});
        let passes = metric(&server, "verdigris_model_passes_total");
        assert_eq!(server.post_as("/v1/completions", key, &small).status, 200);
        // The request itself takes two passes. Others happen while requests and answers are in transit.
        let passes = metric(&server, "verdigris_model_passes_total") - passes;
        assert!(passes < 400.0, "{passes} passes for a text of one token");
        let (written, waiting) =
            (metric(&server, "verdigris_num_requests_running"), metric(&server, "verdigris_num_requests_waiting"));
        assert!(written <= 4.0 && written + waiting <= 9.0, "{written} and {waiting} of 1,024 texts are begun");
    }
    drop(running);
}

/// The maximum cost of a request is known before it starts, and a request that costs too much is refused.
#[test]
fn a_request_is_charged_for_what_it_asks() {
    let (_folder, server) = of_tenants(&[]);
    let asked = |body: Value| {
        let answer = server.post_as("/v1/completions", ACME, &body);
        let code = (answer.status != 200).then(|| answer.json()["error"]["code"].as_str().unwrap().to_owned());
        (answer.status, code.unwrap_or_default())
    };
    let prompts = vec!["The captain"; 128];
    assert_eq!(asked(json!({"prompt": prompts, "n": 128, "max_tokens": 1})), (400, "too_many_texts".into()));
    let logprobs = json!({"prompt": "The", "n": 128, "max_tokens": 4096, "logprobs": 20});
    assert_eq!(asked(logprobs), (400, "answer_too_large".into()));
    assert_eq!(asked(json!({"prompt": prompts, "n": 8, "max_tokens": 1})), (200, String::new()));
    assert_eq!(asked(json!({"prompt": "The", "max_tokens": 9, "logprobs": 20})), (200, String::new()));
    // All pending answers share a limit of bytes, of which one of several tenants gets half. The bytes are released at
    // the end.
    let (_folder, server) = of_tenants(&["--max-pending-bytes", "400000", "--max-answer-bytes", "300000"]);
    let body = json!({"prompt": "The", "max_tokens": 1900, "ignore_eos": true, "stream": true});
    let mut streams: Vec<_> = (0..3).map(|_| server.ask_as("/v1/completions", ACME, &body)).collect();
    let mut statuses = streams.iter_mut().map(|stream| {
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        head[9..].to_vec()
    });
    assert!(statuses.any(|status| status == b"429"), "of 400,000 bytes one tenant may have half");
    drop(streams);
    comes_to_nothing(&server);
    for _ in 0..20 {
        assert_eq!(server.post_as("/v1/completions", ACME, &json!({"prompt": "The", "max_tokens": 2})).status, 200);
    }
}

/// When one tenant takes all the slots that it can, another one is still answered.
#[test]
fn no_tenant_takes_all_places() {
    let (_folder, server) = of_tenants(&["--max-requests", "8"]);
    let body = json!({"prompt": "The", "n": 20, "max_tokens": 1900, "ignore_eos": true, "stream": true});
    let mut streams: Vec<_> = (0..8).map(|_| server.ask_as("/v1/completions", ACME, &body)).collect();
    let statuses: Vec<_> = streams
        .iter_mut()
        .map(|stream| {
            let mut head = [0; 12];
            stream.read_exact(&mut head).unwrap();
            String::from_utf8(head[9..].to_vec()).unwrap()
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| *status == "200").count(), 4, "{statuses:?}");
    let small = json!({"prompt": "Hello", "max_tokens": 1});
    assert_eq!(server.post_as("/v1/completions", RIVAL, &small).status, 200);
    assert_eq!(server.post_as("/v1/completions", ACME, &small).status, 429);
    drop(streams);
    comes_to_nothing(&server);
    assert_eq!(server.post_as("/v1/completions", ACME, &small).status, 200);
}
