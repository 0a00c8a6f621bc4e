//! The sample texts in the models' READMEs are the output of their commands.

use std::path::Path;
use std::process::{Command, Stdio};

/// The words of a command line, which may have double quotes and backslashes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(character),
        }
    }
    words.push(word);
    words
}

#[test]
fn samples_are_what_their_commands_write() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut checked = 0;
    for folder in std::fs::read_dir(root.join("fixtures/models")).unwrap() {
        let readme = folder.unwrap().path().join("README.md");
        let Ok(page) = std::fs::read_to_string(&readme) else { continue };
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            let Some(command) = line.strip_prefix("`verdigris ").and_then(|line| line.strip_suffix('`')) else {
                continue;
            };
            let quote = lines.by_ref().skip_while(|line| line.is_empty()).take_while(|line| line.starts_with('>'));
            let shown: Vec<&str> = quote.map(|line| line[1..].trim()).collect();
            let words = words(command);
            let prompt = words.get(1).filter(|word| !word.starts_with('-')).cloned().unwrap_or_default();
            let mut run = Command::new(env!("CARGO_BIN_EXE_verdigris"));
            let output = run.args(&words).current_dir(&root).stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
            let text = prompt + &String::from_utf8(output.stdout).unwrap();
            let written: Vec<&str> = text.trim().lines().map(str::trim).collect();
            let quoted: Vec<String> = written.iter().map(|line| format!("> {line}").trim().to_owned()).collect();
            assert_eq!(shown, written, "{}: {command}\n\n{}\n", readme.display(), quoted.join("\n"));
            checked += 1;
        }
    }
    assert!(checked >= 9, "{checked}");
}
