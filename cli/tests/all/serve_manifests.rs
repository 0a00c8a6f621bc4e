//! The server signs texts with another program, `verdigris-c2pa`, instead of which a script records the texts.
//! `crates/c2pa/tests/serve.rs` verifies manifests of the program itself.
#![cfg(all(feature = "serve", unix))]

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL, install, until, write_script};

/// The manifest that the script makes, in base64.
const STORE: &str = "U1RPUkU=";
/// Keeps the text, and prints the manifest.
const SIGNS: &str = "cat > texts/$$; printf STORE";
/// Fails, with a reason that contains a path of the operator.
const FAILS: &str = "cat > texts/$$; echo 'error: cannot read /etc/secret/key.pem' >&2; exit 2";

/// A folder with a copy of the program, and a script that signs.
fn installed(script: &str) -> Folder {
    let folder = Folder::with_key();
    install(&folder.path("verdigris"));
    write_script(
        &folder.path("verdigris-c2pa"),
        &format!(
            "#!/bin/sh\nprintf '%s|' \"$@\" >> calls; echo >> calls\n\
             for a; do [ \"$a\" = --check ] && echo 'sidecar' && exit 0; done\n{script}\n"
        ),
    );
    fs::create_dir(folder.path("texts")).unwrap();
    folder
}

fn command(folder: &Folder, options: &[&str]) -> Command {
    let mut command = Command::new(folder.path("verdigris"));
    command.args(["serve", "--port", "0", "--key", "my.key", "--max-tokens", "40", "--audit-log", "audit.jsonl"]);
    command.args(options).current_dir(folder.path("")).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    command
}

const SIGNER: [&str; 4] = ["--c2pa-cert", "a.pem", "--c2pa-key", "k.pem"];

fn signing(folder: &Folder, options: &[&str]) -> Server {
    Server::started(&mut command(folder, &[&SIGNER[..], options].concat()))
}

/// The texts that were signed.
fn texts(folder: &Folder) -> Vec<String> {
    let files = fs::read_dir(folder.path("texts")).unwrap();
    let mut texts: Vec<String> = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    texts.sort();
    texts
}

/// The entries of the audit log about the signatures of all texts.
fn audited(folder: &Folder) -> Vec<Value> {
    let log = folder.read("audit.jsonl");
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.flat_map(|line| line["texts"].as_array().unwrap().clone()).map(|text| text["c2pa"].clone()).collect()
}

const PATH: &str = "/v1/completions";

