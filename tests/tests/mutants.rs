//! Checks that each fault of `tests/mutants` still applies: its text occurs exactly once in its file, and its test
//! exists. `tests/scripts/mutants` runs them.

use std::fs;
use std::path::{Path, PathBuf};

/// The lines of a fault that begin with a sign, without the sign and the space after it.
fn part(fault: &str, sign: char) -> String {
    let lines = fault.lines().skip(1).filter_map(|line| line.strip_prefix(sign));
    lines.map(|line| line.get(1..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The source files of a package.
fn sources(package: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut open = vec![match package.strip_prefix("verdigris-") {
        Some("cli") => root.join("cli"),
        Some("tests") => root.join("tests"),
        Some("engine") => root.join("crates/verdigris"),
        Some(name) => root.join("crates").join(name),
        None => root.join("crates").join(package),
    }];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.extension() {
                None if path.is_dir() => open.push(path),
                Some(kind) if kind == "rs" => files.push(path),
                _ => (),
            }
        }
    }
    files
}

/// Whether a package has the test that a line names, in a module, a file or a folder of the name before that of the
/// test. Tests of properties have arguments.
fn exists(test: &str) -> bool {
    let (package, test) = test.split_once(' ').unwrap();
    let mut parts = test.rsplit([':', ' ']).filter(|part| !part.is_empty() && *part != "tests");
    let (definition, at) = (format!("fn {}(", parts.next().unwrap()), parts.next().unwrap());
    let module = format!("mod {at} {{");
    sources(package).iter().any(|file| {
        let code = fs::read_to_string(file).unwrap();
        let is_of_name = file.iter().any(|part| Path::new(part).with_extension("") == Path::new(at));
        code.contains(&definition) && (is_of_name || code.contains(&module))
    })
}

#[test]
fn every_fault_can_be_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut count, mut stale) = (0, Vec::new());
    for entry in fs::read_dir(root.join("tests/mutants")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect();
        for fault in text.split("\n\n").map(str::trim_start).filter(|fault| !fault.is_empty()) {
            let name = fault.lines().next().unwrap_or_default();
            let file = fault.lines().find_map(|line| line.strip_prefix("file: ")).expect(name);
            let code = fs::read_to_string(root.join(file)).unwrap_or_default();
            let (old, new) = (part(fault, '-'), part(fault, '+'));
            if code.matches(&old).count() != 1 || old == new {
                stale.push(format!("{name} ({file})"));
            }
            let test = fault.lines().find_map(|line| line.strip_prefix("test: ")).expect(name);
            if !exists(test) {
                stale.push(format!("{name} (no {test})"));
            }
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
    assert!(stale.is_empty(), "in no file, more than once, or without a test: {stale:#?}");
}
