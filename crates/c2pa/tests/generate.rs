//! The main program signs its texts and passes texts on to be judged; marks and manifests are judged separately.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{Desk, c2pa, main_program, marked, run, verdigris};
use serde_json::Value;

/// The main program with the signing program next to it, as installed.
struct Installed {
    desk: Desk,
    program: PathBuf,
}

impl Installed {
    fn new() -> Self {
        let desk = Desk::new();
        let program = desk.path("verdigris");
        std::fs::copy(main_program(), &program).unwrap();
        std::fs::copy(common::PROGRAM, desk.path("verdigris-c2pa")).unwrap();
        Self { desk, program }
    }

    fn run(&self, arguments: &[&str]) -> common::Done {
        run(&self.program, arguments, b"")
    }

    fn generate(&self, options: &[&str]) -> common::Done {
        let (certificate, key) = (self.desk.at("ada.cert.pem"), self.desk.at("ada.key.pem"));
        let fixed = ["generate", "The captain", "--key", &self.desk.key(), "-n", "120", "--seed", "1"];
        self.run(&[&fixed[..], &["--c2pa-cert", &certificate, "--c2pa-key", &key], options].concat())
    }

    fn verify(&self, name: &str) -> Value {
        self.run(&["verify", &self.desk.at(name), "--key", &self.desk.key(), "--json"]).json()
    }
}

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
    std::fs::copy(main_program(), &program).unwrap();
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
