//! Checks that each fault of `tests/mutants` still applies: its text occurs exactly once in its file.
//! `tests/scripts/mutants` runs them.

use std::fs;
use std::path::Path;

/// The lines of a fault that begin with a sign, without the sign and the space after it.
fn part(fault: &str, sign: char) -> String {
    let lines = fault.lines().skip(1).filter_map(|line| line.strip_prefix(sign));
    lines.map(|line| line.get(1..).unwrap_or_default()).collect::<Vec<_>>().join("\n")
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
            count += 1;
        }
    }
    assert!(count > 60, "{count}");
    assert!(stale.is_empty(), "in no file, or more than once: {stale:#?}");
}
