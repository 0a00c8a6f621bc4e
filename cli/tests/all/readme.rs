//! Runs the commands of README literally, in an empty folder with the program installed.

#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::support::Folder;

const README: &str = include_str!("../../../README.md");

/// The code blocks of README in one language, in order.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let block = |rest: &str| rest.split("\n```").next().expect("a block ends").to_owned();
    README.split(&fence).skip(1).map(block).collect()
}

/// Blocks that build the program are left out. The others are run in one shell, in order.
#[test]
fn every_command_works_in_an_empty_folder() {
    let blocks: Vec<String> = blocks("sh").into_iter().filter(|block| !block.contains("cargo ")).collect();
    assert!(blocks.len() >= 6, "README has lost its commands: {}", blocks.len());
    let folder = Folder::new();
    let program = Path::new(env!("CARGO_BIN_EXE_verdigris"));
    // Not marked (status 1) is a result, not a failure: a sampled text is marked with near certainty only.
    let wrapper = "set -e\nverdigris() { command verdigris \"$@\" || { status=$?; [ $status -eq 1 ]; }; }\n";
    fs::write(folder.path(".commands"), format!("{wrapper}{}\n", blocks.join("\n"))).unwrap();
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = std::process::Command::new("bash");
    // No model is fetched: commands that use the hub are in blocks of another language.
    command.arg("-x").arg(".commands").current_dir(folder.path(".")).env("PATH", path).env("HF_HUB_OFFLINE", "1");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    assert!(output.status.success(), "a command of README fails:\n{last}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Each block of Rust appears in an example, which is compiled.
#[test]
fn every_piece_of_rust_is_compiled() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/verdigris/examples");
    let read = |file: fs::DirEntry| fs::read_to_string(file.path()).unwrap();
    let examples: Vec<String> = fs::read_dir(examples)
        .unwrap()
        .map(Result::unwrap)
        .filter(|file| file.path().extension().is_some_and(|extension| extension == "rs"))
        .map(read)
        .map(|text| lines(&text))
        .collect();
    for block in blocks("rust") {
        let wanted = lines(&block);
        assert!(examples.iter().any(|example| example.contains(&wanted)), "in no example:\n{block}");
    }
}

/// The non-empty lines of a text, trimmed.
fn lines(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
