//! Ledgers through the built program: what is recorded, found, listed and removed. Needs the feature `ledger`.
#![cfg(feature = "ledger")]

mod support;

use std::fs;

use serde_json::{Value, json};
use support::{Folder, Run};
use verdigris_ledger::Ledger;

const WRITE: [&str; 7] = ["generate", "The captain", "--seed", "3", "--max-tokens", "200", "--quiet"];

#[track_caller]
fn find(folder: &Folder, file: &str, more: &[&str]) -> Run {
    folder.run(&[&["ledger", "find", "a.ledger", file][..], more].concat())
}

#[track_caller]
fn list(folder: &Folder, more: &[&str]) -> Vec<Value> {
    folder.run(&[&["ledger", "list", "a.ledger", "--json"][..], more].concat()).succeeds().lines()
}

/// A ledger whose tables are damaged, though it can be opened.
fn damage(folder: &Folder, file: &str) {
    drop(Ledger::create(&folder.path(file)).unwrap());
    let mut bytes = fs::read(folder.path(file)).unwrap();
    bytes[4096..].fill(0x5A);
    fs::write(folder.path(file), bytes).unwrap();
}

#[test]
fn texts_are_recorded_and_found_again() {
    let folder = Folder::with_key();
    let marked = [&WRITE[..], &["--key", "my.key", "--ledger", "a.ledger"]].concat();
    let text = folder.run(&marked).succeeds().out;
    folder.write("tale.txt", &text);
    let run = find(&folder, "tale.txt", &[]).succeeds();
    assert!(run.out.contains("vg-c0ffee00") && run.out.contains("(the same text)"), "{run:?}");
    assert!(run.out.contains("1 of 1 entry matches. This is a look-up and not a mark"), "{run:?}");
    let [entry] = &list(&folder, &[])[..] else { panic!("there is one") };
    assert_eq!((&entry["key_id"], &entry["tenant"], &entry["part"]), (&json!("vg-c0ffee00"), &json!(""), &json!(0)));
    assert!(entry["id"].as_str().unwrap().starts_with("gen-"), "{entry}");
    // The words of the answer and of the prompt are not kept.
    let kept = String::from_utf8_lossy(&fs::read(folder.path("a.ledger")).unwrap()).into_owned();
    for word in text.split_whitespace().filter(|word| word.len() > 4).chain(["captain"]) {
        assert!(!kept.contains(word), "{word}");
    }
    // Edited and cut texts.
    for edit in
        [["deletion", "0.15"], ["typos", "0.05"], ["truncation", "0.5"], ["homoglyphs", "0.3"], ["capitals", "1"]]
    {
        let edited = folder.run(&["robustness", "tale.txt", "--edit", edit[0], "--strength", edit[1], "--text"]);
        folder.write("edited.txt", &edited.succeeds().out);
        let found = find(&folder, "edited.txt", &["--json"]).succeeds().json();
        let [found] = &found["matches"].as_array().unwrap()[..] else { panic!("{edit:?}: {found}") };
        assert!(found["id"] == entry["id"] && found["same"] == false, "{edit:?}: {found}");
        assert!(found["contained"].as_f64().unwrap() > 0.2, "{edit:?}: {found}");
    }
    folder.write("other.txt", &folder.run(&["generate", "The captain", "--seed", "4", "--max-tokens", "200"]).out);
    let other = find(&folder, "other.txt", &[]);
    assert!(other.status == 1 && other.out.contains("none of 1 entry matches"), "{other:?}");
    assert!(other.out.contains("says nothing about the author of the text"), "{other:?}");
    // Every field is described.
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("ledger")).unwrap();
    let found = find(&folder, "tale.txt", &["--json"]).json();
    for object in [&found, &found["matches"][0], entry] {
        for field in object.as_object().unwrap().keys() {
            assert!(section.contains(&format!("`{field}`")), "{field} is not in docs/json.md");
        }
    }
}

