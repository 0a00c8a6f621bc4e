//! The pages of `docs/tutorial`, followed literally: each command in order, in a folder that is empty at first, with
//! its output compared with the page.
//!
//! A block of commands begins with ```` ```console ````, which may be followed by words that readers do not see:
//!
//! | word | meaning |
//! |---|---|
//! | `varies` | chance or timing decides the numbers: they are not compared, nor are gaps between words |
//! | `sample` | chance or timing decides more: only the success of the command is checked |
//! | `hub` | needs SmolLM2: run if `VERDIGRIS_SMOLLM2` is the path of a file of it (`tests/scripts/real-models`) |
//!
//! A command that ends with a status other than 0 is followed by `echo $?`, which shows it. `VERDIGRIS_UPDATE=1`
//! rewrites the output in the pages, so that `git diff` shows what has changed.

#![cfg(unix)]

mod support;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::Folder;

/// The name of the model on the pages, in blocks that need one.
const HUB_NAME: &str = "HuggingFaceTB/SmolLM2-135M-Instruct";

/// How the output is compared with a page.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Compared {
    Exactly,
    UpToNumbers,
    NotAtAll,
}

/// A command of a page, and its output there.
#[derive(Debug, PartialEq)]
struct Shown {
    /// The page and the line.
    place: String,
    command: String,
    output: String,
    /// The lines of the page with this output, counted from 0.
    lines: Range<usize>,
    compared: Compared,
    needs_hub: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorial")
}

/// The pages in their order.
fn pages() -> Vec<(String, String)> {
    let files = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let mut pages: Vec<(String, String)> = files
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(path).unwrap()))
        .collect();
    pages.sort();
    pages
}

/// The commands of a page.
fn commands(name: &str, page: &str) -> Vec<Shown> {
    let (mut all, mut block): (Vec<Shown>, Option<(Compared, bool)>) = (Vec::new(), None);
    let lines: Vec<&str> = page.lines().collect();
    let mut next = 0;
    while let Some(&line) = lines.get(next) {
        let number = next;
        next += 1;
        let place = format!("docs/tutorial/{name}:{}", number + 1);
        let Some((compared, needs_hub)) = block else {
            if let Some(words) = line.strip_prefix("```console") {
                let mut begun = (Compared::Exactly, false);
                for word in words.split_whitespace() {
                    match word {
                        "varies" => begun.0 = Compared::UpToNumbers,
                        "sample" => begun.0 = Compared::NotAtAll,
                        "hub" => begun.1 = true,
                        _ => panic!("{place}: unknown word {word:?}"),
                    }
                }
                block = Some(begun);
            }
            continue;
        };
        if line == "```" {
            block = None;
        } else if let Some(command) = line.strip_prefix("$ ") {
            let mut command = command.to_owned();
            let mut until = here_document(&command);
            while until.is_some() || command.ends_with('\\') {
                let line = *lines.get(next).unwrap_or_else(|| panic!("{place}: the command has no end"));
                next += 1;
                command += &format!("\n{line}");
                until = until.filter(|end| end != line).or_else(|| here_document(line));
            }
            all.push(Shown { place, command, output: String::new(), lines: next..next, compared, needs_hub });
        } else {
            let shown = all.last_mut().unwrap_or_else(|| panic!("{place}: output without a command"));
            shown.output += &format!("{line}\n");
            shown.lines.end = number + 1;
        }
    }
    assert_eq!(block, None, "{name}: a block has no end");
    all
}

/// The word that ends the here-document which begins in a line of a command, if one does.
fn here_document(line: &str) -> Option<String> {
    let (_, end) = line.split_once("<<'")?;
    Some(end.split('\'').next()?.to_owned())
}

/// An output with `#` instead of numbers, and without the width of gaps.
fn without_numbers(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for line in text.lines() {
        for word in line.split_whitespace() {
            // Key ids have letters too.
            let id = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            if id.starts_with("vg-") {
                words.push(word.replace(id, "vg-#"));
                continue;
            }
            let (mut shape, mut characters) = (String::new(), word.chars().peekable());
            while let Some(c) = characters.next() {
                if !c.is_ascii_digit() {
                    shape.push(c);
                    continue;
                }
                shape.push('#');
                while characters.next_if(|&c| c.is_ascii_digit() || ".,e-".contains(c)).is_some() {}
            }
            words.push(shape.replace("-#", "#"));
        }
        words.push("\n".into());
    }
    words.join(" ")
}

