//! Keys with a part that everyone can look for: `key new --public-part` and `key publish`.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::Folder;

/// A folder with a key that has a public part, its published key, and a text with its mark.
fn world() -> Folder {
    let folder = Folder::new();
    folder.run(&["key", "new", "both.key", "--id", "both", "--public-part"]).succeeds();
    folder.run(&["key", "publish", "both.key", "open.key"]).succeeds();
    let write = ["generate", "The captain", "--key", "both.key", "--max-tokens", "500", "--min-tokens", "500"];
    folder.run(&[&write[..], &["--seed", "4", "--output", "tale.txt"]].concat()).succeeds();
    folder
}

fn verdict(folder: &Folder, key: &str) -> Value {
    folder.run(&["detect", "tale.txt", "--key", key, "--json"]).json()
}

#[test]
fn each_key_finds_its_half() {
    let folder = world();
    let (whole, open) = (verdict(&folder, "both.key"), verdict(&folder, "open.key"));
    assert_eq!((&whole["verdict"], &whole["key_id"], whole.get("public")), (&json!("marked"), &json!("both"), None));
    assert_eq!((&open["verdict"], &open["key_id"]), (&json!("marked"), &json!("both-public")));
    assert_eq!(open["public"], true);
    let [a, b] = [&whole, &open].map(|verdict| verdict["scored"].as_u64().unwrap());
    assert!(a + b <= 501 && a.abs_diff(b) < 100, "{a} and {b} tokens");
    // A key that was published by another holder finds nothing.
    folder.run(&["key", "new", "other.key", "--public-part"]).succeeds();
    folder.run(&["key", "publish", "other.key", "other.open.key"]).succeeds();
    assert_eq!(verdict(&folder, "other.open.key")["verdict"], "not marked");
    // People are warned.
    let words = folder.run(&["detect", "tale.txt", "--key", "open.key"]).succeeds().out;
    assert!(words.contains("note      this key is public: anyone can have written the mark"), "{words}");
    assert!(!folder.run(&["detect", "tale.txt", "--key", "both.key"]).succeeds().out.contains("public"));
}

#[test]
fn a_published_key_is_for_everyone_and_writes_nothing() {
    let folder = world();
    let mode = |file: &str| std::fs::metadata(folder.path(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("both.key"), 0o600);
    assert_eq!(mode("open.key") & 0o400, 0o400);
    std::fs::set_permissions(folder.path("open.key"), PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(verdict(&folder, "open.key")["verdict"], "marked", "others may read it");
    let [whole, open] = ["both.key", "open.key"].map(|file| {
        let file: Value = serde_json::from_str(&folder.read(file)).unwrap();
        file["secret"].as_str().unwrap().to_owned()
    });
    assert_ne!(whole, open);
    let shown = folder.run(&["key", "show", "open.key", "--json"]).json();
    assert_eq!((&shown["public"], &shown["dialect"]["part"]), (&json!(true), &json!("public")));
    for command in [&["generate", "The captain", "-n", "9"][..], &["serve"], &["batch", "in.jsonl", "out.jsonl"]] {
        folder.write("in.jsonl", "{\"prompt\": \"The captain\"}\n");
        folder
            .run(&[command, &["--key", "open.key"]].concat())
            .fails("both-public is a published one, which finds marks");
    }
    // A folder with it has no fault, and a ring with it is one of the key itself.
    let keys = folder.run(&["doctor", "--ring", ".", "--json"]).json();
    let found = keys["findings"].as_array().unwrap().iter().filter(|found| found["name"] == "key");
    assert_eq!(found.count(), 0, "{keys}");
    folder.write("serve.toml", "ring = \".\"\nenforce-all = true\n");
    let report = folder.run(&["comply", "--config", "serve.toml", "--json"]).json();
    let check = |subject: &str| {
        let found = report["checks"].as_array().unwrap().iter().find(|check| check["subject"] == subject);
        found.unwrap()["value"].as_str().unwrap().to_owned()
    };
    assert!(check("every answer is marked").ends_with("with 1 key"), "{report}");
    assert!(check("marks are hard to forge").starts_with("all keys have variants"), "{report}");
    // Not in a ring, either.
    std::fs::create_dir(folder.path("ring")).unwrap();
    std::fs::rename(folder.path("open.key"), folder.path("ring/open.key")).unwrap();
    folder.run(&["generate", "The captain", "-n", "9", "--ring", "ring"]).fails("to write with on");
}

#[test]
fn what_cannot_be_published_is_refused() {
    let folder = world();
    folder.run(&["key", "publish", "both.key", "open.key"]).fails("open.key");
    folder.run(&["key", "publish", "both.key", "-"]).fails("- is not a name for a key file");
    folder.run(&["key", "publish", "open.key", "again.key"]).fails("has no public part: make a key with");
    folder.run(&["key", "new", "plain.key"]).succeeds();
    folder.run(&["key", "publish", "plain.key", "p.key"]).fails("has no public part: make a key with");
    folder
        .run(&["key", "new", "n.key", "--dialect", "native", "--public-part"])
        .fails("--public-part is for native-gumbel");
    assert!(!folder.path("p.key").exists() && !folder.path("n.key").exists());
}

/// Clients without the right `detect` are judged with the published key, and get everything that it shows.
#[cfg(feature = "serve")]
#[test]
fn strangers_are_judged_with_the_published_key() {
    use crate::support::server::Server;
    let folder = world();
    std::fs::create_dir(folder.path("ring")).unwrap();
    for file in ["both.key", "open.key"] {
        std::fs::rename(folder.path(file), folder.path(&format!("ring/{file}"))).unwrap();
    }
    folder.write("keys.txt", "ann 0123456789abcdef-ann\nben 0123456789abcdef-ben detect\n");
    let server = Server::start(&folder, &["--ring", "ring", "--api-key-file", "keys.txt", "--enforce-all"]);
    let text = folder.read("tale.txt");
    let found = |client: &str, more: Value| {
        let mut body = json!({"text": text});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        server.post_as("/detect", &format!("0123456789abcdef-{client}"), &body)
    };
    let stranger = found("ann", json!({"windows": true})).json();
    assert_eq!((&stranger["key_id"], &stranger["public"]), (&json!("both-public"), &json!(true)), "{stranger}");
    assert!(stranger["verdict"] == "marked" && stranger["z"].is_number() && stranger["passages"].is_array());
    assert_eq!(found("ann", json!({"key_id": "both"})).json()["error"]["code"], "unknown_key");
    let holder = found("ben", json!({"key_id": "both"})).json();
    assert!(holder["verdict"] == "marked" && holder.get("public").is_none(), "{holder}");
    // It marks with the key itself.
    let body = json!({"prompt": "The captain", "max_tokens": 8});
    let answer = server.post_as("/v1/completions", "0123456789abcdef-ann", &body).json();
    assert_eq!(answer["watermark"]["key_id"], "both", "{answer}");
}
