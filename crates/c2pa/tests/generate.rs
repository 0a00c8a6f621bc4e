//! The main program signs its texts and passes texts on to be judged; marks and manifests are judged separately.

mod common;

use std::process::Command;

use common::authority::{Authority, Manner, has_openssl};
use common::{Desk, Installed, c2pa, install, main_program, marked, verdigris};
use serde_json::Value;

/// Checks both verdicts, and that the main program finds the mark on its own.
fn both(installed: &Installed, name: &str) -> Value {
    let found = installed.verify(name);
    assert_eq!(found["manifest"]["verdict"], "valid", "{found}");
    assert_eq!(found["mark"]["verdict"], "marked", "{found}");
    assert_eq!(found["manifest"]["soft_bindings"][0]["key_id"], "my");
    assert_eq!(found["manifest"]["soft_bindings"][0]["scheme"], found["mark"]["dialect"]);
    assert!(found.get("notes").is_none(), "{found}");
    let detected = installed.run(&["detect", &installed.desk.at(name), "--key", &installed.desk.key(), "--json"]);
    assert_eq!(detected.status, 0, "{}", detected.out);
    let detected = detected.json();
    for field in ["verdict", "tokens", "scored", "score", "z", "log10_p"] {
        assert_eq!(detected[field], found["mark"][field], "{field}");
    }
    found
}

#[test]
fn what_is_generated_is_signed_wherever_it_goes() {
    let installed = Installed::new();
    let plain = marked(&installed.desk.key());
    // Standard output is the signed file.
    let signed = installed.generate(&[]).ok();
    assert!(signed.starts_with(&plain) && signed.len() > plain.len());
    installed.desk.write("out.txt", &signed);
    let whole = both(&installed, "out.txt");

    let file = |name: &str| installed.desk.at(name);
    for (name, options) in [
        ("tale.txt", &[][..]),
        ("tale.md", &[]),
        ("tale.py", &[]),
        ("tale", &["--c2pa-manifest", "rs"]),
        ("tale.json", &[]),
        ("other.txt", &["--c2pa-manifest", "sidecar"]),
    ] {
        installed.generate(&[&["-o", &file(name)], options].concat()).ok();
        let found = both(&installed, name);
        assert_eq!(found["mark"]["scored"], whole["mark"]["scored"], "{name}");
    }
    assert_eq!(installed.desk.read("other.txt"), plain);
    assert!(installed.desk.has("tale.json.c2pa") && installed.desk.has("other.txt.c2pa"));
}

#[test]
fn json_has_the_text_and_the_signed_text() {
    let installed = Installed::new();
    let lines = installed.generate(&["--json", "--texts", "2"]).ok();
    assert_eq!(lines.lines().count(), 2);
    for (i, line) in lines.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (text, signed) = (line["text"].as_str().unwrap(), line["signed"].as_str().unwrap());
        assert!(signed.starts_with(text) && signed.contains('\u{FEFF}') && !text.contains('\u{FEFF}'));
        assert!(line.get("c2pa_error").is_none());
        let name = format!("{i}.txt");
        installed.desk.write(&name, signed);
        both(&installed, &name);
    }
    let unsigned = verdigris(&["generate", "The captain", "-n", "5", "--json"], "").json();
    assert!(unsigned.get("signed").is_none());
}

