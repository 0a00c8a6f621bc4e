//! Manifests are written by another program, `verdigris-c2pa`: its arguments, the use of its output, and the error if
//! it is missing. `crates/c2pa/tests` tests the program itself.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{install, write_script};

/// A folder with a copy of the program, which finds no other programs.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        install(&folder.path().join("verdigris"));
        Self { folder }
    }

    /// Adds a stand-in for verdigris-c2pa, which answers `--check` with `place` and records its arguments in `calls`.
    fn with(place: &str) -> Self {
        Self::signing(place, "/bin/cat && printf SIGNED")
    }

    /// The same with a script that signs.
    fn signing(place: &str, script: &str) -> Self {
        let here = Self::new();
        let path = here.folder.path().join("verdigris-c2pa");
        let script = format!(
            "#!/bin/sh\nprintf '%s|' \"$@\" >> {}\nfor a; do [ \"$a\" = --check ] && echo {place} && exit 0; done\n\
             {script}\n",
            here.folder.path().join("calls").display()
        );
        write_script(&path, &script);
        here
    }

    /// Writes `count` prompts to `in.jsonl`, and answers them.
    fn batch(&self, count: usize, options: &[&str]) -> Output {
        let lines: String = (0..count).map(|i| format!("{{\"id\": {i}, \"prompt\": \"The captain {i}\"}}\n")).collect();
        fs::write(self.folder.path().join("in.jsonl"), lines).unwrap();
        let fixed = ["batch", "in.jsonl", "out.jsonl", "-n", "4", "--seed", "1", "--c2pa-cert", "a.pem"];
        self.run(&[&fixed[..], &["--c2pa-key", "k.pem"], options].concat())
    }

    fn answers(&self) -> Vec<Value> {
        self.read("out.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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
    let told = format!("{fixed}--manifest|text|--model=tale|--output|-|--scheme|native|--key-id=my|");
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
    assert!(place.read("calls").contains("--manifest|md|--model=tale|"), "{}", place.read("calls"));
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

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn time_stamps_and_commands_are_passed_on() {
    // The size of a stamp is found out once.
    let place = Place::with("text 1500");
    let fixed = ["generate", "The captain", "-n", "4", "--seed", "1", "--c2pa-cert", "a.pem"];
    let stamp = ["--c2pa-timestamp", "http://tsa.example.com", "--c2pa-require-timestamp"];
    let done = place.run(&[&fixed[..], &["--c2pa-sign-command", "x 'a b' | c"], &stamp].concat());
    assert_eq!((out(&done).is_empty(), &*said(&done)), (false, ""));
    let signer = "sign|-|--certificate|a.pem|--sign-command=x 'a b' | c|--timestamp-url=http://tsa.example.com|";
    assert_eq!(
        place.read("calls"),
        format!(
            "{signer}--check|--manifest|text|{signer}--timestamp-size=1500|--manifest|text|--model=tale|--output|-|"
        )
    );
    for (options, fault) in [
        (&["--c2pa-key", "k", "--c2pa-sign-command", "c"][..], "cannot be used with"),
        (&[][..], "--c2pa-key"),
        (&["--c2pa-key", "k", "--c2pa-require-timestamp"], "give --c2pa-timestamp"),
    ] {
        let done = place.run(&[&fixed[..], options].concat());
        assert_eq!((done.status.code(), &*done.stdout), (Some(2), &b""[..]));
        assert!(said(&done).contains(fault), "{}", said(&done));
    }
}

#[test]
fn signatures_without_a_time_stamp_are_warned_of() {
    let place = Place::with("text");
    let warning = "warning: the signatures have no time stamp, which the EU's code of practice (measure 1.1.1) asks \
                   for: give --c2pa-timestamp\n";
    assert_eq!(said(&place.generate(&[])), warning);
    assert_eq!(said(&place.generate(&["--quiet"])), "");
    assert_eq!(said(&place.batch(1, &[])), warning);
}

#[test]
fn every_answer_of_a_batch_is_signed() {
    let place = Place::with("text");
    out(&place.run(&["key", "new", "my.key", "--id", "my"]));
    out(&place.batch(40, &["-k", "my.key", "-q"]));
    let answers = place.answers();
    let mut lines: Vec<u64> = answers.iter().map(|answer| answer["line"].as_u64().unwrap()).collect();
    lines.sort_unstable();
    assert!(lines.into_iter().eq(1..=40));
    for answer in &answers {
        assert_eq!(answer["signed"], format!("{}SIGNED", answer["text"].as_str().unwrap()), "{answer}");
        assert!(answer.get("c2pa_error").is_none());
    }
    let signing = "--manifest|text|--model=tale|--output|-|--scheme|native-gumbel|--key-id=my|";
    assert_eq!(place.read("calls").matches(signing).count(), 40);
    // All are there: nothing is signed again.
    out(&place.batch(40, &["-k", "my.key", "-q"]));
    assert_eq!(place.read("calls").matches(signing).count(), 40);
    // An unsigned batch is another one.
    let other = place.run(&["batch", "in.jsonl", "out.jsonl", "-n", "4", "--seed", "1", "-k", "my.key", "-q"]);
    assert!(said(&other).contains("has answers of another command"), "{}", said(&other));
}

/// An answer that cannot be signed is kept, with the reason, and the others are signed.
#[test]
fn an_answer_of_a_batch_that_is_not_signed_is_not_lost() {
    let place = Place::signing(
        "text",
        "read -r text; case \"$text\" in *a*) echo 'error: no ink' >&2; exit 2;; esac; printf %s \"$text\" SIGNED",
    );
    let done = place.batch(30, &[]);
    let answers = place.answers();
    assert_eq!(answers.len(), 30);
    let (signed, failed): (Vec<&Value>, Vec<&Value>) =
        answers.iter().partition(|answer| answer.get("c2pa_error").is_none());
    assert!(failed.iter().all(|answer| answer["c2pa_error"] == "no ink" && answer["text"].is_string()));
    assert!(failed.iter().all(|answer| answer.get("signed").is_none()));
    assert!(signed.iter().all(|answer| answer["signed"].as_str().unwrap().ends_with("SIGNED")));
    assert!(!failed.is_empty(), "{answers:?}");
    assert_eq!(done.status.code(), Some(3));
    let warning = format!("of 30 answers {} could not be signed; see \"c2pa_error\" in out.jsonl", failed.len());
    assert!(said(&done).contains(&warning), "{}", said(&done));
    // Resumed, it says so again.
    let again = place.batch(30, &[]);
    assert!(again.status.code() == Some(3) && said(&again).contains(&warning), "{}", said(&again));
}

#[test]
fn a_batch_that_cannot_be_signed_is_not_begun() {
    let place = Place::with("sidecar");
    let done = place.batch(2, &["--c2pa-manifest", "sidecar"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(said(&done).contains("has no sidecars: give another --c2pa-manifest, such as text"), "{}", said(&done));
    assert!(!place.has("out.jsonl"));
    let done = Place::new().batch(2, &[]);
    assert!(done.status.code() == Some(2) && said(&done).contains("-p verdigris-c2pa`"), "{}", said(&done));
}