fn completion(more: Value) -> Value {
    let mut body = json!({"prompt": "The captain", "max_tokens": 12, "seed": 3, "ignore_eos": true});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The manifest is that of exactly the text that the client gets, in every protocol, complete and streamed.
#[test]
fn every_text_has_its_manifest_next_to_it() {
    let folder = installed(SIGNS);
    folder.copy_model(TALE_SMALL, "teller");
    folder.write("teller/chat_template.jinja", "{% for m in messages %}{{ m.content }}\n{% endfor %}");
    let server = signing(&folder, &["--model", "teller"]);
    let mut expected = Vec::new();

    let answer = server.post(PATH, &completion(json!({"n": 2, "echo": true}))).json();
    for choice in answer["choices"].as_array().unwrap() {
        assert_eq!(choice["c2pa"], STORE, "{choice}");
        // The prompt that is echoed is not the model's.
        expected.push(choice["text"].as_str().unwrap().strip_prefix("The captain").unwrap().to_owned());
    }
    let events = server.post(PATH, &completion(json!({"stream": true, "seed": 9}))).events();
    let (last, others) = events.split_last().unwrap();
    assert_eq!(last["choices"][0]["c2pa"], STORE, "{last}");
    assert!(others.iter().all(|event| event["choices"][0].get("c2pa").is_none()));
    expected.push(events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap()).collect());

    let chat = json!({"messages": [{"role": "user", "content": "A letter"}], "max_tokens": 12, "seed": 4});
    let answer = server.post("/v1/chat/completions", &chat).json();
    assert_eq!(answer["choices"][0]["c2pa"], STORE, "{answer}");
    expected.push(answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned());

    let mut asked = json!({"input": "A letter", "max_output_tokens": 12, "seed": 5});
    let answer = server.post("/v1/responses", &asked).json();
    assert_eq!(answer["c2pa"], STORE, "{answer}");
    expected.push(answer["output"][0]["content"][0]["text"].as_str().unwrap().to_owned());
    (asked["stream"], asked["seed"]) = (true.into(), 6.into());
    let events = server.post("/v1/responses", &asked).named_events();
    let last = events.last().unwrap();
    assert_eq!(last["response"]["c2pa"], STORE, "{last}");
    expected.push(last["response"]["output"][0]["content"][0]["text"].as_str().unwrap().to_owned());

    expected.sort();
    assert_eq!(texts(&folder), expected);
    let calls = folder.read("calls");
    let calls: Vec<&str> = calls.lines().collect();
    let fixed = "sign|-|--certificate|a.pem|--private-key|k.pem|";
    assert_eq!(calls[0], format!("{fixed}--check|--manifest|sidecar|"));
    let each = format!("{fixed}--manifest|sidecar|--model=teller|--output|-|--scheme|native|--key-id=vg-c0ffee00|");
    assert!(calls.len() == 7 && calls[1..].iter().all(|call| *call == each), "{calls:?}");
    assert_eq!(audited(&folder), vec![json!("signed"); 6]);
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("verdigris_c2pa_manifests_total{status=\"signed\"} 6"), "{metrics}");
}

#[test]
fn a_request_may_ask_for_no_manifest() {
    let folder = installed(SIGNS);
    let server = signing(&folder, &[]);
    let answer = server.post(PATH, &completion(json!({"c2pa": false}))).json();
    assert!(answer["choices"][0].get("c2pa").is_none() && answer["choices"][0].get("c2pa_error").is_none());
    // An unmarked text claims no mark.
    let answer = server.post(PATH, &completion(json!({"c2pa": true, "watermarking": false}))).json();
    assert_eq!(answer["choices"][0]["c2pa"], STORE);
    assert!(folder.read("calls").lines().last().unwrap().ends_with("--model=tale|--output|-|"));
    assert_eq!(audited(&folder), [Value::Null, json!("signed")]);
    let refused = server.post(PATH, &completion(json!({"c2pa": "yes"})));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("c2pa")));
    drop(server);

    let server = signing(&folder, &["--c2pa-require"]);
    let refused = server.post(PATH, &completion(json!({"c2pa": false})));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("c2pa_enforced")));
    assert_eq!(server.post(PATH, &completion(json!({}))).json()["choices"][0]["c2pa"], STORE);
    drop(server);

    let server = Server::started(&mut command(&folder, &[]));
    let refused = server.post(PATH, &completion(json!({"c2pa": true})));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("no_signer")));
    let answer = server.post(PATH, &completion(json!({}))).json();
    assert!(answer["choices"][0].get("c2pa").is_none(), "{answer}");
}