#[test]
fn every_page_is_what_happens() {
    let model = std::env::var("VERDIGRIS_SMOLLM2").ok();
    let all: Vec<Shown> = pages().iter().flat_map(|(name, page)| commands(name, page)).collect();
    let to_run: Vec<&Shown> = all.iter().filter(|shown| !shown.needs_hub || model.is_some()).collect();
    assert!(to_run.len() > 30, "the pages have lost their commands: {}", to_run.len());
    let (folder, notes) = (Folder::new(), Folder::new());
    let mut script = String::new();
    for (i, shown) in to_run.iter().enumerate() {
        let command = match &model {
            Some(model) => shown.command.replace(HUB_NAME, model),
            None => shown.command.clone(),
        };
        let note = notes.path(&i.to_string());
        // In one shell, so that each command finds the files and the status that the earlier ones left.
        script += &format!(
            "{{ {command}\n}} > {0}.out 2>&1; status=$?; echo $status > {0}.status; (exit $status)\n",
            note.display()
        );
    }
    notes.write("script", &script);
    let program = Path::new(env!("CARGO_BIN_EXE_verdigris"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command.arg(notes.path("script")).current_dir(folder.path(".")).stdin(Stdio::null());
    command.env("PATH", path).env("HF_HOME", notes.path("home")).env("HF_HUB_OFFLINE", "1");
    command.env_remove("NO_COLOR").env_remove("RUST_LOG").env_remove("COLUMNS");
    command.status().unwrap();
    if std::env::var_os("VERDIGRIS_UPDATE").is_some() {
        return update(&to_run, |i| {
            let out = fs::read_to_string(notes.path(&format!("{i}.out"))).unwrap();
            model.as_ref().map_or(out.clone(), |model| out.replace(model, HUB_NAME))
        });
    }
    let note = |i: usize, what: &str| fs::read_to_string(notes.path(&format!("{i}.{what}"))).unwrap_or_default();
    for (i, shown) in to_run.iter().enumerate() {
        let Shown { place, command, output, compared, .. } = shown;
        let (out, status) = (note(i, "out"), note(i, "status"));
        let is_shown = to_run.get(i + 1).is_some_and(|next| next.command == "echo $?");
        assert!(status.trim() == "0" || is_shown, "{place}: {command}\nends with {status}{out}");
        match compared {
            Compared::Exactly => assert_eq!(out, *output, "{place}: {command}"),
            Compared::UpToNumbers => {
                // A sampled text may or may not have white space to repair, which takes another look.
                let unrepaired = |text: &str| -> String {
                    text.split_inclusive('\n').filter(|line| !line.starts_with("repaired ")).collect()
                };
                let shape = |text: &str| without_numbers(&unrepaired(text)).replace(" (# times # looks)", "");
                assert_eq!(shape(&out), shape(output), "{place}: {command}\nshows\n{out}");
            }
            Compared::NotAtAll => assert!(!out.contains("panicked"), "{place}: {command}\n{out}"),
        }
    }
}

/// Writes the output of commands into their pages.
fn update(shown: &[&Shown], out: impl Fn(usize) -> String) {
    for (name, page) in pages() {
        let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
        let is_here = |shown: &Shown| shown.place.starts_with(&format!("docs/tutorial/{name}:"));
        // From the last, so that the line numbers of the others stay valid.
        for (i, shown) in shown.iter().enumerate().rev().filter(|(_, shown)| is_here(shown)) {
            lines.splice(shown.lines.clone(), out(i).lines().map(str::to_owned));
        }
        fs::write(folder().join(&name), lines.join("\n") + "\n").unwrap();
    }
}

/// Five pages, each short enough for one sitting. README links to each, and each page to the next.
#[test]
fn pages_lead_to_each_other() {
    let pages = pages();
    let readme = include_str!("../../README.md");
    assert_eq!(pages.len(), 5);
    for (i, (name, page)) in pages.iter().enumerate() {
        let lines = page.lines().count();
        assert!((60..=140).contains(&lines), "{name} has {lines} lines");
        assert!(readme.contains(&format!("docs/tutorial/{name}")), "README does not lead to {name}");
        if let Some((next, _)) = pages.get(i + 1) {
            assert!(page.contains(&format!("({next})")), "{name} does not lead to {next}");
        }
        assert!(page.contains(HUB_NAME), "{name} does not mention a real model");
    }
}

#[test]
fn a_page_is_understood_as_a_reader_does() {
    let page =
        "text\n```sh\n$ no\n```\n```console varies hub\n$ a \\\n    b\nout\n\n$ cat > f <<'END'\n$ in it\nEND\n```\n";
    let shown = |line: usize, command: &str, output: &str, lines: Range<usize>| Shown {
        place: format!("docs/tutorial/p:{line}"),
        command: command.into(),
        output: output.into(),
        lines,
        compared: Compared::UpToNumbers,
        needs_hub: true,
    };
    let expected = [shown(6, "a \\\n    b", "out\n\n", 7..9), shown(10, "cat > f <<'END'\n$ in it\nEND", "", 12..12)];
    assert_eq!(commands("p", page), expected);
    let alike = [("p   1.2e-30 marked (vg-12ab, x)", "p 0.5 marked (vg-ffff, x)"), ("12 of 40", "7 of 9")];
    assert!(alike.iter().all(|(a, b)| without_numbers(a) == without_numbers(b)));
    assert_ne!(without_numbers("marked 1"), without_numbers("not marked 1"));
    assert_ne!(without_numbers("a\nb"), without_numbers("a b"));
}
