//! A server that answers many requests at a time: no answer depends on the other requests.
#![cfg(feature = "serve")]

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::server::{Answer, Server};
use crate::support::until;

/// A value of `/metrics`.
#[track_caller]
fn metric(server: &Server, name: &str) -> f64 {
    let text = server.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
}

/// Waits until a value of `/metrics` is `value`.
#[track_caller]
fn comes_to(server: &Server, name: &str, value: f64) {
    until(|| metric(server, name) == value, || format!("{name} is {}", metric(server, name)));
}

/// A pseudorandom number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// A pseudorandom request, which varies in everything that can differ between requests.
fn by_chance(number: u64) -> (&'static str, Value) {
    let mut dice = Dice(number);
    dice.below(2);
    let beginnings = [
        "It was a dark night, and the captain stood at the wheel of the ship, which had left the harbour three days \
         before. The sea was high, the men were tired, and nobody had seen the stars since then. ",
        "It was a dark night, and the captain slept. ",
        "The key of the old house lay under a stone beside the door. ",
        "",
    ];
    let endings = ["The captain", "\"Yes,\" said", "A", "In the morning the ship", "Nobody"];
    let prompt = [beginnings[dice.below(4) as usize], endings[dice.below(5) as usize]].concat();
    let mut body = json!({"prompt": prompt, "seed": number, "max_tokens": 4 + dice.below(28)});
    let fields = [
        json!({"temperature": 0}),
        json!({"temperature": 0.7, "top_k": 20}),
        json!({"top_p": 0.9}),
        json!({"min_p": 0.1, "presence_penalty": 0.5}),
        json!({"repetition_penalty": 1.2}),
        json!({"n": 2, "return_token_ids": true}),
        json!({"stop": [".", " the"]}),
        json!({"structured_outputs": {"regex": " [a-z]{3,9}( [a-z]{2,9}){2,4}\\."}}),
        json!({"structured_outputs": {"json": {"type": "object", "additionalProperties": false, "required": ["a"],
            "properties": {"a": {"type": "string", "maxLength": 8}}}}}),
        json!({"logprobs": 2}),
        json!({"logit_bias": {"13": -20}}),
        json!({"watermarking": false}),
    ];
    for _ in 0..2 {
        let more = fields[dice.below(fields.len() as u64) as usize].clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    ("/v1/completions", body)
}

/// The status and body of an answer, without the fields that differ each time.
#[track_caller]
fn said(server: &Server, (path, body): &(&str, Value)) -> Value {
    let answer = server.post(path, body);
    let mut said = answer.json();
    for field in ["id", "created"] {
        said.as_object_mut().unwrap().remove(field);
    }
    json!([answer.status, said])
}

/// 200 requests, one after the other and sixteen at a time in another order: every answer is the same.
#[test]
fn company_changes_nothing() {
    let (_folder, server) = Server::marking(&["--max-num-seqs", "12"]);
    let requests: Vec<_> = (0..200).map(by_chance).collect();
    let alone: Vec<Value> = requests.iter().map(|request| said(&server, request)).collect();
    let next = AtomicUsize::new(0);
    let side_by_side = std::thread::scope(|scope| {
        let client = || {
            let mut heard = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= requests.len() {
                    return heard;
                }
                // 73 and 200 are coprime, so every request comes once.
                let number = at * 73 % requests.len();
                heard.push((number, said(&server, &requests[number])));
            }
        };
        let clients: Vec<_> = (0..16).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect::<BTreeMap<_, _>>()
    });
    for (number, heard) in side_by_side {
        assert_eq!(heard, alone[number], "{}", requests[number].1);
    }
    assert!(alone.iter().filter(|said| said[0] == 200).count() > 180, "most requests succeed");
    let (passes, tokens) =
        (metric(&server, "verdigris_model_passes_total"), metric(&server, "verdigris_model_tokens_total"));
    assert!(tokens > 1.5 * passes, "{tokens} tokens in {passes} passes");
}

/// Drafts do not change the text of a seed.
#[test]
fn drafts_change_no_text_whose_seed_is_given() {
    let (folder, plain) = Server::marking(&[]);
    let drafted = Server::start(&folder, &["--key", "my.key", "--draft", "tale-small", "--lookup"]);
    for number in 0..40 {
        let request = by_chance(number);
        assert_eq!(said(&drafted, &request), said(&plain, &request), "{}", request.1);
    }
    assert!(metric(&drafted, "verdigris_spec_decode_num_accepted_tokens_total") > 0.0);
    assert_eq!(metric(&plain, "verdigris_spec_decode_num_draft_tokens_total"), 0.0);
}

#[test]
fn steered_answers_are_marked() {
    let (_folder, server) = Server::marking(&["--expert", "tale-expert", "--anti", "tale-small", "--alpha", "1.5"]);
    let body = json!({"prompt": "My dear,", "max_tokens": 200, "ignore_eos": true, "seed": 1});
    let answer = server.post("/v1/completions", &body).json();
    let found = server.post("/detect", &json!({"text": answer["choices"][0]["text"]})).json();
    assert_eq!(found["is_watermarked"], true, "{found}");
}

