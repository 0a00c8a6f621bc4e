//! Ctrl-C and `kill`: no partial output is left behind, and a message says so.
#![cfg(unix)]

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use crate::support::{Folder, until};

fn entries(folder: &Folder) -> Vec<String> {
    let entries = fs::read_dir(folder.path(".")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn begun(folder: &Folder, arguments: &[&str], is_under_way: impl Fn(&Folder) -> bool) -> Child {
    let mut command = folder.command(arguments);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until(|| is_under_way(folder), || format!("{arguments:?} does not begin"));
    child
}

/// Sends a signal. Returns the signal that ended the process, and its standard error.
fn ended(child: Child, signal: &str) -> (Option<i32>, String) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    (output.status.signal(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn an_output_that_is_not_whole_is_removed() {
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let folder = Folder::new();
        let write = ["generate", "The captain", "--texts", "4000", "--output", "out.txt", "--quiet"];
        let child = begun(&folder, &write, |folder| entries(folder).iter().any(|name| name.ends_with(".part")));
        let (by, said) = ended(child, signal);
        assert_eq!((by, &*said), (Some(number), "interrupted: the unfinished output was removed\n"));
        assert!(entries(&folder).is_empty(), "{:?}", entries(&folder));
    }
}

#[test]
fn a_batch_says_that_it_can_be_resumed() {
    let folder = Folder::new();
    folder.write("in.jsonl", &"{\"prompt\": \"The captain\"}\n".repeat(4000));
    let batch = ["batch", "in.jsonl", "out.jsonl", "--max-tokens", "20", "--quiet"];
    let child = begun(&folder, &batch, |folder| {
        fs::read(folder.path("out.jsonl")).is_ok_and(|answers| answers.contains(&b'\n'))
    });
    let (by, said) = ended(child, "-INT");
    assert_eq!((by, &*said), (Some(2), "interrupted: the same command resumes out.jsonl\n"));
    let mut left = entries(&folder);
    left.sort();
    assert_eq!(left, ["in.jsonl", "out.jsonl"]);
}