/// The text is not lost, the client learns that it is not signed, and only the operator learns why.
#[test]
fn a_text_that_cannot_be_signed_says_so() {
    let folder = installed(FAILS);
    let server = signing(&folder, &[]);
    let answer = server.post(PATH, &completion(json!({})));
    let choice = &answer.json()["choices"][0];
    assert_eq!((answer.status, choice.get("c2pa")), (200, None));
    assert_eq!(choice["c2pa_error"], "the text could not be signed: see the server's log");
    assert_eq!(texts(&folder), [choice["text"].as_str().unwrap()]);
    assert!(!answer.text.contains("secret"));
    let events = server.post(PATH, &completion(json!({"stream": true}))).events();
    assert!(events.last().unwrap()["choices"][0]["c2pa_error"].is_string());
    let failed = |server: &Server| server.log().iter().filter(|line| line.contains("/etc/secret/key.pem")).count();
    until(|| failed(&server) == 2, || format!("{:?}", server.log()));
    assert!(server.log().iter().any(|line| line.contains("could not be signed") && line.contains("req-")));
    assert_eq!(audited(&folder), [json!("failed"), json!("failed")]);
    assert!(server.get("/metrics").text.contains("verdigris_c2pa_manifests_total{status=\"failed\"} 2"));
    drop(server);

    fs::remove_file(folder.path("audit.jsonl")).unwrap();
    let server = signing(&folder, &["--c2pa-require"]);
    let refused = server.post(PATH, &completion(json!({})));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("c2pa_unavailable")));
    assert!(refused.head.contains("retry-after") && !refused.text.contains("captain"), "{refused:?}");
    let events = server.post(PATH, &completion(json!({"stream": true}))).events();
    assert_eq!(events.last().unwrap()["error"]["code"], "c2pa_unavailable");
    let log = folder.read("audit.jsonl");
    let ends: Vec<Value> =
        log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["outcome"].clone()).collect();
    assert_eq!(ends, [json!("refused"), json!("begun"), json!("refused")]);
}

#[test]
fn few_texts_are_signed_at_the_same_time() {
    let script = "mkdir -p running; : > running/$$; ls running | wc -l >> counts; cat > texts/$$; sleep 0.2; \
                  rm running/$$; printf STORE";
    let folder = installed(script);
    let server = signing(&folder, &[]);
    let asked = completion(json!({"n": 40, "max_tokens": 2}));
    let answer = server.post(PATH, &asked).json();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 40);
    let many: Vec<_> =
        (0..30).map(|seed| server.ask(PATH, &completion(json!({"max_tokens": 2, "seed": seed})))).collect();
    for mut stream in many {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
        assert!(text.contains(STORE), "{text}");
    }
    let counts = folder.read("counts");
    let most = counts.lines().map(|line| line.trim().parse::<usize>().unwrap()).max().unwrap();
    assert!((2..=8).contains(&most), "{most}");
    assert_eq!(counts.lines().count(), 70);
}

#[test]
fn a_server_that_cannot_sign_does_not_start() {
    let folder = installed("exit 1");
    let script = "#!/bin/sh\necho 'error: the certificate is empty' >&2\nexit 2\n";
    write_script(&folder.path("verdigris-c2pa"), script);
    let refused = |options: &[&str]| {
        let done = command(&folder, options).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        said
    };
    assert_eq!(refused(&SIGNER), "error: the certificate is empty\n");
    assert!(refused(&[&SIGNER[..], &["--c2pa-require-timestamp"]].concat()).contains("give --c2pa-timestamp"));
    assert!(refused(&["--c2pa-require"]).contains("--c2pa-cert"));
    fs::remove_file(folder.path("verdigris-c2pa")).unwrap();
    assert!(refused(&SIGNER).contains("`cargo build --release -p verdigris-c2pa`"));
}

#[test]
fn signatures_without_a_time_stamp_are_warned_of_once() {
    let folder = installed(SIGNS);
    let warned = |server: &Server| server.log().iter().filter(|line| line.contains("have no time stamp")).count();
    let server = signing(&folder, &[]);
    until(|| warned(&server) == 1, || format!("{:?}", server.log()));
    drop(server);
    let server = signing(&folder, &["--log-format", "json"]);
    until(|| warned(&server) == 1, || format!("{:?}", server.log()));
    drop(server);
    let server = signing(&folder, &["--c2pa-timestamp", "http://tsa.example.com"]);
    assert_eq!(server.post(PATH, &completion(json!({}))).status, 200);
    assert_eq!(warned(&server), 0);
    assert!(folder.read("calls").lines().last().unwrap().contains("--timestamp-url=http://tsa.example.com|"));
}
