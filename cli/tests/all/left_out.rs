//! Messages of a program built without features about what it lacks: `cargo test --release -p verdigris-cli
//! --no-default-features`.
#![cfg(not(any(feature = "hub", feature = "parquet", feature = "serve", feature = "train")))]

use std::process::{Command, Stdio};

/// The one-line error of a command that fails.
fn fault(arguments: &[&str]) -> String {
    let mut run = Command::new(env!("CARGO_BIN_EXE_verdigris"));
    let output = run.args(arguments).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let fault = String::from_utf8(output.stderr).unwrap();
    assert_eq!(fault.lines().count(), 1, "{fault}");
    fault
}

#[test]
fn what_is_left_out_names_its_feature() {
    for command in [&["train", "lm", "--corpus", "a.txt", "--out", "b"][..], &["train"], &["bench", "loss", "--help"]] {
        assert!(fault(command).contains("build it with `--features train`"), "{command:?}: {}", fault(command));
    }
    assert!(fault(&["serve", "--port", "0"]).contains("build it with `--features serve`"));
    let of_hub = fault(&["generate", "--model", "owner/name"]);
    assert!(of_hub.contains("the feature `hub`, which fetches models"), "{of_hub}");
    let folder = tempfile::tempdir().unwrap();
    let [key, texts] = ["key", "texts.parquet"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let new = Command::new(env!("CARGO_BIN_EXE_verdigris")).args(["key", "new", &key]).output().unwrap();
    assert!(new.status.success());
    std::fs::write(&texts, "PAR1").unwrap();
    let detect =
        Command::new(env!("CARGO_BIN_EXE_verdigris")).args(["detect", "--key", &key, &texts]).output().unwrap();
    let of_parquet = String::from_utf8(detect.stdout).unwrap();
    assert_eq!(detect.status.code(), Some(2), "{of_parquet}");
    assert!(of_parquet.contains("the feature `parquet`, which reads such files"), "{of_parquet}");
}
