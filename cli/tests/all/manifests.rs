//! Manifests are written by another program, `verdigris-c2pa`: its arguments, the use of its output, and the error if
//! it is missing. `crates/c2pa/tests` tests the program itself.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a copy of the program, which finds no other programs.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(env!("CARGO_BIN_EXE_verdigris"), folder.path().join("verdigris")).unwrap();
        Self { folder }
    }

    /// Adds a stand-in for verdigris-c2pa, which answers `--check` with `place` and records its arguments in `calls`.
    fn with(place: &str) -> Self {
        let here = Self::new();
        let path = here.folder.path().join("verdigris-c2pa");
        let script = format!(
            "#!/bin/sh\nprintf '%s|' \"$@\" >> {}\nfor a; do [ \"$a\" = --check ] && echo {place} && exit 0; done\n\
             /bin/cat && printf SIGNED\n",
            here.folder.path().join("calls").display()
        );
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        here
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.folder.path().join("verdigris"));
        command.args(arguments).env("PATH", self.folder.path().join("none")).current_dir(&self.folder);
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn generate(&self, options: &[&str]) -> Output {
        let fixed =
            ["generate", "The captain", "-n", "4", "--seed", "1", "--c2pa-cert", "a.pem", "--c2pa-key", "k.pem"];
        self.run(&[&fixed[..], options].concat())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn has(&self, name: &str) -> bool {
        Path::new(&self.folder.path().join(name)).exists()
    }
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_text_is_handed_over_whole_with_what_is_known_of_it() {
    let place = Place::with("text");
    out(&place.run(&["key", "new", "my.key", "--id", "my", "--dialect", "native"]));
    let plain = out(&place.run(&["generate", "The captain", "-n", "4", "--seed", "1", "-k", "my.key"]));
    assert_eq!(out(&place.generate(&["-k", "my.key"])), format!("{plain}SIGNED"));
    let fixed = "sign|-|--certificate|a.pem|--private-key|k.pem|";
    let asked = format!("{fixed}--check|--manifest|text|");
    let told = format!("{fixed}--manifest|text|--model|tale|--output|-|--scheme|native|--key-id|my|");
    assert_eq!(place.read("calls"), format!("{asked}{told}"));

    out(&place.generate(&["-k", "my.key", "-o", "a.txt"]));
    assert_eq!(place.read("a.txt"), format!("{plain}SIGNED"));
    let lines = out(&place.generate(&["-k", "my.key", "--json", "--texts", "2"]));
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["signed"], format!("{}SIGNED", line["text"].as_str().unwrap()));
    }
}

#[test]
fn a_format_is_handed_on_and_a_sidecar_is_written_beside_its_text() {
    let place = Place::with("structured");
    out(&place.generate(&["-o", "a.md"]));
    assert!(place.read("calls").contains("--check|--named|a.md|"), "{}", place.read("calls"));
    assert!(place.read("calls").contains("--manifest|md|--model|tale|"), "{}", place.read("calls"));
    assert!(!place.has("a.md.c2pa"));

    let place = Place::with("sidecar");
    out(&place.generate(&["-o", "a.json"]));
    let text = place.read("a.json");
    assert!(!text.contains("SIGNED") && place.read("a.json.c2pa") == format!("{text}SIGNED"));
    let refused = place.generate(&["-o", "a.json"]);
    assert_eq!(refused.status.code(), Some(2));
    out(&place.generate(&["-o", "a.json", "--force"]));
    fs::remove_file(place.folder.path().join("a.json")).unwrap();
    let refused = place.generate(&["-o", "a.json"]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("a.json.c2pa exists already; --force replaces it"), "{said}");
    assert!(!place.has("a.json"));
    for options in [&[][..], &["--json"], &["--json", "-o", "b.json"]] {
        let said = String::from_utf8(place.generate(options).stderr).unwrap();
        assert!(said.contains("a sidecar needs a file next to it"), "{said}");
    }
}

#[test]
fn verify_is_the_other_program() {
    let place = Place::with("text");
    out(&place.run(&["verify", "a.txt", "--help", "--check"]));
    assert_eq!(place.read("calls"), "verify|a.txt|--help|--check|");
    let place = Place::new();
    for arguments in [&["verify", "a.txt"][..], &["generate", "--c2pa-cert", "a.pem", "--c2pa-key", "k.pem"]] {
        let missing = place.run(arguments);
        assert_eq!((missing.status.code(), &*missing.stdout), (Some(2), &b""[..]));
        let said = String::from_utf8(missing.stderr).unwrap();
        assert!(said.contains("verdigris-c2pa") && said.contains("-p verdigris-c2pa`"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    let half = place.run(&["generate", "--c2pa-cert", "a.pem"]);
    assert_eq!(half.status.code(), Some(2));
}