/// Cases in which only the mark or only the manifest is intact: the verdicts are independent.
#[test]
fn neither_verdict_leans_on_the_other() {
    let installed = Installed::new();
    let desk = &installed.desk;
    let key = desk.key();
    let status = |name: &str| installed.run(&["verify", &desk.at(name), "--key", &key]).status;
    desk.write("both.txt", installed.generate(&[]).ok());
    assert_eq!(status("both.txt"), 0);

    // Unmarked words, signed with a claim of a mark.
    let unmarked = desk.write("unmarked.txt", "Nobody has marked these words, which somebody has signed. ".repeat(9));
    let claim = ["--scheme", "native", "--key-id", "my"];
    desk.write("lie.txt", desk.sign(&[&[&*unmarked], &claim[..]].concat()).ok());
    let found = installed.verify("lie.txt");
    assert_eq!(found["manifest"]["verdict"], "valid");
    assert_eq!(found["mark"]["verdict"], "not marked");
    assert_eq!(found["notes"], serde_json::json!(["the manifest claims a watermark, but none was found"]));
    assert_eq!(status("lie.txt"), 1);

    // A marked text with one changed letter.
    desk.write("edited.txt", desk.read("both.txt").replacen('e', "a", 1));
    let found = installed.verify("edited.txt");
    assert_eq!(found["manifest"]["verdict"], "invalid");
    assert_eq!(found["mark"]["verdict"], "marked");
    assert_eq!(status("edited.txt"), 4);

    // The manifest was removed.
    desk.write("bare.txt", desk.read("both.txt").split('\u{FEFF}').next().unwrap());
    let found = installed.verify("bare.txt");
    assert_eq!(found["manifest"], serde_json::json!({ "verdict": "absent" }));
    assert_eq!(found["mark"]["verdict"], "marked");
    assert_eq!(status("bare.txt"), 4);

    assert_eq!(status("unmarked.txt"), 5);
    // There is no combined verdict.
    for name in ["both.txt", "lie.txt", "edited.txt", "bare.txt", "unmarked.txt"] {
        let found = installed.verify(name);
        let mut fields: Vec<&String> = found.as_object().unwrap().keys().filter(|&field| field != "notes").collect();
        fields.sort_unstable();
        assert_eq!(fields, ["format", "manifest", "mark", "name"]);
    }
}

#[test]
fn the_number_of_a_manifest_is_compared_with_that_of_the_mark() {
    let installed = Installed::new();
    let desk = &installed.desk;
    let key = desk.at("n.key");
    verdigris(&["key", "new", &key, "--id", "n", "--payload-bits", "8", "--strength", "strong"], "").ok();
    let write =
        ["generate", "The captain", "-n", "250", "--min-tokens", "250", "--seed", "1", "--payload", "7", "--key"];
    let file = desk.write("tale.txt", verdigris(&[&write[..], &[&key]].concat(), "").ok());
    for (number, note) in [("7", None), ("9", Some("the manifest names the number 0x9, but the mark carries 0x7"))] {
        let claim = ["--scheme", "native", "--key-id", "n", "--payload", number];
        desk.write("signed.txt", desk.sign(&[&[&*file], &claim[..]].concat()).ok());
        let verify = ["verify", &desk.at("signed.txt"), "--key", &key, "--json"];
        let found = installed.run(&verify).json();
        assert_eq!(found["manifest"]["watermark"], "c2pa.watermarked.bound");
        assert_eq!(found["notes"].as_array().and_then(|notes| notes[0].as_str()), note, "{found}");
    }
}

#[test]
fn a_key_that_is_not_the_one_named_is_told_of() {
    let installed = Installed::new();
    let desk = &installed.desk;
    desk.write("tale.txt", installed.generate(&[]).ok());
    let other = desk.at("other.key");
    verdigris(&["key", "new", &other, "--id", "other"], "").ok();
    let done = installed.run(&["verify", &desk.at("tale.txt"), "--key", &other]);
    assert_eq!(done.status, 1, "{}", done.out);
    assert!(done.out.contains("the manifest names the key my, which is not among those that were looked for"));
    // A ring with both keys.
    let ring = desk.path("ring");
    std::fs::create_dir(&ring).unwrap();
    for name in ["my.key", "other.key"] {
        std::fs::copy(desk.path(name), ring.join(name)).unwrap();
    }
    let found = c2pa(&["verify", &desk.at("tale.txt"), "--ring", ring.to_str().unwrap(), "--json"], "");
    assert_eq!((found.status, found.json()["mark"]["key_id"].as_str()), (0, Some("my")));
}