/// Each way to write texts records each of them once.
#[test]
fn every_text_is_recorded_once() {
    let folder = Folder::with_key();
    let ledger = ["--ledger", "a.ledger"];
    let mut recorded = 0;
    for more in [
        &["--texts", "3"][..],
        &["--texts", "3", "--json"],
        &["--json"],
        &["--best-of", "2", "--json"],
        &["--best-of", "2"],
        &["--beams", "2", "--texts", "2"],
        &["--beams", "2", "--texts", "2", "--json"],
        &["--output", "out.txt"],
    ] {
        let run = folder.run(&[&["generate", "Then", "-n", "30", "-q"][..], &ledger, more].concat()).done();
        let entries = list(&folder, &[]);
        let new = &entries[recorded..];
        let texts = more.iter().position(|option| *option == "--texts").map_or(1, |at| more[at + 1].parse().unwrap());
        assert_eq!(new.len(), texts, "{more:?}: {new:?}");
        assert!(new.iter().all(|entry| entry["id"] == new[0]["id"] && entry["key_id"].is_null()), "{more:?}: {new:?}");
        if more.contains(&"--json") {
            for line in run.lines() {
                let entry = new.iter().find(|entry| entry["part"] == line["index"]).unwrap();
                assert_eq!(line["ledger_id"], entry["id"], "{more:?}");
                folder.write("text.txt", line["text"].as_str().unwrap());
                let found = find(&folder, "text.txt", &["--json"]).json();
                let mut matches = found["matches"].as_array().unwrap().iter();
                let is_it =
                    |one: &Value| one["same"] == true && one["id"] == entry["id"] && one["part"] == entry["part"];
                assert!(matches.any(is_it), "{found}");
            }
        }
        recorded = entries.len();
    }
    folder.write("in.jsonl", "{\"prompt\": \"The captain\"}\n{\"prompt\": \"The queen\"}\n");
    let batch = ["batch", "in.jsonl", "out.jsonl", "-n", "30", "--key", "my.key", "-q"];
    folder.run(&[&batch[..], &ledger].concat()).done();
    let new = list(&folder, &[]).split_off(recorded);
    assert_eq!(new.len(), 2);
    for line in folder.read("out.jsonl").lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let entry = new.iter().find(|entry| entry["id"] == line["ledger_id"]).unwrap();
        assert_eq!(entry["key_id"], "vg-c0ffee00");
    }
    // A ledger changes no answer, so a run may be resumed with or without it.
    folder.run(&[&batch[..], &["--ledger=b.ledger"]].concat()).done();
    folder.run(&batch).done();
    assert_eq!(list(&folder, &[]).len(), recorded + 2);
}

/// The text that is recorded is the one that is delivered.
#[test]
fn a_labelled_text_is_recorded_with_its_label() {
    let folder = Folder::new();
    let label = ["--label", "gb", "--label-producer", "p-1", "--ledger", "a.ledger", "--json"];
    let line = folder.run(&[&WRITE[..], &label].concat()).succeeds().json();
    let [entry] = &list(&folder, &[])[..] else { panic!("there is one") };
    assert_eq!((&line["AIGC"]["ReservedCode1"], &line["AIGC"]["ProduceID"]), (&entry["sha256"], &entry["id"]));
}

