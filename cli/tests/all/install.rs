//! The installer of releases, on an archive of a script in the role of the program.
#![cfg(unix)]

use std::process::Command;

use crate::support::{Folder, Run};

const VERSION: &str = "9.8.7";

/// The name of the archive for this machine.
fn name() -> String {
    format!("verdigris-{VERSION}-{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// A folder with `install.sh`, and a release in `files`. `None` on a machine that a release has no program for, or that
/// lacks the commands that the installer needs.
fn release() -> Option<Folder> {
    let folder = Folder::new();
    let script = include_str!("../../release/install.sh");
    let url = format!("file://{}", folder.path("files").display());
    folder.write("install.sh", &script.replace("@VERSION@", VERSION).replace("@URL@", &url));
    let made = shell(
        &folder,
        &format!(
            "command -v curl && command -v sha256sum && command -v tar && [ $(uname -s) = Linux ] \
             && mkdir -p files/{0}/man && cd files && printf '#!/bin/sh\\necho {VERSION}\\n' > {0}/verdigris && chmod +x {0}/verdigris \
             && touch {0}/man/verdigris.1 {0}/man/verdigris-detect.1 && tar -czf {0}.tar.gz {0} && rm -r {0} \
             && sha256sum *.tar.gz > SHA256SUMS",
            name()
        ),
    );
    if made.status != 0 {
        eprintln!("*** SKIPPED: the installer needs Linux, curl, sha256sum and tar ***");
        return None;
    }
    Some(folder)
}

fn shell(folder: &Folder, script: &str) -> Run {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder.path(".")).env("HOME", folder.path("home"));
    Run::of(command.env_remove("VERDIGRIS_BIN").env_remove("VERDIGRIS_URL").output().unwrap())
}

#[test]
fn a_release_is_installed() {
    let Some(folder) = release() else { return };
    let run = shell(&folder, "sh install.sh").succeeds();
    assert!(run.out.starts_with("verdigris 9.8.7 is in ") && run.out.contains("export PATH="), "{run:?}");
    assert_eq!(shell(&folder, "home/.local/bin/verdigris").succeeds().out, "9.8.7\n");
    assert!(folder.path("home/.local/share/man/man1/verdigris-detect.1").exists());
    // Into a folder of the PATH, from another address.
    let run = shell(
        &folder,
        "mv files moved; PATH=$PWD/bin:$PATH VERDIGRIS_BIN=$PWD/bin VERDIGRIS_URL=file://$PWD/moved sh install.sh",
    );
    assert!(run.succeeds().out.ends_with("try it: verdigris demo\n") && folder.path("bin/verdigris").exists());
}

#[test]
fn what_is_not_as_released_is_not_installed() {
    for (change, said) in [
        (format!("printf x >> files/{}.tar.gz", name()), "is damaged or was changed: its SHA-256 is "),
        ("rm files/SHA256SUMS".into(), "cannot download file://"),
        (format!("rm files/{}.tar.gz", name()), "cannot download file://"),
        ("echo 'abc  other.tar.gz' > files/SHA256SUMS".into(), "SHA256SUMS has no checksum of verdigris-9.8.7-"),
        ("uname() { echo Plan9; }".into(), "there is a program for Linux on x86-64 and ARM, and not for Plan9"),
    ] {
        let Some(folder) = release() else { return };
        // In the same shell, so that a change may be a function.
        let run = shell(&folder, &format!("{change}; . ./install.sh"));
        assert!(run.status == 1 && run.err.lines().last().unwrap().contains(said), "{change}: {run:?}");
        assert!(!folder.path("home").exists(), "{change}");
    }
    // A part of the script, as of a connection that breaks.
    let Some(folder) = release() else { return };
    shell(&folder, "head -n 70 install.sh | sh");
    assert!(!folder.path("home").exists());
}
