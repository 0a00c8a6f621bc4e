//! `verdigris scan` runs another program: its arguments and output, and the error if it is missing.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `verdigris scan` with `path` as the whole search path.
fn scan(program: &Path, path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("scan").args(arguments).env("PATH", path).stdin(Stdio::null());
    command.output().unwrap()
}

/// Writes a stand-in for verdigris-scan, which prints `name` and its arguments and ends with status 42.
fn stand_in(folder: &Path, name: &str) {
    let path = folder.join("verdigris-scan");
    fs::write(&path, format!("#!/bin/sh\nprintf '%s|' {name} \"$@\"\nexit 42\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn another_program_scans() {
    let [here, there] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let program = here.path().join("verdigris");
    fs::copy(env!("CARGO_BIN_EXE_verdigris"), &program).unwrap();
    let arguments = ["lake/", "--sql", "SELECT 1", "--help"];

    let missing = scan(&program, there.path(), &arguments);
    assert_eq!(missing.status.code(), Some(2));
    let fault = String::from_utf8(missing.stderr).unwrap();
    assert!(fault.contains("verdigris-scan") && fault.contains("-p verdigris-datafusion`"), "{fault}");
    assert_eq!(fault.lines().count(), 1, "{fault}");

    let told = |name: &str| (Some(42), format!("{name}|lake/|--sql|SELECT 1|--help|"));
    let said = || {
        let output = scan(&program, there.path(), &arguments);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    stand_in(there.path(), "on-the-path");
    assert_eq!(said(), told("on-the-path"));
    stand_in(here.path(), "beside");
    assert_eq!(said(), told("beside"), "the one next to the program comes first");
}