/// A number in the mark leads from a text to its entry, also when too few words are left for the fingerprint.
#[test]
fn a_number_leads_to_its_entry() {
    let folder = Folder::new();
    folder.run(&["key", "new", "n.key", "--id", "n", "--payload-bits", "16", "--strength", "strong"]).done();
    let write = ["generate", "The captain", "--key", "n.key", "-n", "300", "--min-tokens", "300", "-q"];
    let new = [&write[..], &["--payload", "new", "--ledger", "a.ledger"]].concat();
    for (seed, file) in [("1", "one.txt"), ("2", "two.txt")] {
        folder.run(&[&new[..], &["--seed", seed, "-o", file]].concat()).done();
    }
    let [one, two] = &list(&folder, &[])[..] else { panic!("there are two") };
    assert!(one["payload"].as_u64().unwrap() < 1 << 16 && one["payload"] != two["payload"], "{one} {two}");
    // Other words everywhere: the fingerprint is gone, the mark is not.
    let edits = ["robustness", "one.txt", "--edit", "deletion", "--strength", "0.25", "--seed", "1", "--text"];
    folder.write("edited.txt", &folder.run(&edits).succeeds().out);
    let found = find(&folder, "edited.txt", &["--key", "n.key", "--json"]).succeeds().json();
    assert_eq!((&found["payload"], &found["carrying"][0]["id"]), (&one["payload"], &one["id"]), "{found}");
    assert_eq!((found["found"] == true, found["carrying"].as_array().unwrap().len()), (true, 1));
    let words = find(&folder, "edited.txt", &["--key", "n.key"]).succeeds().out;
    let number = format!("the mark carries the number {:#x}, which this entry has", one["payload"].as_u64().unwrap());
    assert!(words.contains(&number) && words.contains(one["id"].as_str().unwrap()), "{words}");
    // A number of the writer's own choice is recorded, too.
    let own = ["--payload", "7", "--ledger", "b.ledger", "-o", "own.txt"];
    folder.run(&[&write[..], &own].concat()).done();
    assert_eq!(folder.run(&["ledger", "list", "b.ledger", "--json"]).json()["payload"], 7);
    let other = find(&folder, "own.txt", &["--key", "n.key", "--json"]).json();
    assert_eq!((&other["payload"], other.get("carrying"), &other["found"]), (&json!(7), None, &json!(false)));
    // Every field is described.
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("ledger")).unwrap();
    assert!(["`payload`", "`carrying`"].iter().all(|field| section.contains(field)));

    folder.run(&[&write[..], &["--payload", "new"]].concat()).fails("--payload new needs a ledger");
    for several in [&["--texts", "2"][..], &["--beams", "2", "--beam-choice", "stochastic"]] {
        folder.run(&[&new[..], several].concat()).fails("--payload new is one number for one text");
    }
    folder.write("in.jsonl", "{\"prompt\": \"The captain\"}\n");
    let batch = ["batch", "in.jsonl", "out.jsonl", "--key", "n.key", "--payload", "new", "--ledger", "a.ledger"];
    folder.run(&batch).fails("all answers of a batch carry the same number");
    folder.run(&["key", "new", "plain.key"]).done();
    let plain = ["generate", "The captain", "--key", "plain.key", "--payload", "new", "--ledger", "a.ledger"];
    folder.run(&plain).fails("carries no payload");
    find(&folder, "one.txt", &["--key", "plain.key"]).fails("carries no payload");
    assert_eq!(list(&folder, &[]).len(), 2);
}

/// Names that mean something else to SQLite are files like all others.
#[test]
fn a_ledger_of_any_name_is_a_file() {
    let folder = Folder::new();
    for name in [":memory:", "file:x?mode=memory"] {
        folder.run(&["generate", "The captain", "-n", "5", "-q", "--ledger", name]).succeeds();
        assert_eq!(folder.run(&["ledger", "list", name, "--json"]).succeeds().lines().len(), 1, "{name}");
    }
}

#[test]
fn entries_are_added_listed_and_removed() {
    let folder = Folder::new();
    folder.write("old.txt", "An old letter of the captain to the queen, unread to this day.");
    folder.write("new.txt", "A new letter of the queen to the captain, read by everybody today.");
    folder.write("store.c2pa", "a store");
    let add = ["ledger", "add", "a.ledger"];
    let old = ["old.txt", "--id", "1", "--tenant", "ann", "--key-id", "k", "--time", "2025-03-01"];
    let said = folder.run(&[&add[..], &old].concat()).succeeds().out;
    assert_eq!(said, "old.txt: recorded as 1\n");
    let added = folder.run(&[&add[..], &["new.txt", "--json", "--tenant", "ben"]].concat()).succeeds().json();
    assert!(added["format"] == "verdigris-ledger-add-1" && added["name"] == "new.txt", "{added}");
    // The manifest of a recorded text.
    folder.run(&[&add[..], &["old.txt", "--id", "1", "--tenant", "ann", "--manifest", "store.c2pa"]].concat()).done();
    let [first, second] = &list(&folder, &[])[..] else { panic!("there are two") };
    assert_eq!((&first["id"], &first["tenant"], &first["key_id"]), (&json!("1"), &json!("ann"), &json!("k")));
    assert_eq!((&first["time"], &first["manifest"]), (&json!("2025-03-01T00:00:00Z"), &json!("YSBzdG9yZQ==")));
    assert_eq!(first["manifest_sha256"], "4c13717a6f604fd426e2dd61a8bbadf26662ff2d7c0d5da4c8d77f59a39c282e");
    assert_eq!((&second["id"], &second["tenant"]), (&added["id"], &json!("ben")));
    assert_eq!(list(&folder, &["--tenant", "ben"]).len(), 1);
    assert_eq!(list(&folder, &["--id", "1"]).len(), 1);
    let table = folder.run(&["ledger", "list", "a.ledger"]).succeeds().out;
    assert!(table.lines().count() == 3 && table.contains("2025-03-01 00:00:00  k "), "{table}");
    // Of one tenant.
    assert_eq!(find(&folder, "old.txt", &["--tenant", "ann"]).status, 0);
    assert_eq!(find(&folder, "old.txt", &["--tenant", "ben"]).status, 1);
    let two = [&add[..], &["old.txt", "new.txt"]].concat();
    folder.run(&[&two[..], &["--id", "2"]].concat()).fails("--id is for one text, and there are 2");
    folder.run(&[&add[..], &["new.txt", "--id", "1", "--tenant", "ann"]].concat()).fails("already, for another text");
    folder.run(&[&add[..], &["none.txt"]].concat()).fails("none.txt");
    folder.run(&[&add[..], &["old.txt", "--time", "May"]].concat()).fails("a day such as 2026-06-01");
    let prune = ["ledger", "prune", "a.ledger", "--before", "2026-01-01"];
    folder.run(&prune[..3]).fails("--before");
    assert_eq!(folder.run(&[&prune[..], &["--tenant", "ben"]].concat()).succeeds().out, "0 removed, 2 left\n");
    assert_eq!(folder.run(&prune).succeeds().out, "1 removed, 1 left\n");
    assert_eq!(find(&folder, "old.txt", &[]).status, 1);
}