#[test]
fn what_cannot_be_signed_is_told_before_anything_is_written() {
    let installed = Installed::new();
    let desk = &installed.desk;
    let bad = desk.write("bad.pem", "no PEM");
    let key = desk.key();
    let given = |certificate: &str, options: &[&str]| {
        let fixed = ["generate", "--key", &key, "--c2pa-cert", certificate, "--c2pa-key", &desk.at("ada.key.pem")];
        installed.run(&[&fixed[..], options].concat()).error()
    };
    let own = desk.at("ada.cert.pem");
    assert!(given(&bad, &[]).contains("the certificate is empty or not PEM"));
    assert!(given(&own, &["--c2pa-manifest", "json"]).contains("is not a location for a manifest"));
    assert!(given(&own, &["--texts", "2"]).contains("a manifest covers one text"));
    assert!(given(&own, &["--c2pa-manifest", "sidecar"]).contains("a sidecar needs a file next to it"));
    assert!(given(&own, &["--c2pa-manifest", "sidecar", "--json"]).contains("a sidecar needs a file next to it"));
    let there = desk.write("there.json.c2pa", "precious");
    assert!(given(&own, &["-o", &desk.at("there.json")]).contains("exists already; --force replaces it"));
    assert_eq!(std::fs::read_to_string(there).unwrap(), "precious");
    assert!(!desk.has("there.json"));
}

/// Without the signing program nothing is generated, and the error says how to build it.
#[test]
fn without_the_program_it_is_said_how_to_build_it() {
    let desk = Desk::new();
    let program = desk.path("verdigris");
    install(&main_program(), &program);
    let alone = |arguments: &[&str]| {
        let done = Command::new(&program).args(arguments).env("PATH", desk.folder.path()).output().unwrap();
        assert_eq!((done.status.code(), &*done.stdout), (Some(2), &b""[..]));
        String::from_utf8(done.stderr).unwrap()
    };
    for said in [
        alone(&["verify", "tale.txt"]),
        alone(&["generate", "--c2pa-cert", &desk.at("ada.cert.pem"), "--c2pa-key", &desk.at("ada.key.pem")]),
    ] {
        assert!(said.contains("verdigris-c2pa, which is neither next to this one nor on the PATH"), "{said}");
        assert!(said.contains("`cargo build --release -p verdigris-c2pa`"), "{said}");
    }
}

/// If the signer fails after the text is complete, the text is not lost.
#[cfg(unix)]
#[test]
fn a_text_is_not_lost_when_its_signer_fails() {
    use std::os::unix::fs::PermissionsExt as _;

    let installed = Installed::new();
    let failing = installed.desk.path("verdigris-c2pa");
    std::fs::remove_file(&failing).unwrap();
    let script =
        "#!/bin/sh\nfor a; do [ \"$a\" = --check ] && echo text && exit 0; done\necho 'error: no ink' >&2\nexit 2\n";
    std::fs::write(&failing, script).unwrap();
    std::fs::set_permissions(&failing, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plain = marked(&installed.desk.key());
    let done = installed.generate(&["-o", &installed.desk.at("tale.txt")]);
    assert_eq!((done.status, &*done.out), (2, ""));
    assert!(done.err.contains(plain.trim()) && done.err.contains("no ink"), "{}", done.err);
    assert!(!installed.desk.has("tale.txt"));
    let done = installed.generate(&["--json"]);
    assert_eq!(done.status, 2);
    assert_eq!(done.json()["c2pa_error"], "no ink");
    assert_eq!(format!("{}\n", done.json()["text"].as_str().unwrap()), plain);
}

#[test]
fn what_is_generated_is_stamped() {
    if !has_openssl() {
        return;
    }
    let installed = Installed::new();
    let desk = &installed.desk;
    let authority = Authority::start(desk, "a", Manner::Honest);
    let stamp = ["--c2pa-timestamp", &authority.url, "--c2pa-require-timestamp"];
    let trust = ["--trust", &desk.at("ada.root.pem"), "--trust-timestamps", &authority.root];
    for name in ["tale.txt", "tale.md", "tale.json"] {
        let asked = authority.requests();
        let done = installed.generate(&[&stamp[..], &["-o", &desk.at(name)]].concat());
        assert_eq!((done.status, &*done.err), (0, ""));
        // The size and a trial before the text is written, and one for its signature.
        assert_eq!(authority.requests() - asked, 3, "{name}");
        let found = desk.verify(name, &trust);
        assert_eq!(found["manifest"]["timestamp"]["verdict"], "trusted", "{found}");
        assert_eq!(found["manifest"]["trusted"], true);
        assert_eq!(both(&installed, name)["manifest"]["timestamp"]["authority"], "Clock a");
    }
    let asked = authority.requests();
    let lines = installed.generate(&[&stamp[..], &["--json", "--texts", "3"]].concat()).ok();
    assert_eq!((lines.lines().count(), authority.requests() - asked), (3, 5));
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        desk.write("one.txt", line["signed"].as_str().unwrap());
        assert_eq!(desk.verify("one.txt", &trust)["manifest"]["timestamp"]["verdict"], "trusted");
    }
}

