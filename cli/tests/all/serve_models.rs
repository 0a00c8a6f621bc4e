//! A server with several models.
#![cfg(feature = "serve")]

use std::io::Read;

use serde_json::{Value, json};

use crate::support::server::{Answer, Server};
use crate::support::{Folder, KEY, TALE_SMALL, until, with};

/// The models: a and c are the same.
const MODELS: [&str; 6] = ["--model", "a=tale", "--model", "b=tale-small", "--model", "c=tale"];

fn started(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::with_key();
    let server = Server::start(&folder, &[&MODELS, &["--key", "my.key"][..], more].concat());
    (folder, server)
}

fn ask(model: &str, more: &Value) -> Value {
    with(json!({"model": model, "prompt": "The captain", "max_tokens": 20, "seed": 3, "ignore_eos": true}), more)
}

#[track_caller]
fn text(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["choices"][0]["text"].as_str().unwrap().to_owned()
}

/// The names of the models in a list of Ollama's protocol.
fn names(server: &Server, path: &str) -> Vec<String> {
    let models = server.get(path).json()["models"].as_array().unwrap().clone();
    models.iter().map(|model| model["model"].as_str().unwrap().to_owned()).collect()
}

fn metric(server: &Server, name: &str) -> Option<f64> {
    let metrics = server.get("/metrics").text;
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn models_are_loaded_on_demand_and_the_least_recently_used_is_released() {
    let (_folder, server) = started(&["--models-loaded", "2"]);
    let listed = server.get("/v1/models").json();
    let ids: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((ids, &listed["first_id"], &listed["last_id"]), (vec!["a", "b", "c"], &json!("a"), &json!("c")));
    assert_eq!(listed["data"][1]["max_model_len"], 2048, "known before it is loaded: {listed}");
    assert_eq!(server.get("/v1/models/b").json()["id"], "b");
    assert_eq!(names(&server, "/api/tags"), ["a", "b", "c"]);
    assert_eq!(names(&server, "/api/ps"), ["a"]);

    let post = |model: &str| server.post("/v1/completions", &ask(model, &json!({})));
    let of_b = post("b");
    assert_eq!((&of_b.json()["model"], &of_b.json()["watermark"]["key_id"]), (&json!("b"), &json!("vg-c0ffee00")));
    assert_eq!(names(&server, "/api/ps"), ["a", "b"]);
    text(&post("a"));
    let of_c = text(&post("c"));
    assert_eq!(names(&server, "/api/ps"), ["a", "c"]);
    // Of a request that names none.
    let first = server
        .post("/v1/completions", &json!({"prompt": "The captain", "max_tokens": 20, "seed": 3, "ignore_eos": true}));
    assert_eq!((&first.json()["model"], text(&first)), (&json!("a"), of_c.clone()));
    assert_ne!(text(&of_b), of_c);
    assert_eq!(text(&post("b")), text(&of_b), "loaded again");
    assert_eq!(names(&server, "/api/ps"), ["a", "b"]);

    assert_eq!(metric(&server, "verdigris_models_loaded "), Some(2.0));
    assert_eq!(metric(&server, "verdigris_model_loads_total{model=\"b\"} "), Some(2.0));
    // The totals of loops that have ended stay.
    let passes = metric(&server, "verdigris_model_passes_total ").unwrap();
    assert!(passes >= 80.0, "{passes}");
    assert_eq!(server.get("/ready").status, 200);

    let unknown =
        server.post("/v1/chat/completions", &json!({"model": "gpt-4", "messages": [{"role": "user", "content": "x"}]}));
    let said = unknown.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!((unknown.status, said.ends_with("it serves \"a\", \"b\", \"c\"")), (404, true), "{said}");
    assert_eq!(server.get("/v1/models/d").status, 404);
    assert_eq!(server.post("/api/show", &json!({"model": "d"})).status, 404);
    // Ollama's clients load models with an empty prompt, and add a tag.
    let load = json!({"model": "c:latest", "stream": false});
    assert_eq!(server.post("/api/generate", &load).json()["done_reason"], "load");
    assert!(names(&server, "/api/ps").contains(&"c".to_owned()));
    let tokens = server.post("/tokenize", &json!({"model": "b", "prompt": "The captain"})).json()["count"].clone();
    assert!(tokens.as_u64().unwrap() > 0, "{tokens}");
}

/// The text of a model that others wait for is written to its end, and is the one that it is alone.
#[test]
fn a_model_is_not_released_while_it_answers() {
    let (_folder, server) = started(&["--models-loaded", "1"]);
    let long = ask("a", &json!({"max_tokens": 600, "stream": true}));
    let alone: String = pieces(&server.post("/v1/completions", &long));
    let mut stream = server.ask("/v1/completions", &long);
    let mut first = [0; 400];
    stream.read_exact(&mut first).unwrap();
    std::thread::scope(|scope| {
        let others: Vec<_> = ["b", "c", "b"]
            .map(|model| {
                let server = &server;
                scope.spawn(move || text(&server.post("/v1/completions", &ask(model, &json!({})))))
            })
            .into();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        let all = String::from_utf8(first.to_vec()).unwrap() + &rest;
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        assert_eq!(pieces(&Answer { status: 200, head: head.to_lowercase(), text: body.into() }), alone);
        let texts: Vec<String> = others.into_iter().map(|other| other.join().unwrap()).collect();
        assert!(texts[0] == texts[2] && texts[0] != texts[1]);
    });
    assert_eq!(names(&server, "/api/ps").len(), 1);
    let log = server.log();
    let release = log.iter().position(|line| line.contains("released the model \"a\"")).unwrap();
    let answered = log[..release].iter().filter(|line| line.contains("/v1/completions")).count();
    assert_eq!(answered, 2, "nothing is loaded before both of its texts are complete: {log:?}");
}

/// The text of a stream.
fn pieces(answer: &Answer) -> String {
    answer.events().iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect()
}

#[test]
fn concurrent_first_requests_load_once() {
    let (_folder, server) = started(&[]);
    let texts: Vec<String> = std::thread::scope(|scope| {
        let one = || text(&server.post("/v1/completions", &ask("b", &json!({}))));
        let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|text| *text == texts[0]));
    assert_eq!(metric(&server, "verdigris_model_loads_total{model=\"b\"} "), Some(1.0));
    // Two of the weights fit into this memory, but not three.
    let (_folder, server) = started(&["--models-memory", "17000000"]);
    ["b", "c"].iter().for_each(|model| drop(text(&server.post("/v1/completions", &ask(model, &json!({}))))));
    assert_eq!(names(&server, "/api/ps"), ["b", "c"]);
}

/// A model like tale-small, in whose tokenizer two words have each other's ids.
fn other_tokenizer(folder: &Folder, name: &str) {
    folder.copy_model(TALE_SMALL, name);
    let file = format!("{name}/tokenizer.json");
    let mut tokenizer: Value = serde_json::from_str(&folder.read(&file)).unwrap();
    let vocabulary = &mut tokenizer["model"]["vocab"];
    let (one, other) = (vocabulary["Ġbe"].take(), vocabulary["Ġwas"].take());
    (vocabulary["Ġbe"], vocabulary["Ġwas"]) = (other, one);
    folder.write(&file, &tokenizer.to_string());
}

#[test]
fn each_tokenizer_has_its_keys() {
    let folder = Folder::with_key();
    other_tokenizer(&folder, "other");
    let models = ["--model", "one=tale-small", "--model", "other"];
    let fails = |more: &[&str], said: &str| {
        let run = folder.run(&[&["serve", "--port", "0"], &models[..], more].concat());
        run.fails(said);
        run.fails("the model \"other\": ");
    };
    fails(&["--key", "my.key"], "or give --ring with a key for each tokenizer");
    std::fs::create_dir(folder.path("ring")).unwrap();
    folder.write_private("ring/one.key", KEY);
    fails(&["--ring", "ring"], "no key for its tokenizer: make one with `verdigris key new --model`");
    folder.run(&["key", "new", "ring/other.key", "--model", "other", "--id", "second"]).done();

    let server = Server::start(&folder, &[&models[..], &["--ring", "ring", "--enforce-all"]].concat());
    let write = |model: &str| {
        let answer = server.post("/v1/completions", &ask(model, &json!({"max_tokens": 300})));
        assert_eq!(answer.json()["watermark"]["status"], "watermarked", "{answer:?}");
        (text(&answer), answer.json()["watermark"]["key_id"].as_str().unwrap().to_owned())
    };
    let [(one, one_key), (other, other_key)] = ["one", "other"].map(write);
    assert_eq!((&*one_key, &*other_key), ("vg-c0ffee00", "second"));
    let found = |text: &str, more: &Value| server.post("/detect", &with(json!({"text": text}), more));
    let refused = found(&one, &json!({}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("model")), "{refused:?}");
    for (text, model, key_id) in [(&one, "one", "vg-c0ffee00"), (&other, "other", "second")] {
        for named in [json!({"model": model}), json!({"key_id": key_id})] {
            let found = found(text, &named).json();
            assert_eq!((&found["verdict"], &found["key_id"]), (&json!("marked"), &json!(key_id)), "{found}");
        }
    }
    assert_eq!(found(&one, &json!({"model": "other"})).json()["verdict"], "not marked");
    assert_eq!(found(&one, &json!({"model": "none"})).status, 404);
    let unmarked = server.post("/v1/completions", &ask("other", &json!({"watermarking": false})));
    assert_eq!(unmarked.json()["error"]["code"], "watermark_enforced");

    // A model that gets another tokenizer later is not used: its key would not fit.
    folder.copy_model(TALE_SMALL, "third");
    let models = ["--model", "tale-small", "--model", "third", "--key", "my.key"];
    let server = Server::start(&folder, &models);
    std::fs::copy(folder.path("other/tokenizer.json"), folder.path("third/tokenizer.json")).unwrap();
    assert_eq!(server.post("/v1/completions", &ask("third", &json!({}))).json()["error"]["code"], "model_unavailable");
}

#[test]
fn bad_models_are_refused() {
    let folder = Folder::with_key();
    for (options, said) in [
        (&["--model", "=tale"][..], "is not NAME=PATH"),
        (&["--model", "tale", "--model", "tale"], "two models have the name \"tale\""),
        (&["--model", "a=tale", "--model", "b=tale", "--served-model-name", "x"], "--model NAME=PATH"),
        (&["--model", "a=tale", "--model", "b=tale", "--adapter", "x"], "give the folder of an adapter as a --model"),
        (&["--model", "tale", "--model", "b=missing/folder"], "missing/folder"),
    ] {
        folder.run(&[&["serve", "--port", "0"], options].concat()).fails(said);
    }
    folder.copy_model(TALE_SMALL, "teller");
    let server = Server::start(&folder, &["--model", "tale", "--model", "teller", "--models-loaded", "1"]);
    std::fs::write(folder.path("teller/model.safetensors"), b"damaged").unwrap();
    let refused = server.post("/v1/completions", &ask("teller", &json!({})));
    let error = &refused.json()["error"];
    assert_eq!((refused.status, &error["code"]), (503, &json!("model_unavailable")), "{refused:?}");
    assert!(!refused.text.contains("safetensors"), "files of the operator are not named: {error}");
    until(
        || server.log().iter().any(|line| line.contains("cannot load the model \"teller\"")),
        || format!("{:?}", server.log()),
    );
    text(&server.post("/v1/completions", &ask("tale", &json!({}))));
    // It is not tried again at once, so that no other model is released for it.
    assert_eq!(server.post("/v1/completions", &ask("teller", &json!({}))).status, 503);
    assert_eq!(names(&server, "/api/ps"), ["tale"]);
    assert_eq!(server.get("/ready").status, 200);
}