#[test]
fn a_ledger_that_cannot_be_used_is_one_line() {
    let folder = Folder::new();
    folder.write("text.txt", "The captain came on deck and saw a sail.");
    folder.write("words.ledger", &"The captain came on deck. ".repeat(50));
    damage(&folder, "damaged.ledger");
    let ledger = Ledger::create(&folder.path("later.ledger")).unwrap();
    drop(ledger);
    let mut bytes = fs::read(folder.path("later.ledger")).unwrap();
    // The version of the tables.
    bytes[63] = 9;
    fs::write(folder.path("later.ledger"), bytes).unwrap();
    for (file, said) in [
        ("words.ledger", "is not a ledger"),
        ("later.ledger", "has version 9 of the format, but this program reads up to 1: use a later one"),
    ] {
        let before = fs::read(folder.path(file)).unwrap();
        folder.run(&["ledger", "add", file, "text.txt"]).fails(said);
        folder.run(&["ledger", "find", file, "text.txt"]).fails(said);
        folder.run(&["ledger", "prune", file, "--before", "2030-01-01"]).fails(said);
        // Before anything is written.
        folder.run(&["generate", "-n", "5", "--ledger", file]).fails(said);
        assert_eq!(fs::read(folder.path(file)).unwrap(), before, "{file}");
    }
    let listed = folder.run(&["ledger", "list", "words.ledger", "--json"]);
    listed.fails("is not a ledger");
    folder.run(&["ledger", "find", "damaged.ledger", "text.txt"]).fails("is damaged");
    folder.run(&["ledger", "find", "none.ledger", "text.txt"]).fails("none.ledger");
    assert!(!folder.path("none.ledger").exists());
    folder.run(&["generate", "-n", "5", "--ledger", "none/a.ledger"]).fails("none/a.ledger");
    folder.run(&["generate", "-n", "5", "--output", "text.txt", "--force", "--ledger", "text.txt"]).fails("text.txt");
    // A text that cannot be recorded is not lost.
    let write = ["generate", "-n", "5", "--seed", "1", "-q"];
    let plain = folder.run(&write).succeeds();
    let run = folder.run(&[&write[..], &["--ledger", "damaged.ledger"]].concat());
    assert!(run.status == 2 && run.out == plain.out && run.err.lines().count() == 1, "{run:?}");
    assert!(
        run.err.contains("is damaged") && run.err.contains("the text is written, but not in the ledger"),
        "{run:?}"
    );
    let run = folder.run(&[&write[..], &["--ledger", "damaged.ledger", "--output", "out.txt"]].concat());
    assert!(run.status == 2 && folder.read("out.txt") == plain.out, "{run:?}");
    // `batch` stops, and its answers are all recorded.
    folder.write("in.jsonl", "{\"prompt\": \"The captain\"}\n");
    let batch = ["batch", "in.jsonl", "out.jsonl", "-n", "5", "-q", "--ledger"];
    let run = folder.run(&[&batch[..], &["damaged.ledger"]].concat());
    assert!(run.status == 2 && run.err.contains("is damaged") && !folder.path("out.jsonl").exists(), "{run:?}");
    folder.run(&[&batch[..], &["good.ledger"]].concat()).done();
    assert_eq!(folder.read("out.jsonl").lines().count(), 1);
}