/// An authority that cannot be reached is found before anything is generated; if it fails later, the text is not lost.
#[test]
fn a_text_is_not_lost_when_its_authority_fails() {
    if !has_openssl() {
        return;
    }
    let installed = Installed::new();
    let desk = &installed.desk;
    let out = desk.at("tale.txt");
    let down = Authority::start(desk, "down", Manner::Failing(0));
    let error = installed.generate(&["--c2pa-timestamp", &down.url, "-o", &out]).error();
    assert!(error.contains("no time stamp from") && error.contains(&down.url), "{error}");
    let plain = marked(&desk.key());
    let failing = Authority::start(desk, "failing", Manner::Failing(2));
    let done = installed.generate(&["--c2pa-timestamp", &failing.url, "-o", &out]);
    assert_eq!((done.status, &*done.out), (2, ""));
    assert!(done.err.contains(plain.trim()), "{}", done.err);
    assert!(done.err.lines().last().unwrap().contains("no time stamp from"), "{}", done.err);
    assert!(!desk.has("tale.txt"));
    let failing = Authority::start(desk, "later", Manner::Failing(2));
    let done = installed.generate(&["--c2pa-timestamp", &failing.url, "--json"]);
    assert_eq!(done.status, 2);
    assert!(done.json()["c2pa_error"].as_str().unwrap().contains("no time stamp from"));
    assert_eq!(format!("{}\n", done.json()["text"].as_str().unwrap()), plain);
}

#[test]
fn every_answer_of_a_batch_is_signed_and_stamped() {
    if !has_openssl() {
        return;
    }
    let installed = Installed::new();
    let desk = &installed.desk;
    let (prompts, answers, key) = (desk.at("in.jsonl"), desk.at("out.jsonl"), desk.key());
    let lines = (0..12).map(|i| format!("{{\"id\": {i}, \"prompt\": \"The captain had {i}\"}}\n"));
    std::fs::write(&prompts, lines.collect::<String>()).unwrap();
    let batch = |url: &str, more: &[&str]| {
        let fixed = ["batch", &prompts, &answers, "--key", &key, "-n", "20", "--seed", "1", "--c2pa-timestamp", url];
        installed.run(&[&fixed[..], &installed.signer().each_ref().map(String::as_str), more].concat())
    };
    let authority = Authority::start(desk, "a", Manner::Honest);
    batch(&authority.url, &["-q"]).ok();
    assert_eq!(authority.requests(), 14, "one for each answer, and two at the start");
    let answers =
        || -> Vec<Value> { desk.read("out.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect() };
    let all = answers();
    assert_eq!(all.len(), 12);
    for answer in &all {
        let (text, signed) = (answer["text"].as_str().unwrap(), answer["signed"].as_str().unwrap());
        assert!(signed.starts_with(text) && signed != text);
        desk.write("one.txt", signed);
        let found = desk.verify("one.txt", &["--trust-timestamps", &authority.root]);
        assert_eq!(found["manifest"]["verdict"], "valid", "{found}");
        assert_eq!(found["manifest"]["timestamp"]["verdict"], "trusted", "{found}");
        assert_eq!(found["manifest"]["soft_bindings"][0]["key_id"], "my");
    }
    // In comments.
    batch(&authority.url, &["-q", "--force", "--c2pa-manifest", "py"]).ok();
    assert!(answers().iter().all(|answer| answer["signed"].as_str().unwrap().starts_with("# -----BEGIN C2PA")));
    // An authority that fails on the way: every answer is there, and says whether it is signed.
    let failing = Authority::start(desk, "failing", Manner::Failing(7));
    let done = batch(&failing.url, &["--force"]);
    assert_eq!(done.status, 3, "{}", done.err);
    assert!(done.err.contains("of 12 answers 7 could not be signed"), "{}", done.err);
    let failed = answers().iter().filter(|answer| answer["c2pa_error"].as_str().is_some()).count();
    assert_eq!((answers().len(), failed), (12, 7));
}
