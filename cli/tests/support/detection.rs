//! Texts to judge, and the verdicts of `detect` on them.

use super::{Folder, Run};

/// A text that is not marked.
pub const PLAIN: &str = "Many words stand in this text, and none of them is marked at all. ";

/// A text that `my.key` has marked.
pub fn marked(folder: &Folder) -> String {
    folder.run(&["generate", "--key", "my.key", "--seed", "3", "--max-tokens", "120"]).out
}

/// Runs `detect` with `my.key`.
pub fn detect(folder: &Folder, arguments: &[&str]) -> Run {
    folder.run(&[&["detect", "--key", "my.key"], arguments].concat())
}

/// The verdict of each JSON line.
pub fn verdicts(run: &Run) -> Vec<String> {
    run.lines().iter().map(|line| line["verdict"].as_str().unwrap().to_owned()).collect()
}