/// The store of a signed text is kept with its digest, wherever the manifest goes. Another program signs for this test.
#[cfg(unix)]
#[test]
fn manifests_are_recorded() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::with_key();
    let script = "#!/bin/sh\nfor a; do\n[ \"$a\" = --check ] && { echo text; exit; }\n\
                  [ \"$last\" = --store ] && printf 'a store' > \"$a\"\nlast=$a\ndone\n/bin/cat && printf SIGNED\n";
    fs::copy(env!("CARGO_BIN_EXE_verdigris"), folder.path("verdigris")).unwrap();
    folder.write("verdigris-c2pa", script);
    fs::set_permissions(folder.path("verdigris-c2pa"), fs::Permissions::from_mode(0o755)).unwrap();
    for more in [&[][..], &["--json"], &["--output", "tale.txt"]] {
        let mut command = std::process::Command::new(folder.path("verdigris"));
        command.args(
            [&WRITE[..], &["--c2pa-cert", "a.pem", "--c2pa-key", "k.pem", "--ledger", "a.ledger"], more].concat(),
        );
        let output = command.current_dir(folder.path(".")).stdin(std::process::Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let entries = list(&folder, &[]);
    assert_eq!(entries.len(), 3);
    for entry in entries {
        assert_eq!(entry["manifest"], "YSBzdG9yZQ==", "{entry}");
        assert_eq!(entry["manifest_sha256"], "4c13717a6f604fd426e2dd61a8bbadf26662ff2d7c0d5da4c8d77f59a39c282e");
    }
}

/// The examples of the help are short enough for a terminal, and work.
#[test]
fn examples_of_the_help_work() {
    let folder = Folder::new();
    for file in ["tale.txt", "letter.txt", "letter.txt.c2pa"] {
        folder.write(file, &format!("The captain came on deck and saw a sail in the north. {file}"));
    }
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "16"]).done();
    let mut run = 0;
    for command in ["add", "find", "list", "prune"] {
        let help = folder.run(&["ledger", command, "--help"]).succeeds().out;
        let (_, examples) = help.split_once("\nExample").unwrap();
        assert!(help.lines().filter(|line| line.starts_with("  verdigris")).all(|line| line.len() <= 80), "{help}");
        for example in examples.replace("\\\n", "").lines().filter_map(|line| line.strip_prefix("  verdigris ")) {
            folder.run(&example.split_whitespace().collect::<Vec<_>>()).succeeds();
            run += 1;
        }
    }
    assert_eq!(run, 7);
}

#[cfg(all(feature = "serve", unix))]
mod served {
    use super::*;
    use support::server::Server;
    use support::until;

    const ANN: &str = "0123456789abcdef-ann";
    const BEN: &str = "0123456789abcdef-ben";

    fn served(more: &[&str]) -> (Folder, Server) {
        let folder = Folder::with_key();
        folder.write("keys.txt", &format!("ann {ANN}\nben {BEN}\n"));
        let options = ["--key", "my.key", "--api-key-file", "keys.txt", "--ledger", "a.ledger"];
        let server = Server::start(&folder, &[&options[..], more].concat());
        (folder, server)
    }

