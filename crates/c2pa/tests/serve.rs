//! The server returns the manifest of each text next to it.
#![cfg(unix)]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use c2pa_structured_text::codec;
use common::Installed;
use common::authority::{Authority, Manner, has_openssl};
use serde_json::{Value, json};

/// The server, which is killed when this is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(installed: &Installed, options: &[&str]) -> Self {
        let key = installed.desk.key();
        let mut child = Command::new(&installed.program)
            .args(["serve", "--port", "0", "--key", &key])
            .args(installed.signer())
            .args(options)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening at ").map(str::to_owned));
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("it listens") }
    }

    fn post(&self, path: &str, body: &Value) -> String {
        let answer = ureq::post(format!("{}{path}", self.address)).send(body.to_string());
        answer.unwrap().body_mut().read_to_string().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Verifies a text with its manifest, which a client keeps as two files.
fn verified(installed: &Installed, text: &Value, manifest: &Value, more: &[&str]) -> Value {
    let (text, manifest) = (text.as_str().unwrap(), manifest.as_str().unwrap_or_else(|| panic!("{manifest}")));
    installed.desk.write("answer.txt", text);
    installed.desk.write("answer.txt.c2pa", codec::decode(manifest).unwrap());
    let found = installed.desk.verify("answer.txt", more);
    assert_eq!(found["manifest"]["verdict"], "valid", "{found}");
    assert_eq!(found["manifest"]["soft_bindings"][0]["key_id"], "my");
    found
}

#[test]
fn answers_carry_manifests_of_exactly_their_text() {
    let installed = Installed::new();
    let server = Server::start(&installed, &[]);
    let asked = json!({"prompt": "The captain", "max_tokens": 150, "seed": 3, "n": 2});
    let answer: Value = serde_json::from_str(&server.post("/v1/completions", &asked)).unwrap();
    for choice in answer["choices"].as_array().unwrap() {
        let trust = ["--trust", &installed.desk.at("ada.root.pem"), "--key", &installed.desk.key()];
        let found = verified(&installed, &choice["text"], &choice["c2pa"], &trust);
        assert_eq!((&found["manifest"]["trusted"], &found["mark"]["verdict"]), (&true.into(), &"marked".into()));
        assert!(found.get("notes").is_none(), "{found}");
        // Of no other text.
        installed.desk.write("answer.txt", format!("{}.", choice["text"].as_str().unwrap()));
        assert_eq!(installed.desk.verify("answer.txt", &[])["manifest"]["verdict"], "invalid");
    }
    let stream = server.post("/v1/completions", &json!({"prompt": "The sea", "max_tokens": 30, "stream": true}));
    let events: Vec<Value> =
        stream.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let text: String = events.iter().map(|event| event["choices"][0]["text"].as_str().unwrap()).collect();
    verified(&installed, &text.into(), &events.last().unwrap()["choices"][0]["c2pa"], &[]);
}

#[test]
fn answers_are_stamped() {
    if !has_openssl() {
        return;
    }
    let installed = Installed::new();
    let authority = Authority::start(&installed.desk, "a", Manner::Failing(4));
    let server = Server::start(&installed, &["--c2pa-timestamp", &authority.url]);
    let ask = || -> Value {
        let asked = json!({"prompt": "The captain", "max_tokens": 20});
        let answer: Value = serde_json::from_str(&server.post("/v1/completions", &asked)).unwrap();
        answer["choices"][0].clone()
    };
    for _ in 0..2 {
        let choice = ask();
        let found = verified(&installed, &choice["text"], &choice["c2pa"], &["--trust-timestamps", &authority.root]);
        assert_eq!(found["manifest"]["timestamp"]["verdict"], "trusted", "{found}");
    }
    let choice = ask();
    assert!(choice["text"].is_string() && choice.get("c2pa").is_none());
    assert_eq!(choice["c2pa_error"], "the text could not be signed: see the server's log");
}