/// A request may set its own weight of experts if the operator allows it, up to the operator's limit.
#[test]
fn a_request_may_weigh_experts() {
    let steering = ["--expert", "tale-expert", "--anti", "tale-small", "--alpha", "1.5"];
    let (folder, fixed) = Server::marking(&steering);
    let key = ["--key", "my.key"];
    let free = Server::start(&folder, &[&key, &steering[..], &["--max-alpha", "2"]].concat());
    let plain = Server::start(&folder, &key);
    let asked = |server: &Server, alpha: Option<f64>| {
        let mut body = json!({"prompt": "My dear,", "max_tokens": 40, "ignore_eos": true, "seed": 1});
        alpha.iter().for_each(|&alpha| body["alpha"] = alpha.into());
        server.post("/v1/completions", &body)
    };
    let text = |answer: Answer| answer.json()["choices"][0]["text"].as_str().unwrap().to_owned();
    let usual = text(asked(&fixed, None));
    assert_eq!(text(asked(&free, None)), usual);
    assert_eq!(text(asked(&free, Some(1.5))), usual);
    assert_ne!(text(asked(&free, Some(0.5))), usual);
    assert_eq!(text(asked(&free, Some(0.0))), text(asked(&plain, None)));
    for (server, alpha) in [(&free, 2.5), (&fixed, 1.5), (&plain, 0.0)] {
        let answer = asked(server, Some(alpha));
        assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!("alpha_not_allowed")));
    }
    let unsteered = folder.run(&["serve", "--max-alpha", "1"]);
    assert!(unsteered.status == 2 && unsteered.err.contains("--anti"), "{unsteered:?}");
    let bad = folder.run(&["serve", "--anti", "tale-small", "--max-alpha", "nan"]);
    assert!(bad.status == 2 && bad.err.contains("0 or more"), "{bad:?}");
}

/// Time in the queue and time to process the prompt are measured separately.
#[test]
fn waiting_is_measured_apart_from_reading() {
    let (_folder, server) = Server::marking(&["--max-num-seqs", "1"]);
    let long = json!({"prompt": "The captain", "max_tokens": 400, "ignore_eos": true, "stream": true});
    let mut running = server.ask("/v1/completions", &long);
    running.read_exact(&mut [0; 400]).unwrap();
    let of = |name: &str| metric(&server, &format!("verdigris_request_{name}_time_seconds_sum"));
    let alone = of("queue");
    server.post("/v1/completions", &json!({"prompt": "The", "max_tokens": 1}));
    running.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(metric(&server, "verdigris_request_queue_time_seconds_count"), 2.0);
    assert_eq!(metric(&server, "verdigris_request_prefill_time_seconds_count"), 2.0);
    let waited = of("queue") - alone;
    assert!(waited > 10.0 * of("prefill"), "it waited for 400 tokens and read one: {waited} {}", of("prefill"));
}

/// When a client disconnects, the memory of its running and waiting texts is released at once.
#[test]
fn who_goes_away_gives_memory_back() {
    let (_folder, server) = Server::marking(&["--max-num-seqs", "3"]);
    let body = json!({"prompt": "The captain", "max_tokens": 1900, "ignore_eos": true, "stream": true, "n": 20});
    let mut running = server.ask("/v1/completions", &body);
    running.read_exact(&mut [0; 400]).unwrap();
    comes_to(&server, "verdigris_num_requests_running", 3.0);
    // Of 20 texts three run and three wait; the others have not started.
    comes_to(&server, "verdigris_num_requests_waiting", 3.0);
    assert!(metric(&server, "verdigris_kv_cache_usage_perc") > 0.0);
    drop(running);
    for name in ["num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"] {
        comes_to(&server, &format!("verdigris_{name}"), 0.0);
    }
    let tokens = metric(&server, "verdigris_model_tokens_total");
    assert!(tokens < 20.0 * 1900.0 / 2.0, "most of it was never generated: {tokens}");
}

/// A common prefix of prompts is processed once.
#[test]
fn beginnings_are_read_once() {
    let (_folder, server) = Server::marking(&[]);
    let system = "The captain told the men what they should do when the storm came. ".repeat(60);
    let ask = |end: &str| {
        let body = json!({"prompt": format!("{system}{end}"), "max_tokens": 4, "seed": 1});
        server.post("/v1/completions", &body).json()["usage"]["prompt_tokens"].as_f64().unwrap()
    };
    let first = ask("Then he slept.");
    assert_eq!(metric(&server, "verdigris_prefix_cache_hits_total"), 0.0);
    let second = ask("Nobody answered.");
    let hits = metric(&server, "verdigris_prefix_cache_hits_total");
    assert!(hits > 0.9 * first.min(second), "{hits} of {second}");
}