    fn completion(more: Value) -> Value {
        let mut body = json!({"prompt": "The captain", "max_tokens": 80, "seed": 3, "ignore_eos": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    #[test]
    fn every_answer_is_recorded_for_its_own_tenant() {
        let (folder, server) = served(&[]);
        let manifest = |id: &Value, key: &str| {
            server.get_as(&format!("/manifest/{}", id.as_str().unwrap()), &format!("Bearer {key}"))
        };
        let answer = server.post_as("/v1/completions", ANN, &completion(json!({"n": 2}))).json();
        let kept = manifest(&answer["id"], ANN);
        assert_eq!(kept.status, 200, "{kept:?}");
        let kept = kept.json();
        assert_eq!((&kept["id"], kept["texts"].as_array().unwrap().len()), (&answer["id"], 2));
        for (index, text) in kept["texts"].as_array().unwrap().iter().enumerate() {
            assert_eq!((&text["index"], &text["key_id"]), (&json!(index), &json!("vg-c0ffee00")));
            assert!(text["manifest"].is_null() && text["manifest_sha256"].is_null(), "{text}");
            folder.write("text.txt", answer["choices"][index]["text"].as_str().unwrap());
            // While the server has the ledger open.
            let found = find(&folder, "text.txt", &["--tenant", "ann", "--json"]).succeeds().json();
            let found = &found["matches"][0];
            assert_eq!((&found["id"], &found["part"]), (&answer["id"], &json!(index)), "{found}");
            assert_eq!((&found["same"], &found["sha256"]), (&json!(true), &text["sha256"]), "{found}");
        }
        // Other tenants learn nothing, not even whether the answer exists.
        let unknown = manifest(&json!("cmpl-none"), BEN);
        let of_ann = manifest(&answer["id"], BEN);
        assert_eq!((of_ann.status, &of_ann.text), (404, &unknown.text));
        assert_eq!(of_ann.json()["error"]["code"], "unknown_answer");
        assert_eq!(manifest(&answer["id"], "0123456789abcdef-eve").status, 401);
        assert_eq!(server.get(&format!("/manifest/{}", answer["id"].as_str().unwrap())).status, 401);
        for odd in ["/manifest/", "/manifest/%FF", "/manifest/a%00b", "/manifest/..%2Fhealth"] {
            assert_eq!(server.get_as(odd, &format!("Bearer {ANN}")).status, 404, "{odd}");
        }
        // A stream is on record when its last event arrives; so are chats, responses and unmarked texts.
        let stream = server.post_as("/v1/completions", ANN, &completion(json!({"stream": true}))).events();
        assert_eq!(manifest(&stream[0]["id"], ANN).status, 200);
        let hello = json!([{"role": "user", "content": "Hello"}]);
        let chat = server.post_as("/v1/chat/completions", BEN, &json!({"messages": hello, "max_tokens": 9}));
        if chat.status == 200 {
            assert_eq!(manifest(&chat.json()["id"], BEN).status, 200);
        }
        let plain = server.post_as("/v1/completions", BEN, &completion(json!({"watermarking": false}))).json();
        let plain = manifest(&plain["id"], BEN).json();
        assert!(plain["texts"][0]["key_id"].is_null(), "{plain}");
        assert_eq!(server.stop(|_| ()), Some(0));
        assert!(list(&folder, &["--tenant", "ann"]).len() == 3, "{:?}", list(&folder, &[]));
    }

    #[test]
    fn old_entries_are_removed_and_others_stay() {
        let folder = Folder::new();
        folder.write("text.txt", "The captain came on deck and saw a sail in the north.");
        for (id, time) in [("old", "2024-01-01"), ("future", "2100-01-01")] {
            folder.run(&["ledger", "add", "a.ledger", "text.txt", "--id", id, "--time", time]).done();
        }
        let server = Server::start(&folder, &["--ledger", "a.ledger", "--ledger-days", "30"]);
        let is_left = |id: &str| server.get(&format!("/manifest/{id}")).status == 200;
        until(|| !is_left("old"), || format!("{:?}", server.log()));
        assert!(is_left("future"));
        drop(server);
        let server = Server::start(&folder, &["--ledger", "a.ledger"]);
        assert_eq!(server.get("/manifest/future").status, 200);
        folder.run(&["serve", "--ledger-days", "3"]).fails("--ledger");
        folder.run(&["serve", "--ledger", "a.ledger", "--ledger-days", "0"]).fails("--ledger-days");
    }

    #[test]
    fn without_a_ledger_no_answer_is_known_and_with_a_damaged_one_none_is_sent() {
        let folder = Folder::new();
        let server = Server::start(&folder, &[]);
        let answer = server.post("/v1/completions", &completion(json!({}))).json();
        assert_eq!(server.get(&format!("/manifest/{}", answer["id"].as_str().unwrap())).status, 404);
        drop(server);
        damage(&folder, "damaged.ledger");
        let server = Server::start(&folder, &["--ledger", "damaged.ledger"]);
        for (stream, status) in [(false, 503), (true, 200)] {
            let refused = server.post("/v1/completions", &completion(json!({"stream": stream})));
            assert!(refused.status == status && refused.text.contains("ledger_unavailable"), "{refused:?}");
        }
        assert_eq!(server.get("/manifest/a").status, 503);
        assert!(server.log().iter().any(|line| line.contains("is damaged")), "{:?}", server.log());
        drop(server);
        folder.write("words.ledger", &"The captain. ".repeat(100));
        folder.run(&["serve", "--ledger", "words.ledger"]).fails("is not a ledger");
    }
}
